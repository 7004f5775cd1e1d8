package lockservice

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/sim"
)

// simBack is after what time a lost subscription is back: well before the next poll.
const simBack = 500 * time.Millisecond

// twoServices are on two nodes of one server, where a subscription that was cut
// stays away for simBack.
func twoServices(t *testing.T) (first, second *RedisLockService, secondsPort *sim.Port) {
	t.Helper()
	r := sim.NewRedis()
	ports := []*sim.Port{r.Port(), r.Port()}
	first, second = serviceOn(t, ports[0]), serviceOn(t, ports[1])
	r.SetGate(sim.GateFunc(func(s sim.Step) sim.Fault {
		if s.Phase == sim.Subscribe && s.Part == 0 {
			return sim.Fault{Delay: simBack}
		}
		return sim.Fault{}
	}))
	return first, second, ports[1]
}

// TestSubscriptionThatComesBackHasWaitersLookAgain: what they were told meanwhile
// is lost, and the next poll may be far.
func TestSubscriptionThatComesBackHasWaitersLookAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		holder, waiter, port := twoServices(t)
		a, err := holder.Acquire(t.Context(), []Lock{WriteLock("n")})
		require.NoError(t, err)
		took := make(chan time.Duration)
		go func() {
			began := time.Now()
			b, err := waiter.Acquire(t.Context(), []Lock{WriteLock("n")}, WithTimeout(time.Minute))
			took <- time.Since(began)
			if err == nil {
				_ = b.Release(t.Context())
			}
		}()
		synctest.Wait()
		port.CutSubscription()
		require.NoError(t, a.Release(t.Context()))
		require.Less(t, <-took, simBack+100*time.Millisecond)
		closeBoth(t, holder, waiter)
	})
}

// TestSubscriptionThatComesBackHasMissedDeadlocksFound: the node of the victim has
// not heard of the other waiter.
func TestSubscriptionThatComesBackHasMissedDeadlocksFound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		older, younger, port := twoServices(t)
		a, err := older.Acquire(t.Context(), []Lock{WriteLock("a")})
		require.NoError(t, err)
		b, err := younger.Acquire(t.Context(), []Lock{WriteLock("b")})
		require.NoError(t, err)
		port.CutSubscription()
		began := time.Now()
		served := make(chan error)
		go func() {
			inner, err := older.Acquire(a.Context(), []Lock{WriteLock("b")}, WithTimeout(time.Minute))
			if err == nil {
				err = inner.Release(context.WithoutCancel(t.Context()))
			}
			served <- err
		}()
		time.Sleep(50 * time.Millisecond)
		_, err = younger.Acquire(b.Context(), []Lock{WriteLock("a")}, WithTimeout(time.Minute))
		require.ErrorIs(t, err, ErrDeadlock)
		require.Less(t, time.Since(began), simBack+100*time.Millisecond)
		require.NoError(t, b.Release(t.Context()))
		require.NoError(t, <-served)
		require.NoError(t, a.Release(t.Context()))
		closeBoth(t, older, younger)
	})
}

func closeBoth(t *testing.T, services ...*RedisLockService) {
	t.Helper()
	for _, svc := range services {
		require.NoError(t, svc.Close(t.Context()))
	}
}
