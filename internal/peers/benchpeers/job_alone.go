package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

type repeatArgs struct {
	Names []string
	Long  time.Duration
}

// repeat acquires and releases, alone, and returns how long that took.
func (w *worker) repeat(a repeatArgs) (values, error) {
	c, err := w.peer.contender()
	if err != nil {
		return nil, err
	}
	took, err := rig.Repeat(a.Long, func() error {
		release, err := c.lock(context.Background(), a.Names...)
		if err != nil {
			return err
		}
		return release()
	})
	return values{"p50": rig.Median(took), "p99": rig.Quantile(took, 0.99), "n": float64(len(took))}, err
}

// jobA is one caller and one free lock.
func jobA(b *bench, k kind) (values, error) { return b.alone(k, []string{b.name("a")}) }

// jobE is one caller and ten free locks, all or none.
func jobE(b *bench, k kind) (values, error) {
	prefix := b.name("e")
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return b.alone(k, names)
}

func (b *bench) alone(k kind, names []string) (values, error) {
	return b.fleet(k, 1, func(fleet []*rig.Process) (v values, err error) {
		err = fleet[0].Call("repeat", repeatArgs{names, b.limits.Alone}, &v)
		return v, err
	})
}
