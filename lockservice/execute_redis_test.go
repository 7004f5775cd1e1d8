package lockservice_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
)

// newRealService makes a service on a real server, with short leases.
func newRealService(t testing.TB, server *redistest.Server, prefix string) service {
	t.Helper()
	svc, err := lockservice.New(t.Context(), server.Client(t), lockservice.WithKeyPrefix(prefix), lockservice.WithLeaseTime(time.Second))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, svc.Close(ctx))
	})
	require.NoError(t, svc.WaitUntilReady(t.Context()))
	return svc
}

func TestExecuteOnRedisOneOfManyConcurrentTicksRuns(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	instances := []service{newRealService(t, server, prefix), newRealService(t, server, prefix), newRealService(t, server, prefix)}
	for i := range 20 {
		var runs atomic.Int32
		var wg sync.WaitGroup
		for k := range 12 {
			wg.Go(func() {
				ran, err := instances[k%3].Execute(t.Context(), fmt.Sprint("tick-", i), time.Minute, time.Minute, done)
				if err != nil {
					t.Error(err)
				}
				if ran {
					runs.Add(1)
				}
			})
		}
		wg.Wait()
		require.EqualValues(t, 1, runs.Load())
	}
}

func TestExecuteOnRedisRestartEndsTheRunAndTheNextStartsAfterTheHoldOff(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := newRealService(t, server, "jobs"), newRealService(t, server, "jobs")
	r := starts(t, t.Context(), a, time.Hour, 0)
	server.Restart(t)
	var lostFirst bool
	require.Eventually(t, func() bool {
		ran, err := b.Execute(t.Context(), job, time.Hour, 0, func(context.Context) error {
			lostFirst = r.ctx.Err() != nil
			return nil
		})
		return err == nil && ran
	}, 30*time.Second, 20*time.Millisecond)
	require.True(t, lostFirst, "the old run's context must have ended when the next one starts")
	require.ErrorIs(t, context.Cause(r.ctx), lockservice.ErrLockLost)
	require.ErrorIs(t, r.finish(nil), lockservice.ErrLockLost)
}

func TestExecuteOnRedisCrashedHolderIsFollowedAfterAtMost(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	a, b := newRealService(t, server, prefix), newRealService(t, server, prefix)
	r := starts(t, t.Context(), a, 500*time.Millisecond, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, a.Close(ctx))
	_ = r.finish(nil)
	var second int64
	require.Eventually(t, func() bool {
		ran, err := b.Execute(t.Context(), job, time.Minute, 0, func(ctx context.Context) error {
			second, _ = lockservice.FencingToken(ctx, job)
			return nil
		})
		return err == nil && ran
	}, 30*time.Second, 20*time.Millisecond)
	require.GreaterOrEqual(t, second/1000-r.token/1000, int64(500), "tokens are Redis' time in µs, and leases count in ms: not before atMost")
}
