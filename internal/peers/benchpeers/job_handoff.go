package main

import (
	"context"
	"errors"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// take acquires, and returns when it was in.
func (w *worker) take(name string) (time.Duration, error) {
	if w.one == nil {
		var err error
		if w.one, err = w.peer.contender(); err != nil {
			return 0, err
		}
	}
	// Until give: some libraries let go of a lock when its context ends.
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	release, err := w.one.lock(ctx, name)
	in := rig.Now()
	w.held = func() error { defer cancel(); return release() }
	if err != nil {
		cancel()
	}
	return in, err
}

// give releases what was taken, and returns when it began to.
func (w *worker) give(struct{}) (time.Duration, error) {
	began := rig.Now()
	return began, w.held()
}

// jobC hands one lock to and fro between two processes: one holds it for some
// milliseconds, in which the other begins to wait; the time from the call of release
// to the moment when the other is in is a hand-off.
func jobC(b *bench, k kind) (values, error) {
	return b.handOffs(k, 3*time.Millisecond, b.limits.HandOff)
}

// jobCLong holds longer: etcd's hand-off is slow until a loop of its server, each
// 100 ms, has looked at a new watch.
func jobCLong(b *bench, k kind) (values, error) {
	return b.handOffs(k, 150*time.Millisecond, b.limits.LongWait)
}

func (b *bench) handOffs(k kind, hold, long time.Duration) (values, error) {
	return b.fleet(k, 2, func(fleet []*rig.Process) (values, error) {
		name := b.name("c")
		holder, waiter := fleet[0], fleet[1]
		// The first of each makes what the library makes once.
		for _, p := range fleet {
			if err := errors.Join(p.Call("take", b.name("warm"), nil), p.Call("give", struct{}{}, nil)); err != nil {
				return nil, err
			}
		}
		if err := holder.Call("take", name, nil); err != nil {
			return nil, err
		}
		var took []float64
		for end := time.Now().Add(long); time.Now().Before(end) || len(took) < 3; {
			// Steps of a seventh: no poll falls into step with them.
			one, err := handOff(holder, waiter, name, hold+time.Duration(len(took)%7)*time.Millisecond/7)
			if err != nil {
				return nil, err
			}
			took = append(took, rig.Micros(one))
			holder, waiter = waiter, holder
		}
		return values{"p50": rig.Median(took), "p99": rig.Quantile(took, 0.99), "n": float64(len(took))}, nil
	})
}

func handOff(holder, waiter *rig.Process, name string, hold time.Duration) (time.Duration, error) {
	var in, out time.Duration
	taken := make(chan error)
	go func() { taken <- waiter.Call("take", name, &in) }()
	time.Sleep(hold) // so long the other one has waited: see job c
	err := holder.Call("give", struct{}{}, &out)
	if taken := <-taken; err == nil {
		err = taken
	}
	return in - out, err
}
