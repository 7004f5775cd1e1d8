package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

type rueidisLock struct{ locker rueidislock.Locker }

func openRueidislock(tuned bool) func(openConfig) (peer, error) {
	return func(c openConfig) (peer, error) {
		opt := rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{c.Addr}, ForceSingleClient: true},
			KeyValidity:  c.Lease,
		}
		if tuned {
			opt.KeyMajority, opt.NoLoopTracking = 1, true
			// By default a reply that takes longer than 20 ms counts as a refusal, and
			// with NoLoopTracking nothing wakes the waiter when its key is deleted.
			opt.TryNextAfter = time.Second
		}
		locker, err := rueidislock.NewLocker(opt)
		if err != nil {
			return nil, err
		}
		return rueidisLock{locker}, nil
	}
}

func (p rueidisLock) contender() (contender, error) { return p, nil }

func (p rueidisLock) lock(ctx context.Context, names ...string) (func() error, error) {
	return oneByOne(names, func(name string) (func() error, error) {
		var give context.CancelFunc
		err := untilDone(ctx, func() (err error) {
			_, give, err = p.locker.WithContext(ctx, name)
			return err
		})
		return func() error { give(); return nil }, err
	})
}

func (p rueidisLock) rwlock(context.Context, string, bool) (func() error, error) {
	return nil, errNoReaders
}

func (p rueidisLock) close() { p.locker.Close() }
