package lockservice

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/lease"
	"github.com/redislockservice/redislockservice/internal/sim"
)

// TestRenewalWhoseReplyComesAfterTheEndOfTrustDoesNotBringTheLockBack: no renewal
// gets through until shortly before the end, and the reply to the one that does
// comes when HasLock has turned false already.
func TestRenewalWhoseReplyComesAfterTheEndOfTrustDoesNotBringTheLockBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, svc := loneService(t)
		a, err := svc.Acquire(t.Context(), []Lock{WriteLock("n")})
		require.NoError(t, err)
		granted := time.Now()
		r.SetGate(sim.GateFunc(func(s sim.Step) sim.Fault {
			switch since := time.Since(granted); {
			case since < 8300*time.Millisecond:
				return sim.Fault{Cut: s.Phase == sim.Request}
			case s.Phase == sim.Reply && s.Writes:
				return sim.Fault{Delay: 1600 * time.Millisecond}
			}
			return sim.Fault{}
		}))
		faketime.Pass(9750*time.Millisecond - time.Since(granted))
		require.True(t, a.HasLock())
		for time.Since(granted) < 2*simLease {
			faketime.Pass(70 * time.Millisecond)
			require.False(t, a.HasLock(), "%v after the grant", time.Since(granted))
		}
		require.ErrorIs(t, a.Release(t.Context()), ErrLockLost)
		require.NoError(t, svc.Close(t.Context()))
		r.Settle()
	})
}

// loneService is a service on a server of its own, without faults.
func loneService(t *testing.T) (*sim.Redis, *RedisLockService) {
	t.Helper()
	r := sim.NewRedis()
	return r, serviceOn(t, r.Port())
}

func serviceOn(t *testing.T, port *sim.Port) *RedisLockService {
	t.Helper()
	cfg, err := newConfig([]Option{WithLeaseTime(simLease), WithPollDelay(simPoll), WithConnectionTimeout(simOp)})
	require.NoError(t, err)
	svc, err := startIn(t.Context(), cfg, surroundings{node: port.Node(), port: port, bus: simBus{port}, posts: port,
		newID: newIDs().next, jitter: func(limit time.Duration) time.Duration { return limit / 2 }})
	require.NoError(t, err)
	return svc
}

// TestTrustInAJobsLockEndsWithTheLeaseOfTheService where Redis can't be asked: the
// hold-off after a restart lasts no longer, whatever the job's own time.
func TestTrustInAJobsLockEndsWithTheLeaseOfTheService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, svc := loneService(t)
		ran, err := svc.Execute(t.Context(), "job", 6*simLease, 0, func(ctx context.Context) error {
			began := time.Now()
			r.SetGate(sim.GateFunc(func(s sim.Step) sim.Fault { return sim.Fault{Cut: s.Phase == sim.Request} }))
			<-ctx.Done()
			require.Less(t, time.Since(began), simLease)
			require.Greater(t, time.Since(began), simLease/2)
			require.ErrorIs(t, context.Cause(ctx), ErrLockLost)
			return nil
		})
		require.True(t, ran)
		require.ErrorIs(t, err, ErrLockLost)
		require.NoError(t, svc.Close(t.Context()))
		r.Settle()
	})
}

// TestGrantWhoseReplyComesLateIsGivenBackAndAskedForAgain: code that starts with
// less than half of a lease left has no time for a renewal.
func TestGrantWhoseReplyComesLateIsGivenBackAndAskedForAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const short, late = 180 * time.Millisecond, 95 * time.Millisecond
		cfg, err := newConfig([]Option{WithLeaseTime(short), WithRenewalInterval(short / 3), WithPollDelay(simPoll), WithConnectionTimeout(simOp)})
		require.NoError(t, err)
		r := sim.NewRedis()
		port := r.Port()
		svc, err := startIn(t.Context(), cfg, surroundings{node: port.Node(), port: port, bus: simBus{port}, posts: port,
			newID: newIDs().next, jitter: func(limit time.Duration) time.Duration { return limit / 2 }})
		require.NoError(t, err)
		var was atomic.Bool
		r.SetGate(sim.GateFunc(func(s sim.Step) sim.Fault {
			if s.Phase == sim.Reply && s.Writes && !was.Swap(true) {
				return sim.Fault{Delay: late}
			}
			return sim.Fault{}
		}))
		began := time.Now()
		a, err := svc.Acquire(t.Context(), []Lock{WriteLock("n")}, WithTimeout(time.Second))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), late, "the first reply")
		left := time.Duration(a.trustEnd.Load()) - svc.clock.now()
		require.GreaterOrEqual(t, left, short/2-lease.Margin(short))
		require.NoError(t, a.Release(t.Context()))
		require.NoError(t, svc.Close(t.Context()))
		r.Settle()
	})
}
