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
	if err := w.waitInVain("first-" + a.Name); err != nil {
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

// waitInVain has the process make what its first waiter makes for all.
func (w *worker) waitInVain(name string) error {
	lock := []lockservice.Lock{lockservice.WriteLock(name)}
	held, err := w.acquire(lock...)
	if err != nil {
		return err
	}
	_, err = w.svc.Acquire(context.Background(), lock, lockservice.WithTimeout(50*time.Millisecond))
	if !errors.Is(err, lockservice.ErrNotAcquired) {
		return errors.Join(errors.New("a held lock was acquired"), err)
	}
	return held.Release(context.Background())
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

type drainArgs struct {
	Long    time.Duration
	Profile string // a file, or none
}

type drained struct {
	Served int64
	Last   time.Duration
}

// drain waits until all are served, but no longer than a time, and sends the others
// home.
func (w *worker) drain(a drainArgs) (drained, error) {
	stop, err := profileCPU(a.Profile)
	if err != nil {
		return drained{}, err
	}
	defer stop()
	done := make(chan struct{})
	go func() {
		w.waiting.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(a.Long):
	}
	d := drained{w.waits.served.Load(), time.Duration(w.waits.last.Load())}
	w.waits.stop()
	<-done
	if err := w.waits.failed.Load(); err != nil {
		return d, errors.New((*err).Error())
	}
	return d, nil
}
