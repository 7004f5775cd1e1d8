package main

import (
	"context"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

type redSync struct {
	sync *redsync.Redsync
	opts []redsync.Option
	done func()
}

func newRedsync(pool redsyncpool.Pool, lease time.Duration, tuned bool, done func()) *redSync {
	p := &redSync{sync: redsync.New(pool), opts: []redsync.Option{redsync.WithExpiry(lease)}, done: done}
	if tuned {
		p.opts = append(p.opts, redsync.WithTries(1<<30), redsync.WithRetryDelay(time.Millisecond))
	}
	return p
}

func openRedsyncGoRedis(tuned bool) func(openConfig) (peer, error) {
	return func(c openConfig) (peer, error) {
		client := redis.NewClient(&redis.Options{Addr: c.Addr})
		return newRedsync(redsyncgoredis.NewPool(client), c.Lease, tuned, func() { _ = client.Close() }), nil
	}
}

func openRedsyncRueidis(c openConfig) (peer, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{c.Addr}, ForceSingleClient: true})
	if err != nil {
		return nil, err
	}
	return newRedsync(redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client)), c.Lease, true, client.Close), nil
}

func (p *redSync) contender() (contender, error) { return p, nil }

func (p *redSync) lock(ctx context.Context, names ...string) (func() error, error) {
	return oneByOne(names, func(name string) (func() error, error) {
		m := p.sync.NewMutex(name, p.opts...)
		err := untilDone(ctx, func() error { return m.LockContext(ctx) })
		return func() error { _, err := m.Unlock(); return err }, err
	})
}

func (p *redSync) rwlock(context.Context, string, bool) (func() error, error) {
	return nil, errNoReaders
}

func (p *redSync) close() { p.done() }
