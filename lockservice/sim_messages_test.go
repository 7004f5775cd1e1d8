package lockservice

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/deadlock"
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
		took, _ := deadlockOf(t, older, younger, 50*time.Millisecond, ports[1].CutSubscription)
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
		took, _ := deadlockOf(t, older, younger, time.Second, ports[0].CutSubscription)
		require.Less(t, took, away+100*time.Millisecond)
	})
}

// deadlockOf has two calls wait for each other, the younger one so much later and
// for one more lock, which is free, after something was done to them. The younger
// has to die, the older is served.
func deadlockOf(t *testing.T, older, younger *RedisLockService, later time.Duration, before func()) (took time.Duration, err error) {
	t.Helper()
	a := holds(t, older, "c")
	b := holds(t, younger, "b")
	before()
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
	_, err = younger.Acquire(b.Context(), []Lock{WriteLock("a"), WriteLock("c")}, WithTimeout(time.Minute))
	require.ErrorIs(t, err, ErrDeadlock)
	took = time.Since(began)
	require.NoError(t, b.Release(t.Context()))
	require.NoError(t, <-served)
	require.NoError(t, a.Release(t.Context()))
	closeBoth(t, older, younger)
	return took, err
}

func holds(t *testing.T, svc *RedisLockService, name string) *Acquisition {
	t.Helper()
	a, err := svc.Acquire(t.Context(), []Lock{WriteLock(name)})
	require.NoError(t, err)
	return a
}

// tellOfWait says to all nodes, in the name of one, that somebody there, who has
// waited for longer than anybody, holds a and waits to write b.
func tellOfWait(t *testing.T, through *RedisLockService, node, id string) {
	t.Helper()
	messages, err := deadlock.Encode(deadlock.Message{Node: node, Incarnation: 1, Seq: 1000, Kind: deadlock.Full,
		Put: []deadlock.Waiter{{ID: "told", SinceMicros: 1, Wants: []deadlock.Want{{Name: "b", Write: true}},
			Holds: []deadlock.Hold{{Name: "a", Write: true, ID: id}}}}}, deadlock.Limits{})
	assert.NoError(t, err) // perhaps on a timer's goroutine
	for _, m := range messages {
		assert.NoError(t, through.bus.Publish(t.Context(), through.cfg.keys.Waiting(), string(m)))
	}
}

// TestForgedWaitKillsNobody: a message says that the holder of one lock waits for
// the other. The cycle stands in the table of each node, and not in the records.
func TestForgedWaitKillsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		holder, waiter, _ := twoServices(t, simBack, false)
		a, b := holds(t, holder, "a"), holds(t, waiter, "b")
		released := time.AfterFunc(time.Second, func() { _ = a.Release(context.WithoutCancel(t.Context())) })
		defer released.Stop()
		told := time.AfterFunc(100*time.Millisecond, func() { tellOfWait(t, holder, holder.node, a.id) })
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
		took, err := deadlockOf(t, older, younger, 50*time.Millisecond, func() { tellOfWait(t, older, "dead", "lapsed") })
		require.Less(t, took, simPoll/2)
		var d *DeadlockError
		require.ErrorAs(t, err, &d)
		require.Len(t, d.Cycle, 2)
		for _, party := range d.Cycle {
			require.NotEqual(t, "dead", party.Node, "it is no party to it")
		}
	})
}

func closeBoth(t *testing.T, services ...*RedisLockService) {
	t.Helper()
	for _, svc := range services {
		require.NoError(t, svc.Close(t.Context()))
	}
}
