package lockservice_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/lockservice"
)

func TestExecuteWaiterForTheJobsLockGetsItWhenTheJobLetsGo(t *testing.T) {
	t.Parallel()
	for _, atLeast := range []time.Duration{0, 3 * time.Minute} {
		locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
			a, b := e.NewService(), e.NewService()
			began := time.Now()
			r := starts(t, t.Context(), a, 10*time.Minute, atLeast)
			entered := make(chan time.Duration, 1)
			go func() {
				_, _ = b.TryWriteLock(t.Context(), []string{job}, func(context.Context, lockservice.HasLock) error {
					entered <- time.Since(began)
					return nil
				}, lockservice.WithTimeout(time.Hour))
			}()
			e.AwaitWaiting(job, 1)
			e.Pass(time.Until(began.Add(2 * time.Minute)))
			require.NoError(t, r.finish(nil))
			require.InDelta(t, max(2*time.Minute, atLeast), <-entered, float64(time.Second))
		})
	}
}

func TestExecuteIsSkippedWhileAnOrdinaryLockIsHeld(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		for _, lock := range []lockservice.Lock{lockservice.WriteLock(job), lockservice.ReadLock(job)} {
			held, err := a.Acquire(t.Context(), []lockservice.Lock{lock})
			require.NoError(t, err)
			require.False(t, ticks(t, b, time.Minute, 0))
			require.NoError(t, held.Release(t.Context()))
		}
		require.True(t, ticks(t, b, time.Minute, 0))
	})
}

func TestExecuteWrapperIsCalledOncePerRun(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		var calls, runs atomic.Int32
		svc := e.NewService(lockservice.WithGoroutineWrapper(func(_ context.Context, run func()) func() {
			calls.Add(1)
			return func() { runs.Add(1); run() }
		}))
		r := starts(t, t.Context(), svc, time.Hour, 0)
		require.False(t, ticks(t, svc, time.Hour, 0), "a skip watches nothing")
		e.Pass(10 * time.Minute)
		require.NoError(t, r.finish(nil))
		synctest.Wait()
		require.EqualValues(t, 1, calls.Load())
		require.EqualValues(t, 1, runs.Load())
	})
}
