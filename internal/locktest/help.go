package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// Short names for what every scenario uses.
type (
	service = *lockservice.RedisLockService
	hasLock = lockservice.HasLock
)

var (
	read    = lockservice.ReadLock
	write   = lockservice.WriteLock
	timeout = lockservice.WithTimeout
)

// long is a timeout that no scenario reaches.
const long = 30 * time.Second

func nothing(context.Context, hasLock) error { return nil }

func locks(l ...lockservice.Lock) []lockservice.Lock { return l }

// hold acquires locks that must be free.
func hold(t testing.TB, ctx context.Context, svc service, l ...lockservice.Lock) *lockservice.Acquisition {
	t.Helper()
	a, err := svc.Acquire(ctx, l)
	require.NoError(t, err)
	return a
}

// letGo releases locks that must be held still.
func letGo(t testing.TB, a *lockservice.Acquisition) {
	t.Helper()
	require.NoError(t, a.Release(context.Background()))
}

// tries says whether the locks are to be had right now.
func tries(t testing.TB, ctx context.Context, svc service, l ...lockservice.Lock) bool {
	t.Helper()
	acquired, err := svc.TryLock(ctx, l, nothing)
	require.NoError(t, err)
	return acquired
}

// pending is a call of Acquire that waits on a goroutine of its own.
type pending struct {
	t      testing.TB
	done   chan struct{} // closed when the two below are set
	a      *lockservice.Acquisition
	err    error
	after  time.Duration // how long the call took
	cancel context.CancelFunc
}

// start waits for locks in the background, long unless an option says otherwise.
func start(t testing.TB, ctx context.Context, svc service, l []lockservice.Lock, opts ...lockservice.LockOption) *pending {
	ctx, cancel := context.WithCancel(ctx)
	p := &pending{t: t, done: make(chan struct{}), cancel: cancel}
	began := time.Now()
	go func() {
		defer close(p.done)
		p.a, p.err = svc.Acquire(ctx, l, append([]lockservice.LockOption{timeout(long)}, opts...)...)
		p.after = time.Since(began)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.done
	})
	return p
}

// got is the acquisition that the call must get.
func (p *pending) got() *lockservice.Acquisition {
	p.t.Helper()
	<-p.done
	require.NoError(p.t, p.err)
	return p.a
}

// failed is the error that the call must get.
func (p *pending) failed() error {
	p.t.Helper()
	<-p.done
	require.Error(p.t, p.err)
	return p.err
}

func (p *pending) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stillWaits gives the call every chance to return, and says that it has not.
func (e *Env) stillWaits(p *pending) {
	e.T.Helper()
	if e.Fake {
		settle()
	}
	if p.isDone() {
		require.FailNow(e.T, "it should wait, but has returned", "%v", p.err)
	}
}

// free waits until nobody holds or waits for the lock: a background release, or the
// mark of somebody who gave up, may take a moment.
func (e *Env) free(name string) {
	e.T.Helper()
	e.Eventually(func() bool {
		record := e.Record(name)
		if record == nil {
			return true
		}
		waiting, _ := record["waiting"].([]any)
		return len(waiting) == 0 && len(e.holders(name)) == 0
	}, "the lock "+name+" is free and nobody waits")
}

// holders are the ids of those who hold the lock by its record.
func (e *Env) holders(name string) []string {
	e.T.Helper()
	record := e.Record(name)
	if record == nil {
		return nil
	}
	now := e.RedisMillis()
	var ids []string
	add := func(v any) {
		h, _ := v.(map[string]any)
		if expires, ok := h["expiresAtEpochMillis"].(float64); ok && int64(expires) > now {
			ids = append(ids, h["id"].(string))
		}
	}
	add(record["writeOwner"])
	readers, _ := record["readOwners"].([]any)
	for _, r := range readers {
		add(r)
	}
	return ids
}
