package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

type crowdArgs struct {
	Name       string
	Goroutines int
	Shared     bool // one read lock for all; else a name each
	Long       time.Duration
}

// crowd is many goroutines that acquire and release as fast as they can.
func (w *worker) crowd(a crowdArgs) (values, error) {
	contenders, err := w.contenders(a.Goroutines)
	if err != nil {
		return nil, err
	}
	var ops atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	began := time.Now()
	for g, c := range contenders {
		once := a.once(c, g)
		wg.Go(func() {
			for time.Since(began) < a.Long {
				if err := once(); err != nil {
					failed.Store(&err)
					return
				}
				ops.Add(1)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return values{"ops": float64(ops.Load()) / time.Since(began).Seconds()}, nil
}

func (a crowdArgs) once(c contender, g int) func() error {
	ctx, name := context.Background(), fmt.Sprintf("%s-%d", a.Name, g)
	lock := func() (func() error, error) { return c.lock(ctx, name) }
	if a.Shared {
		lock = func() (func() error, error) { return c.rwlock(ctx, a.Name, false) }
	}
	return func() error {
		release, err := lock()
		if err != nil {
			return err
		}
		return release()
	}
}

// jobB is 64 goroutines of one process.
func jobB(b *bench, k kind) (values, error) {
	return b.crowded(k, 1, crowdArgs{Name: b.name("b"), Goroutines: 64, Long: b.limits.Crowd})
}

// jobG is 16 goroutines of two processes that read.
func jobG(b *bench, k kind) (values, error) {
	return b.crowded(k, 2, crowdArgs{Name: b.name("g"), Goroutines: 8, Shared: true, Long: b.limits.Crowd})
}

func (b *bench) crowded(k kind, processes int, a crowdArgs) (values, error) {
	return b.fleet(k, processes, func(fleet []*rig.Process) (values, error) {
		warm := a
		warm.Long = a.Long / 4
		if _, err := rig.All[crowdArgs, values](fleet, "crowd", rig.Same(warm)); err != nil {
			return nil, err
		}
		results, err := rig.All[crowdArgs, values](fleet, "crowd", rig.Same(a))
		sum := values{}
		for _, v := range results {
			sum["ops"] += v["ops"]
		}
		return sum, err
	})
}
