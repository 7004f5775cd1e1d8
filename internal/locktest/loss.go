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

// loss: who has lost a lock is told, once, in every way, and touches nothing.
var loss = slices.Concat([]scenario{
	{name: "DeletedRecordIsALoss", run: lossBy(func(e *Env) { e.Do("DEL", e.Key("x")) })},
	{name: "RecordTakenOverByAnotherIsALossAndStaysAsItIs", run: takenOver},
	{name: "ReleaseAfterALossNeverTouchesAnothersLock", run: neverTouches},
	{name: "FlushedServerIsALoss", run: lossBy(func(e *Env) { e.Do("FLUSHALL") }), hurts: true},
	{name: "RestartWithoutDataIsALoss", run: lossBy(func(e *Env) { e.Restart(false) }), hurts: true},
	{name: "RestartWithDataIsALoss", run: lossBy(func(e *Env) { e.Restart(true) }), hurts: true, disk: true},
	{name: "RecordFromAnOldSnapshotIsALoss", run: oldSnapshot},
}, in(bubbleName,
	scenario{name: "UnreachableServerIsALossByTheLocalClock", run: lossByClock(func(e *Env) { e.Cut() })},
	scenario{name: "SilentServerIsALossByTheLocalClock", run: lossByClock(func(e *Env) { e.Pause() })},
	scenario{name: "NextHolderComesAfterTheLastOneHasLost", run: nextHolder},
	scenario{name: "LapsedLeaseIsNotResurrected", run: notResurrected},
))

// lossBy expects the loss of a held lock by the next renewal.
func lossBy(hurt func(e *Env)) func(t *testing.T, e *Env) {
	return func(t *testing.T, e *Env) {
		core, logs := observer.New(zapcore.WarnLevel)
		svc := e.NewService(lockservice.WithLogger(zap.New(core)))
		a := hold(t, t.Context(), svc, write("x"))
		began := time.Now()
		hurt(e)
		<-a.Lost()
		if e.Fake {
			require.LessOrEqual(t, time.Since(began), e.Lease/2+time.Second, "by the next renewal")
		}
		e.requireLost(a)
		require.Equal(t, 1, logs.FilterMessageSnippet("lost while it was held").Len(), "told once")
	}
}

// requireLost looks at every way in which a loss shows.
func (e *Env) requireLost(a *lockservice.Acquisition) {
	t := e.T
	t.Helper()
	require.False(t, a.HasLock())
	<-a.Lost()
	<-a.Context().Done()
	require.ErrorIs(t, a.Context().Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(a.Context()), lockservice.ErrLockLost)
	_, held := a.FencingToken("x")
	require.False(t, held)
	_, held = lockservice.FencingToken(a.Context(), "x")
	require.False(t, held)
	for range 2 {
		require.ErrorIs(t, a.Release(context.Background()), lockservice.ErrLockLost)
	}
}

// K1, J40
func takenOver(t *testing.T, e *Env) {
	svc := e.NewService()
	a := hold(t, t.Context(), svc, write("x"))
	e.plantWriter("x", "thief", 10*time.Minute)
	planted := e.Get(e.Key("x"))
	<-a.Lost()
	e.requireLost(a)
	require.Equal(t, planted, e.Get(e.Key("x")))
	require.False(t, tries(t, t.Context(), svc, read("x")))
}

// J40
func neverTouches(t *testing.T, e *Env) {
	svc := e.NewService()
	acquired, err := svc.TryWriteLock(t.Context(), []string{"x"}, func(context.Context, hasLock) error {
		e.plantWriter("x", "thief", 10*time.Minute)
		return nil
	})
	require.True(t, acquired)
	require.ErrorIs(t, err, lockservice.ErrLockLost, "a loss first noticed by the release is one")
	require.Len(t, e.holders("x"), 1)
	require.Equal(t, "thief", e.Record("x")["writeOwner"].(map[string]any)["owner"])
}

// oldSnapshot: a record is put back as it was before the last renewal.
func oldSnapshot(t *testing.T, e *Env) {
	svc := e.NewService()
	a := hold(t, t.Context(), svc, write("x"))
	before := e.Get(e.Key("x"))
	e.Pass(e.Lease / 2)
	e.Eventually(func() bool { return e.Get(e.Key("x")) != before }, "it was renewed")
	e.Pass(10 * time.Millisecond) // the holder has the reply
	e.Do("SET", e.Key("x"), before)
	<-a.Lost()
	e.requireLost(a)
}

// S8, E9, C1, D2, B7, K2: nothing but time says so.
func lossByClock(hurt func(e *Env)) func(t *testing.T, e *Env) {
	return func(t *testing.T, e *Env) {
		svc := e.NewService()
		a := hold(t, t.Context(), svc, write("x"))
		hurt(e)
		margin := e.Lease / 50
		e.Pass(e.Lease - margin - time.Millisecond)
		require.True(t, a.HasLock())
		require.NoError(t, a.Context().Err())
		e.Pass(time.Millisecond)
		settle()
		require.False(t, a.HasLock())
		e.requireLost(a)
	}
}

// J32: a is cut off for good; b waits, through an outage of its own.
func nextHolder(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	held := hold(t, t.Context(), a, write("x"))
	lostAt := make(chan time.Time, 1)
	go func() {
		<-held.Lost()
		lostAt <- time.Now()
	}()
	e.Cut()
	p := start(t, t.Context(), b, locks(write("x")), timeout(time.Hour))
	e.Pass(e.Lease - e.Lease/50 - 100*time.Millisecond)
	require.True(t, held.HasLock())
	e.Pass(200 * time.Millisecond)
	require.False(t, held.HasLock())
	e.Heal()
	p.got()
	require.Positive(t, time.Since(<-lostAt), "b is in after a has lost")
	require.GreaterOrEqual(t, p.after, e.Lease-time.Millisecond, "and not before the lease has ended by Redis' clock")
}

func notResurrected(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	held := hold(t, t.Context(), a, write("x"))
	e.Cut()
	e.Pass(e.Lease + time.Second)
	e.Heal()
	e.Pass(5 * time.Second)
	require.False(t, held.HasLock())
	theirs := hold(t, t.Context(), b, write("x"))
	require.ErrorIs(t, held.Release(t.Context()), lockservice.ErrLockLost)
	e.Pass(2 * e.Lease)
	require.True(t, theirs.HasLock())
	require.Len(t, e.holders("x"), 1)
}
