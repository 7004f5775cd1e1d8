package locktest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/redislockservice/redislockservice/lockservice"
)

// restarts: a server that may have forgotten locks hands out none for a lease.
var restarts = slices.Concat([]scenario{
	{name: "NothingIsGrantedAfterARestartForALease", run: holdsOff(func(e *Env) { e.Restart(false) }), hurts: true},
	{name: "NothingIsGrantedAfterARestartWithDataForALease", run: holdsOff(func(e *Env) { e.Restart(true) }), hurts: true, disk: true},
	{name: "NothingIsGrantedAfterAFlushForALease", run: holdsOff(func(e *Env) { e.Do("FLUSHALL") }), hurts: true},
	{name: "NestedCallThatNeedsNoGrantGoesOnInTheHoldOff", run: nestedInHoldOff, hurts: true},
}, in(bubbleName,
	scenario{name: "HoldOffCountsTowardsTheTimeout", run: holdOffCounts},
	scenario{name: "HoldOffIsLoggedOnceWithTheTimeLeft", run: holdOffLogged},
	scenario{name: "LargestLeaseOfAllServicesCounts", run: largestLease},
	scenario{name: "FirstUseOfAnOldServerNeedsNoHoldOff", run: firstUse},
	scenario{name: "ServiceThatStartsAfterTheFlushHoldsOffToo", run: lateService},
	scenario{name: "WaitUntilReadyEndsWithItsContextOrTheService", run: readyEnds},
))

func holdsOff(hurt func(e *Env)) func(t *testing.T, e *Env) {
	return func(t *testing.T, e *Env) {
		a, b := e.NewService(), e.NewService()
		held := hold(t, t.Context(), a, write("x"))
		began := time.Now()
		hurt(e)
		_, err := b.Acquire(t.Context(), locks(read("other")))
		require.ErrorIs(t, err, lockservice.ErrNotAcquired)
		var not *lockservice.NotAcquiredError
		require.ErrorAs(t, err, &not)
		require.Len(t, not.Blockers, 1)
		require.True(t, not.Blockers[0].HoldOff)
		require.NoError(t, b.WaitUntilReady(t.Context()))
		require.GreaterOrEqual(t, time.Since(began), e.Lease-e.Lease/50)
		if e.Fake {
			require.LessOrEqual(t, time.Since(began), e.Lease+3*time.Second)
		}
		require.False(t, held.HasLock(), "ready although somebody believes that he holds a lock")
		require.True(t, tries(t, t.Context(), b, write("x")))
		require.NoError(t, a.WaitUntilReady(t.Context()))
		require.True(t, tries(t, t.Context(), a, write("x")))
	}
}

func nestedInHoldOff(t *testing.T, e *Env) {
	svc := e.NewService(lockservice.WithRenewalInterval(e.Lease * 3 / 4))
	outer := hold(t, t.Context(), svc, write("x"))
	e.Do("FLUSHALL")
	require.True(t, tries(t, outer.Context(), svc, read("x")), "the loss is not known yet, and nothing has to be granted")
	require.False(t, tries(t, outer.Context(), svc, write("y")))
}

func holdOffCounts(t *testing.T, e *Env) {
	svc := e.NewService()
	e.Restart(false)
	short := start(t, t.Context(), svc, locks(write("x")), timeout(30*time.Second))
	enough := start(t, t.Context(), svc, locks(write("y")), timeout(90*time.Second))
	require.ErrorIs(t, short.failed(), lockservice.ErrNotAcquired)
	require.Equal(t, 30*time.Second, short.after)
	enough.got()
	require.InDelta(t, 61, enough.after.Seconds(), 1.5)
}

func holdOffLogged(t *testing.T, e *Env) {
	core, logs := observer.New(zapcore.WarnLevel)
	svc := e.NewService(lockservice.WithLogger(zap.New(core)))
	e.Restart(false)
	for range 50 {
		require.False(t, tries(t, t.Context(), svc, write("x")))
		e.Pass(time.Second)
	}
	told := logs.FilterMessageSnippet("no lock is granted")
	require.Equal(t, 1, told.Len(), "%v", logs.All())
	require.Contains(t, told.All()[0].ContextMap(), "left")
}

func largestLease(t *testing.T, e *Env) {
	slow, quick := e.NewService(lockservice.WithLeaseTime(5*time.Minute)), e.NewService(lockservice.WithLeaseTime(10*time.Second))
	held := hold(t, t.Context(), slow, write("x"))
	e.Cut()
	e.Heal()
	e.Restart(false)
	e.Do("SET", e.ServerKey(), e.serverMemory(5*time.Minute, "another run"))
	p := start(t, t.Context(), quick, locks(write("y")), timeout(time.Hour))
	p.got()
	require.GreaterOrEqual(t, p.after, 5*time.Minute)
	require.LessOrEqual(t, p.after, 5*time.Minute+10*time.Second)
	require.False(t, held.HasLock())
}

func (e *Env) serverMemory(lease time.Duration, runID string) string {
	return `{"v":1,"runId":"` + runID + `","sinceEpochMillis":0,"leaseMillis":` + itoa(lease.Milliseconds()) + `}`
}

func firstUse(t *testing.T, e *Env) {
	svc, err := lockservice.New(t.Context(), e.Client(), e.Options()...)
	require.NoError(t, err)
	defer e.Close(svc)
	began := time.Now()
	require.True(t, tries(t, t.Context(), svc, write("x")))
	require.Less(t, time.Since(began), time.Second)
}

func lateService(t *testing.T, e *Env) {
	a := e.NewService()
	hold(t, t.Context(), a, write("x"))
	e.Do("FLUSHALL")
	require.False(t, tries(t, t.Context(), a, write("y"))) // it notices, and tells by the server's key
	late, err := lockservice.New(t.Context(), e.Client(), e.Options()...)
	require.NoError(t, err)
	defer e.Close(late)
	require.False(t, tries(t, t.Context(), late, write("x")))
	require.NoError(t, late.WaitUntilReady(t.Context()))
	require.True(t, tries(t, t.Context(), late, write("x")))
}

func readyEnds(t *testing.T, e *Env) {
	svc := e.NewService()
	e.Restart(false)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	began := time.Now()
	require.ErrorIs(t, svc.WaitUntilReady(ctx), context.DeadlineExceeded)
	require.Equal(t, 3*time.Second, time.Since(began))
	ended := make(chan error, 1)
	go func() { ended <- svc.WaitUntilReady(t.Context()) }()
	e.Pass(time.Second)
	e.Close(svc)
	require.ErrorIs(t, <-ended, lockservice.ErrClosed)
}
