package locktest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// waiting: who waits is woken, and costs little.
var waiting = slices.Concat([]scenario{
	{name: "ReleaseWakesTheWaitersOfEachNode", run: releaseWakes},
	{name: "WaitersHoldNoConnection", run: noConnectionHeld},
	{name: "ReleaseOfAVanishedRecordLetsWaitersIn", run: vanishedRecord},
	{name: "ReleaseRacingTheNextAcquireIsNotMissed", run: releaseRace},
}, in(bubbleName,
	scenario{name: "WaitersOfANodeAreServedInArrivalOrder", run: arrivalOrder},
	scenario{name: "WaiterOutlivesACrashedHolder", run: crashedHolder},
	scenario{name: "MissedWakeUpIsMadeGoodByThePoll", run: missedWakeUp},
	scenario{name: "TwoHundredWaitersCostNextToNothing", run: cheapWaiters},
), in(redisName,
	scenario{name: "SubscriptionIsRebuiltAfterItWasKilled", run: subscriptionKilled, hurts: true},
	scenario{name: "ConnectionsClosedByTheServerAreReplaced", run: connectionsKilled, hurts: true},
))

// C7, J1
func releaseWakes(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	for _, waiter := range []service{a, b} {
		for _, l := range []lockservice.Lock{read("x"), write("x")} {
			held := hold(t, t.Context(), a, write("x"))
			p := start(t, t.Context(), waiter, locks(l))
			e.AwaitWaiting("x", 1)
			e.stillWaits(p)
			began := time.Now()
			letGo(t, held)
			letGo(t, p.got())
			if e.Fake {
				require.Less(t, time.Since(began), 10*time.Millisecond, "not by the poll")
			}
		}
	}
	e.free("x")
}

// R17
func noConnectionHeld(t *testing.T, e *Env) {
	svc := e.NewServiceOn(e.ClientWith(func(o *rueidis.ClientOption) { o.BlockingPoolSize = 2 }))
	held := hold(t, t.Context(), svc, write("x"))
	var all []*pending
	for range 50 {
		all = append(all, start(t, t.Context(), svc, locks(read("x"))))
	}
	e.AwaitWaiting("x", 1)
	require.True(t, tries(t, t.Context(), svc, write("y")))
	letGo(t, held)
	for _, p := range all {
		p.got()
	}
}

// J5
func vanishedRecord(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService(lockservice.WithPollDelay(time.Second))
	held := hold(t, t.Context(), a, write("x"))
	near := []*pending{start(t, t.Context(), a, locks(write("x"))), start(t, t.Context(), a, locks(write("x")))}
	far := start(t, t.Context(), b, locks(write("x")))
	e.AwaitWaiting("x", 2)
	e.Do("DEL", e.Key("x"))
	require.ErrorIs(t, held.Release(t.Context()), lockservice.ErrLockLost)
	left := slices.Clone(near)
	left = append(left, far)
	for _, p := range left { // in whatever order they come
		go func() {
			<-p.done
			if p.err == nil {
				_ = p.a.Release(context.Background())
			}
		}()
	}
	for _, p := range left {
		<-p.done
		require.NoError(t, p.err)
	}
}

// R5
func releaseRace(t *testing.T, e *Env) {
	svc := e.NewService()
	rounds := 300
	done := make(chan error, 2)
	for range 2 {
		go func() {
			for range rounds {
				if _, err := svc.TryWriteLock(t.Context(), []string{"x"}, nothing, timeout(long)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	began := time.Now()
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	if e.Fake {
		require.Less(t, time.Since(began), e.Poll, "somebody slept until the poll")
	}
}

func arrivalOrder(t *testing.T, e *Env) {
	svc := e.NewService()
	held := hold(t, t.Context(), svc, write("x"))
	var queue []*pending
	for range 5 {
		queue = append(queue, start(t, t.Context(), svc, locks(write("x"))))
		settle()
	}
	for i, p := range queue {
		letGo(t, held)
		held = p.got()
		for _, later := range queue[i+1:] {
			e.stillWaits(later)
		}
	}
}

// J6
func crashedHolder(t *testing.T, e *Env) {
	svc := e.NewService(lockservice.WithPollDelay(time.Hour))
	e.plantWriter("x", "dead", 40*time.Second)
	p := start(t, t.Context(), svc, locks(write("x")), timeout(time.Hour))
	p.got()
	require.InDelta(t, 40, p.after.Seconds(), 0.01, "at the expiry in the record, not by the poll")
}

// plantWriter writes a record by hand, as a holder on another machine would.
func (e *Env) plantWriter(name, owner string, lease time.Duration) {
	e.T.Helper()
	e.Do("SET", e.Key(name), foreignRecord(name, owner, e.RedisMillis(), lease))
}

// J2: somebody let the lock go without telling anybody.
func missedWakeUp(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	hold(t, t.Context(), a, write("x"))
	p := start(t, t.Context(), b, locks(write("x")))
	e.AwaitWaiting("x", 1)
	e.EditRecord("x", func(record map[string]any) { record["writeOwner"] = nil })
	p.got()
	require.LessOrEqual(t, p.after, e.Poll+e.Poll/10+time.Second)
}

// R3
func cheapWaiters(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	hold(t, t.Context(), a, write("x"))
	for i := range 200 {
		start(t, t.Context(), b, locks([]lockservice.Lock{read("x"), write("x")}[i%2]), timeout(time.Hour))
	}
	e.AwaitWaiting("x", 1)
	before := e.commandsInBubble("EXEC")
	e.Pass(10 * time.Minute)
	polls, renewals := 10*60/5, 10*60/30
	require.LessOrEqual(t, e.commandsInBubble("EXEC")-before, 2*(polls+renewals), "one transaction for all of them")
}

// J9
func subscriptionKilled(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	held := hold(t, t.Context(), a, write("x"))
	p := start(t, t.Context(), b, locks(write("x")))
	e.AwaitWaiting("x", 1)
	e.Do("CLIENT", "KILL", "TYPE", "pubsub")
	e.Eventually(func() bool {
		channels, err := ptr(e.Do("PUBSUB", "CHANNELS", "{"+e.Prefix+"}:wake:*")).AsStrSlice()
		return err == nil && len(channels) == 2
	}, "both have subscribed again")
	letGo(t, held)
	p.got()
}

// R9
func connectionsKilled(t *testing.T, e *Env) {
	svc := e.NewService()
	for range 3 {
		e.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		require.True(t, tries(t, t.Context(), svc, write("x"), read("y")))
	}
}

func ptr[T any](v T) *T { return &v }
