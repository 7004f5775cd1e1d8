package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// patience is how long a waiter waits after the end of the loop, when nobody begins a
// turn any more. It is longer than the lease.
const patience = 6 * time.Second

type loopArgs struct {
	Name       string
	Goroutines int
	Readers    int // each n-th reads; 0: nobody
	Start      time.Duration
	Long       time.Duration
}

// loop has each waiter take its turn again and again: the turns, by waiter.
func (w *worker) loop(a loopArgs) ([][]turn, error) {
	contenders, err := w.contenders(a.Goroutines)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.Start+a.Long+patience-rig.Now())
	defer cancel()
	turns := make([][]turn, a.Goroutines)
	var wg sync.WaitGroup
	for i, c := range contenders {
		wg.Go(func() {
			rig.SleepUntil(a.Start)
			for rig.Now() < a.Start+a.Long {
				t, err := takeTurn(func() (func() error, error) { return a.lock(ctx, c, i) })
				turns[i] = append(turns[i], t)
				if err != nil {
					return // and t.Out is zero
				}
			}
		})
	}
	wg.Wait()
	return turns, nil
}

func (a loopArgs) lock(ctx context.Context, c contender, i int) (func() error, error) {
	if a.Readers == 0 {
		return c.lock(ctx, a.Name)
	}
	return c.rwlock(ctx, a.Name, i%a.Readers != 0)
}

// jobLoop is 100 waiters of 4 processes that ask again as soon as they have had
// their turn: who starves here, starves under any steady load.
func jobLoop(readers int) func(*bench, kind) (values, error) {
	return func(b *bench, k kind) (values, error) {
		return b.fleet(k, processes, func(fleet []*rig.Process) (values, error) {
			a := loopArgs{b.name("loop"), waiters / processes, readers, rig.Now() + 200*time.Millisecond, b.limits.Loop}
			turns, err := rig.All[loopArgs, [][]turn](fleet, "loop", rig.Same(a))
			if err != nil {
				return nil, err
			}
			return judgeLoop(slices.Concat(turns...), a), nil
		})
	}
}

func judgeLoop(byWaiter [][]turn, a loopArgs) values {
	var waits, means, counts []float64
	stuck := 0.0
	for _, turns := range byWaiter {
		var sum float64
		for _, t := range turns {
			if t.Out == 0 {
				stuck++
				t.In = a.Start + a.Long + patience // at least
			}
			wait := rig.Micros(t.In-t.Asked) / 1000
			waits, sum = append(waits, wait), sum+wait
		}
		means, counts = append(means, sum/float64(len(turns))), append(counts, float64(len(turns)))
	}
	return values{
		"ops": (float64(len(waits)) - stuck) / a.Long.Seconds(), "stuck": stuck, "longest": slices.Max(waits), "median": rig.Median(waits),
		"ratio":  slices.Max(waits) / rig.Median(waits),
		"means":  slices.Max(means) / rig.Median(means),
		"fewest": slices.Min(counts), "most": slices.Max(counts),
	}
}
