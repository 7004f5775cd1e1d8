package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
	"github.com/redislockservice/redislockservice/lockservice"
)

type takeArgs struct {
	Name    string
	N       int
	Readers bool // all of one name; else a name each, to write
}

// take acquires locks and keeps them.
func (w *worker) take(a takeArgs) (struct{}, error) {
	if err := w.once(lockservice.WriteLock("first-" + a.Name)); err != nil {
		return struct{}{}, err
	}
	w.heap, w.stacks = rig.HeapAndStacks()
	err := spread(a.N, func(i int) error {
		lock := lockservice.WriteLock(fmt.Sprintf("%s-%d", a.Name, i))
		if a.Readers {
			lock = lockservice.ReadLock(a.Name)
		}
		held, err := w.acquire(lock)
		if err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.held = append(w.held, held)
		}
		return err
	})
	return struct{}{}, err
}

// memory is what the held locks take. It is asked for after the first renewals, since
// what renews is started by the first.
func (w *worker) memory(struct{}) (values, error) {
	return memoryPer(len(w.held), w.heap, w.stacks), nil
}

// give releases what is held, and returns when it began to.
func (w *worker) give(struct{}) (time.Duration, error) {
	began := rig.Now()
	return began, spread(len(w.held), func(i int) error { return w.held[i].Release(context.Background()) })
}

// idle is the share of a core that the process uses while it does nothing.
func (w *worker) idle(long time.Duration) (values, error) {
	before, began := rig.CPU(), rig.Now()
	time.Sleep(long) // the time over which the process is watched
	lost := 0
	for _, a := range w.held {
		if !a.HasLock() {
			lost++
		}
	}
	return values{"core": (rig.CPU() - before).Seconds() / (rig.Now() - began).Seconds(), "lost": float64(lost)}, nil
}

type probeArgs struct {
	Name string
	Long time.Duration
}

// probe acquires and releases a lock that has nothing to do with the others, each
// two milliseconds: how long it takes at most.
func (w *worker) probe(a probeArgs) (values, error) {
	var took []float64
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(a.Long); time.Now().Before(end); <-tick.C {
		began := time.Now()
		if err := w.once(lockservice.WriteLock(a.Name)); err != nil {
			return nil, err
		}
		took = append(took, rig.Micros(time.Since(began)))
	}
	return values{"p50": rig.Median(took), "p99": rig.Quantile(took, 0.99), "stall": slices.Max(took) / 1000}, nil
}
