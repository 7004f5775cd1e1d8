package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
	"github.com/redislockservice/redislockservice/lockservice"
)

const workerRole = "ours"

// workerConfig is what a process is started with.
type workerConfig struct {
	Addr  string
	Lease time.Duration
}

// worker is one process with one service.
type worker struct {
	svc *lockservice.RedisLockService

	mu      sync.Mutex // guards held, while take runs
	held    []*lockservice.Acquisition
	heap    float64 // before take
	stacks  float64
	waiting sync.WaitGroup
	waits   waits
}

func runWorker(text json.RawMessage) (map[string]rig.Handler, func(), error) {
	var c workerConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, nil, err
	}
	ctx := context.Background()
	svc, err := lockservice.Open(ctx, "redis://"+c.Addr+"/0", lockservice.WithLeaseTime(c.Lease))
	if err != nil {
		return nil, nil, err
	}
	w := &worker{svc: svc}
	return map[string]rig.Handler{
		"wait":    rig.Handle(w.wait),
		"drain":   rig.Handle(w.drain),
		"take":    rig.Handle(w.take),
		"memory":  rig.Handle(w.memory),
		"give":    rig.Handle(w.give),
		"loop":    rig.Handle(w.loop),
		"repeat":  rig.Handle(w.repeat),
		"idle":    rig.Handle(w.idle),
		"probe":   rig.Handle(w.probe),
		"touch":   rig.Handle(w.touch),
		"profile": rig.Handle(w.profile),
	}, w.stop, svc.WaitUntilReady(ctx)
}

// stop cuts off what is held: it lapses.
func (w *worker) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_ = w.svc.Close(ctx)
}

func (w *worker) acquire(locks ...lockservice.Lock) (*lockservice.Acquisition, error) {
	return w.svc.Acquire(context.Background(), locks, lockservice.WithTimeout(time.Minute))
}

func (w *worker) once(locks ...lockservice.Lock) error {
	a, err := w.acquire(locks...)
	if err != nil {
		return err
	}
	return a.Release(context.Background())
}

// memoryPer is what came on top since a first look, for each of n.
func memoryPer(n int, heap, stacks float64) values {
	heapNow, stacksNow := rig.HeapAndStacks()
	heap, stacks = (heapNow-heap)/float64(n), (stacksNow-stacks)/float64(n)
	return values{"bytes": heap + stacks, "heap": heap, "stack": stacks}
}

// spread does something n times on some goroutines.
func spread(n int, do func(i int) error) error {
	const goroutines = 32
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n && errs[g] == nil; i += goroutines {
				errs[g] = do(i)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
