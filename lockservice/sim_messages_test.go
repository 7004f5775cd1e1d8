package lockservice

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/deadlock"
	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/sim"
)

// simBack is after what time a lost subscription is back: well before the next poll.
const simBack = 500 * time.Millisecond

// twoServices are on two nodes of one server, where a subscription that was cut
// stays away for so long; until then nothing is published either, if mute.
func twoServices(t *testing.T, away time.Duration, mute bool) (first, second *RedisLockService, ports []*sim.Port) {
	t.Helper()
	r := sim.NewRedis()
	ports = []*sim.Port{r.Port(), r.Port()}
	first, second = serviceOn(t, ports[0]), serviceOn(t, ports[1])
	began := time.Now()
	r.SetGate(sim.GateFunc(func(s sim.Step) sim.Fault {
		switch {
		case s.Phase == sim.Subscribe && s.Part == 0:
			return sim.Fault{Delay: away}
		case s.Phase == sim.Command && mute && time.Since(began) < away:
			return sim.Fault{Cut: true}
		}
		return sim.Fault{}
	}))
	return first, second, ports
}

// TestSubscriptionThatComesBackHasWaitersLookAgain: what they were told meanwhile
// is lost, and the next poll may be far.
func TestSubscriptionThatComesBackHasWaitersLookAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		holder, waiter, ports := twoServices(t, simBack, false)
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
		ports[1].CutSubscription()
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
		older, younger, ports := twoServices(t, simBack, false)
		took := deadlockOf(t, older, younger, ports[1], 50*time.Millisecond)
		require.Less(t, took, simBack+100*time.Millisecond)
	})
}

// TestSubscriptionThatComesBackLateMakesNoOtherVictim: both have tried again since
// they began to wait. The older one is the last, whose own subscription comes back.
func TestSubscriptionThatComesBackLateMakesNoOtherVictim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const away = 3 * simPoll
		older, younger, ports := twoServices(t, away, true)
		took := deadlockOf(t, older, younger, ports[0], time.Second)
		require.Less(t, took, away+100*time.Millisecond)
	})
}

// deadlockOf has two calls wait for each other, the younger one so much later, with
// the subscription of port cut. The younger has to die, the older is served.
func deadlockOf(t *testing.T, older, younger *RedisLockService, port *sim.Port, later time.Duration) (took time.Duration) {
	t.Helper()
	a, err := older.Acquire(t.Context(), []Lock{WriteLock("a")})
	require.NoError(t, err)
	b, err := younger.Acquire(t.Context(), []Lock{WriteLock("b")})
	require.NoError(t, err)
	port.CutSubscription()
	began := time.Now()
	served := make(chan error, 1)
	go func() {
		inner, err := older.Acquire(a.Context(), []Lock{WriteLock("b")}, WithTimeout(time.Minute))
		if err == nil {
			err = inner.Release(context.WithoutCancel(t.Context()))
		}
		served <- err
	}()
	<-time.After(later)
	_, err = younger.Acquire(b.Context(), []Lock{WriteLock("a")}, WithTimeout(time.Minute))
	require.ErrorIs(t, err, ErrDeadlock)
	took = time.Since(began)
	require.NoError(t, b.Release(t.Context()))
	require.NoError(t, <-served)
	require.NoError(t, a.Release(t.Context()))
	closeBoth(t, older, younger)
	return took
}

// TestForgedWaitKillsNobody: a message says that the holder of one lock waits for
// the other. The cycle stands in the table of each node, and not in the records.
func TestForgedWaitKillsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		holder, waiter, _ := twoServices(t, simBack, false)
		a, err := holder.Acquire(t.Context(), []Lock{WriteLock("a")})
		require.NoError(t, err)
		b, err := waiter.Acquire(t.Context(), []Lock{WriteLock("b")})
		require.NoError(t, err)
		forged, err := deadlock.Encode(deadlock.Message{Node: holder.node, Incarnation: 1, Seq: 1000, Kind: deadlock.Full,
			Put: []deadlock.Waiter{{ID: "forged", SinceMicros: 1, Wants: []deadlock.Want{{Name: "b", Write: true}},
				Holds: []deadlock.Hold{{Name: "a", Write: true, ID: a.id}}}}}, deadlock.Limits{})
		require.NoError(t, err)
		released := time.AfterFunc(time.Second, func() { _ = a.Release(context.WithoutCancel(t.Context())) })
		defer released.Stop()
		told := time.AfterFunc(100*time.Millisecond, func() {
			for _, m := range forged {
				_ = holder.bus.Publish(t.Context(), holder.cfg.keys.Waiting(), string(m))
			}
		})
		defer told.Stop()
		inner, err := waiter.Acquire(b.Context(), []Lock{WriteLock("a")}, WithTimeout(time.Minute))
		require.NoError(t, err, "the wait ends with the lock")
		require.NoError(t, inner.Release(t.Context()))
		require.NoError(t, b.Release(t.Context()))
		closeBoth(t, holder, waiter)
	})
}

// TestWaiterOfADeadNodeDoesNotHideADeadlock: it is believed to wait for three poll
// delays yet, in a cycle with the same victim, which is the one that a search
// finds since its members are older. The records know nothing of it.
func TestWaiterOfADeadNodeDoesNotHideADeadlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		older, younger, _ := twoServices(t, simBack, false)
		a, err := older.Acquire(t.Context(), []Lock{WriteLock("c")})
		require.NoError(t, err)
		b, err := younger.Acquire(t.Context(), []Lock{WriteLock("b")})
		require.NoError(t, err)
		dead, err := deadlock.Encode(deadlock.Message{Node: "dead", Incarnation: 1, Seq: 1, Kind: deadlock.Full,
			Put: []deadlock.Waiter{{ID: "dead", SinceMicros: 1, Wants: []deadlock.Want{{Name: "b", Write: true}},
				Holds: []deadlock.Hold{{Name: "a", Write: true, ID: "lapsed"}}}}}, deadlock.Limits{})
		require.NoError(t, err)
		for _, m := range dead {
			require.NoError(t, older.bus.Publish(t.Context(), older.cfg.keys.Waiting(), string(m)))
		}
		served := make(chan error, 1)
		go func() {
			inner, err := older.Acquire(a.Context(), []Lock{WriteLock("b")}, WithTimeout(time.Minute))
			if err == nil {
				err = inner.Release(context.WithoutCancel(t.Context()))
			}
			served <- err
		}()
		faketime.Pass(50 * time.Millisecond)
		began := time.Now()
		_, err = younger.Acquire(b.Context(), []Lock{WriteLock("a"), WriteLock("c")}, WithTimeout(time.Minute))
		require.ErrorIs(t, err, ErrDeadlock)
		require.Less(t, time.Since(began), simPoll/2)
		require.NotContains(t, err.Error(), "dead\"", "it is no party to it")
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
