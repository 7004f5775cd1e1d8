package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
	"github.com/redislockservice/redislockservice/lockservice"
)

// waits is what the waiting goroutines tell.
type waits struct {
	stop   context.CancelFunc
	served atomic.Int64
	last   atomic.Int64 // when the last was served
	failed atomic.Pointer[error]
}

type waitArgs struct {
	Name string
	N    int
}

// wait starts goroutines that wait for one name: what each takes in memory, its stack
// and the goroutine itself included.
func (w *worker) wait(a waitArgs) (values, error) {
	if err := w.once(lockservice.WriteLock("first-" + a.Name)); err != nil {
		return nil, err
	}
	heap, stacks := rig.HeapAndStacks()
	var ctx context.Context
	ctx, w.waits.stop = context.WithCancel(context.Background())
	for range a.N {
		w.waiting.Go(func() { w.waitOnce(ctx, a.Name) })
	}
	// All have asked by then; nothing tells it from outside.
	time.Sleep(500*time.Millisecond + time.Duration(a.N)*100*time.Microsecond)
	return memoryPer(a.N, heap, stacks), nil
}

func (w *worker) waitOnce(ctx context.Context, name string) {
	a, err := w.svc.Acquire(ctx, []lockservice.Lock{lockservice.WriteLock(name)}, lockservice.WithTimeout(time.Minute))
	if err == nil {
		w.waits.served.Add(1)
		w.waits.last.Store(int64(rig.Now()))
		err = a.Release(context.Background())
	}
	if err != nil && ctx.Err() == nil {
		w.waits.failed.Store(&err)
	}
}

type drained struct {
	Served int64
	Last   time.Duration
}

// drain waits until all are served, but no longer than a time, and sends the others
// home.
func (w *worker) drain(long time.Duration) (drained, error) {
	done := make(chan struct{})
	go func() {
		w.waiting.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(long):
	}
	d := drained{w.waits.served.Load(), time.Duration(w.waits.last.Load())}
	w.waits.stop()
	<-done
	if err := w.waits.failed.Load(); err != nil {
		return d, errors.New((*err).Error())
	}
	return d, nil
}
