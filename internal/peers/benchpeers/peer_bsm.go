package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type bsm struct {
	client *redis.Client
	locker *redislock.Client
	lease  time.Duration
	retry  time.Duration
}

func openBSM(retry time.Duration) func(openConfig) (peer, error) {
	return func(c openConfig) (peer, error) {
		client := redis.NewClient(&redis.Options{Addr: c.Addr})
		return &bsm{client, redislock.New(client), c.Lease, retry}, nil
	}
}

func (p *bsm) contender() (contender, error) { return p, nil }

func (p *bsm) lock(ctx context.Context, names ...string) (func() error, error) {
	opt := &redislock.Options{RetryStrategy: redislock.LinearBackoff(p.retry)}
	return oneByOne(names, func(name string) (func() error, error) {
		var l *redislock.Lock
		err := untilDone(ctx, func() (err error) {
			l, err = p.locker.Obtain(ctx, name, p.lease, opt)
			return err
		})
		return func() error { return l.Release(context.Background()) }, err
	})
}

func (p *bsm) rwlock(context.Context, string, bool) (func() error, error) {
	return nil, errNoReaders
}

func (p *bsm) close() { _ = p.client.Close() }
