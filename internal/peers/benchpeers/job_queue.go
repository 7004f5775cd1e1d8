package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

const (
	waiters   = 100
	processes = 4
	hold      = time.Millisecond
	arrivals  = 500 * time.Microsecond // between one waiter and the next
)

// turn is one wait: when it was asked, when it was in, when it let go.
type turn struct{ Asked, In, Out time.Duration }

type queueArgs struct {
	Name string
	At   []time.Duration // when each waiter of the process asks
}

// queue has each waiter take its turn once.
func (w *worker) queue(a queueArgs) ([]turn, error) {
	contenders, err := w.contenders(len(a.At))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	turns, errs := make([]turn, len(a.At)), make([]error, len(a.At))
	var wg sync.WaitGroup
	for i, c := range contenders {
		wg.Go(func() {
			rig.SleepUntil(a.At[i])
			turns[i], errs[i] = takeTurn(func() (func() error, error) { return c.lock(ctx, a.Name) })
		})
	}
	wg.Wait()
	return turns, errors.Join(errs...)
}

func takeTurn(lock func() (func() error, error)) (t turn, err error) {
	t.Asked = rig.Now()
	release, err := lock()
	if err != nil {
		return t, err
	}
	t.In = rig.Now()
	time.Sleep(hold) // what is done under the lock
	t.Out = rig.Now()
	return t, release()
}

// jobD has a fifth process hold the lock until all have asked for it, one after the
// other, and then counts from its release to the end of the last turn.
func jobD(b *bench, k kind) (values, error) {
	return b.fleet(k, processes+1, func(fleet []*rig.Process) (values, error) {
		first, name := fleet[processes], b.name("d")
		if err := first.Call("take", name, nil); err != nil {
			return nil, err
		}
		// Everybody is there and has its sessions 200 ms from now.
		start := rig.Now() + 200*time.Millisecond
		ended := startQueue(fleet[:processes], name, start)
		rig.SleepUntil(start + waiters*arrivals + 30*time.Millisecond)
		var out time.Duration
		var q queued
		server, _ := b.serverOf(k)
		commands, err := rig.Counted(server, func() error {
			err := first.Call("give", struct{}{}, &out)
			q = <-ended
			return errors.Join(err, q.err)
		})
		if err != nil {
			return nil, err
		}
		v := judgeQueue(q.turns, out)
		v["commands"] = commands / waiters
		return v, nil
	})
}

// queued is everybody's turn.
type queued struct {
	turns []turn
	err   error
}

func startQueue(fleet []*rig.Process, name string, start time.Duration) <-chan queued {
	ended := make(chan queued)
	go func() {
		turns, err := rig.All[queueArgs, []turn](fleet, "queue", func(i int) queueArgs { return arrival(name, i, start) })
		ended <- queued{slices.Concat(turns...), err}
	}()
	return ended
}

// arrival deals the waiters out to the processes in turn.
func arrival(name string, process int, start time.Duration) queueArgs {
	a := queueArgs{Name: name}
	for i := process; i < waiters; i += processes {
		a.At = append(a.At, start+time.Duration(i)*arrivals)
	}
	return a
}

func judgeQueue(turns []turn, out time.Duration) values {
	slices.SortFunc(turns, func(a, b turn) int { return int(a.In - b.In) })
	inversions, overlaps := 0, 0
	waits := make([]float64, len(turns))
	for i, t := range turns {
		waits[i] = rig.Micros(t.In-t.Asked) / 1000
		for _, later := range turns[i+1:] {
			if later.Asked < t.Asked {
				inversions++
			}
		}
		if i > 0 && t.In < turns[i-1].Out {
			overlaps++
		}
	}
	last := turns[len(turns)-1].Out
	return values{
		"total": rig.Micros(last-out) / 1000, "inversions": float64(inversions), "overlaps": float64(overlaps),
		"ratio": slices.Max(waits) / rig.Median(waits), "longest": slices.Max(waits), "median": rig.Median(waits),
	}
}
