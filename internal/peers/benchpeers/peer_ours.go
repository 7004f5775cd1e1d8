package main

import (
	"context"
	"errors"
	"time"

	"github.com/redislockservice/redislockservice/lockservice"
)

type ours struct{ svc *lockservice.RedisLockService }

func openOurs(c openConfig) (peer, error) {
	ctx := context.Background()
	svc, err := lockservice.Open(ctx, "redis://"+c.Addr+"/0", lockservice.WithLeaseTime(c.Lease))
	if err != nil {
		return nil, err
	}
	return ours{svc}, svc.WaitUntilReady(ctx)
}

func (p ours) contender() (contender, error) { return p, nil }

func (p ours) lock(ctx context.Context, names ...string) (func() error, error) {
	locks := make([]lockservice.Lock, len(names))
	for i, name := range names {
		locks[i] = lockservice.WriteLock(name)
	}
	return p.acquire(ctx, locks...)
}

func (p ours) rwlock(ctx context.Context, name string, write bool) (func() error, error) {
	if write {
		return p.acquire(ctx, lockservice.WriteLock(name))
	}
	return p.acquire(ctx, lockservice.ReadLock(name))
}

func (p ours) acquire(ctx context.Context, locks ...lockservice.Lock) (func() error, error) {
	var a *lockservice.Acquisition
	err := untilDone(ctx, func() (err error) {
		a, err = p.svc.Acquire(ctx, locks, lockservice.WithTimeout(time.Minute))
		return err
	})
	if err != nil {
		return nil, err
	}
	return func() error { return a.Release(context.Background()) }, nil
}

func (p ours) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.svc.Close(ctx); errors.Is(err, context.DeadlineExceeded) {
		return // what was still held lapses
	}
}
