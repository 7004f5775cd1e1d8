package main

import (
	"context"
	"errors"
	"time"
)

// peer is a process' connection to what keeps the locks.
type peer interface {
	// contender is for one goroutine at a time.
	contender() (contender, error)
	close()
}

// contender competes for locks. Release is called by any goroutine, once.
type contender interface {
	// lock waits until it has all the names, which are sorted.
	lock(ctx context.Context, names ...string) (release func() error, err error)
	// rwlock waits for the shared or the exclusive side of a lock that has both.
	rwlock(ctx context.Context, name string, write bool) (release func() error, err error)
}

var errNoReaders = errors.New("has no shared locks")

// openConfig is how a process opens its peer.
type openConfig struct {
	Addr  string
	Lease time.Duration
}

// kind is a library, used in one way.
type kind struct {
	Key   string // in the JSON, and for -only
	Label string
	How   string
	// Ours is this library; Floor is not a lock, but what none can be quicker than.
	Ours, Floor bool
	// Message: it can be compared with hand-offs only.
	Message bool
	// Etcd is not on Redis; NoFsync: nor does its server wait for the disk.
	Etcd, NoFsync bool
	// Readers: it has shared locks. Renews: it renews what is held by itself.
	Readers, Renews bool
	open            func(openConfig) (peer, error)
}

// oursKey is this library.
const oursKey = "ours"

var kinds = []kind{
	{Key: "pings-shared", Label: "two PINGs, shared connection", How: "pipelined by the client", Floor: true, open: openPings(true)},
	{Key: "pings-own", Label: "two PINGs, own connection", How: "by the caller's goroutine", Floor: true, open: openPings(false)},
	{Key: "set-del", Label: "SET NX PX and DEL", How: "shared connection, pipelined", Floor: true, open: openSetDel},
	{Key: messageKey, Label: "a message, which grants by itself", How: "SET and PUBLISH, in one write; who waits is in when it comes", Floor: true, Message: true, open: openMessenger},
	{Key: oursKey, Label: "RedisLockService", How: "Open, as its README says", Ours: true, Readers: true, Renews: true, open: openOurs},
	{Key: "rueidislock", Label: "rueidislock", How: "with its defaults: two of three keys", Renews: true, open: openRueidislock(false)},
	{Key: "rueidislock-tuned", Label: "rueidislock, tuned", How: "KeyMajority 1, NoLoopTracking (as its README says for one server), TryNextAfter 1 s", Renews: true, open: openRueidislock(true)},
	{Key: "redsync-goredis", Label: "redsync on go-redis", How: "as its README says: retry after 50–250 ms", open: openRedsyncGoRedis(false)},
	{Key: "redsync-goredis-tuned", Label: "redsync on go-redis, tuned", How: "retry after 1 ms, without end", open: openRedsyncGoRedis(true)},
	{Key: "redsync-rueidis-tuned", Label: "redsync on rueidis, tuned", How: "retry after 1 ms, without end", open: openRedsyncRueidis},
	{Key: "bsm", Label: "bsm/redislock", How: "retry after 100 ms, as its example does", open: openBSM(100 * time.Millisecond)},
	{Key: "bsm-tuned", Label: "bsm/redislock, tuned", How: "retry after 1 ms", open: openBSM(time.Millisecond)},
	{Key: "etcd", Label: "etcd concurrency", How: "a session per contender, as its example does", Etcd: true, Readers: true, Renews: true, open: openEtcd(false)},
	{Key: "etcd-tuned", Label: "etcd concurrency, tuned", How: "a session per process where names differ; the server doesn't wait for the disk", Etcd: true, NoFsync: true, Readers: true, Renews: true, open: openEtcd(true)},
}

func find(key string) (kind, bool) {
	for _, k := range kinds {
		if k.Key == key {
			return k, true
		}
	}
	return kind{}, false
}

// untilDone tries again while the library gives up by itself, but not for ever.
func untilDone(ctx context.Context, try func() error) error {
	for began := time.Now(); ; {
		err := try()
		if err == nil || ctx.Err() != nil || time.Since(began) > 30*time.Second {
			return err
		}
	}
}

// oneByOne locks several names with what can only lock one: those that are held are
// given back if one can't be had, and all at the end, the last first.
func oneByOne(names []string, lock func(name string) (func() error, error)) (func() error, error) {
	held := make([]func() error, 0, len(names))
	release := func() error {
		var errs []error
		for i := len(held) - 1; i >= 0; i-- {
			errs = append(errs, held[i]())
		}
		return errors.Join(errs...)
	}
	for _, name := range names {
		give, err := lock(name)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		held = append(held, give)
	}
	return release, nil
}
