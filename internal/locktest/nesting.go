package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// nesting: a nested call acquires what its chain doesn't hold yet, and releases that.
var nesting = append([]scenario{
	{name: "NestedCallAcquiresAndReleasesOnlyWhatIsMissing", run: nestedPartly},
	{name: "HeldWriteServesNestedReads", run: readUnderWrite},
	{name: "UpgradeAloneIsGranted", run: upgradeAlone},
	{name: "UpgradeWaitsForTheOtherReader", run: upgradeWaits},
	{name: "UpgradeIsNotBlockedByAForeignWaitingWriter", run: upgradePastWriter},
	{name: "DowngradeLetsForeignReadersIn", run: downgrade},
	{name: "NestedCallOnALostLockIsRefusedWithoutRunning", run: nestedOnLost},
	{name: "LostOuterLockEndsTheInnerOnesToo", run: lostOuter},
	{name: "LostInnerLockLeavesTheOuterOne", run: lostInner},
	{name: "KeepLockDataOfTheAcquiringCallWins", run: keepWins},
	{name: "ReadersUnderAWriterThatWaitsReuseWhatTheyHold", run: reuseUnderWaitingWriter},
}, in(bubbleName,
	scenario{name: "InnerCallDoesNotEndTheOuterRenewal", run: innerEnds},
	scenario{name: "ContextOfTheAcquireDoesNotBoundTheHold", run: ctxDoesNotBound},
)...)

func nestedPartly(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	acquired, err := svc.TryWriteLock(t.Context(), []string{"a"}, func(ctx context.Context, _ hasLock) error {
		inner, err := svc.TryWriteLock(ctx, []string{"a", "b"}, func(_ context.Context, has hasLock) error {
			require.True(t, has())
			require.False(t, tries(t, t.Context(), other, write("a")))
			require.False(t, tries(t, t.Context(), other, write("b")))
			return nil
		})
		require.NoError(t, err)
		require.True(t, inner)
		require.True(t, tries(t, t.Context(), other, write("b")), "b is released")
		require.False(t, tries(t, t.Context(), other, write("a")), "a is still held")
		return nil
	})
	require.NoError(t, err)
	require.True(t, acquired)
	require.True(t, tries(t, t.Context(), other, write("a")))
}

// J55, J56
func readUnderWrite(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	w := hold(t, t.Context(), svc, write("x"))
	r := hold(t, w.Context(), svc, read("x"))
	require.Len(t, e.holders("x"), 1, "reused")
	letGo(t, r)
	require.False(t, tries(t, t.Context(), other, read("x")), "the write lock is still held")
	require.True(t, w.HasLock())
	require.False(t, r.HasLock())
}

// J59
func upgradeAlone(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	r := hold(t, t.Context(), svc, read("x"))
	w := hold(t, r.Context(), svc, write("x"))
	require.False(t, tries(t, t.Context(), other, read("x")))
	again := hold(t, w.Context(), svc, write("x"), read("x"))
	letGo(t, again)
	letGo(t, w)
	require.True(t, r.HasLock())
	require.True(t, tries(t, t.Context(), other, read("x")))
	require.False(t, tries(t, t.Context(), other, write("x")))
	letGo(t, r)
}

// J59
func upgradeWaits(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	mine, theirs := hold(t, t.Context(), svc, read("x")), hold(t, t.Context(), other, read("x"))
	require.False(t, tries(t, mine.Context(), svc, write("x")))
	up := start(t, mine.Context(), svc, locks(write("x")))
	e.AwaitWaiting("x", 1)
	e.stillWaits(up)
	letGo(t, theirs)
	letGo(t, up.got())
}

// J61
func upgradePastWriter(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	for _, writer := range []service{svc, other} {
		mine := hold(t, t.Context(), svc, read("x"))
		w := start(t, t.Context(), writer, locks(write("x")))
		e.AwaitWaiting("x", 1)
		up := hold(t, mine.Context(), svc, write("x"))
		e.stillWaits(w)
		letGo(t, up)
		letGo(t, mine)
		letGo(t, w.got())
	}
}

// J16
func downgrade(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	mine := hold(t, t.Context(), svc, read("x"))
	up := hold(t, mine.Context(), svc, write("x"))
	r := start(t, t.Context(), other, locks(read("x")))
	e.AwaitWaiting("x", 1)
	e.stillWaits(r)
	began := time.Now()
	letGo(t, up)
	r.got()
	if e.Fake {
		require.Less(t, time.Since(began), 10*time.Millisecond)
	}
	require.True(t, mine.HasLock())
}

// C9, K1
func nestedOnLost(t *testing.T, e *Env) {
	svc := e.NewService()
	a := hold(t, t.Context(), svc, write("x"))
	e.Do("DEL", e.Key("x"))
	<-a.Lost()
	for _, l := range []lockservice.Lock{read("x"), write("x")} {
		acquired, err := svc.TryLock(a.Context(), locks(l), func(context.Context, hasLock) error {
			t.Error("the code ran")
			return nil
		}, timeout(long))
		require.NoError(t, err)
		require.False(t, acquired)
		_, err = svc.Acquire(a.Context(), locks(l))
		require.ErrorIs(t, err, lockservice.ErrNotAcquired)
		require.ErrorIs(t, err, lockservice.ErrLockLost)
	}
	acquired, err := svc.TryWriteLock(a.Context(), []string{"y"}, nothing)
	require.False(t, acquired)
	require.ErrorIs(t, err, lockservice.ErrLockLost)
	require.ErrorIs(t, err, lockservice.ErrNotAcquired)
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, e.Record("x"), "it is not acquired again")
	require.True(t, tries(t, t.Context(), svc, write("x")), "a call outside of the lost one is somebody else")
}

func lostOuter(t *testing.T, e *Env) {
	svc := e.NewService()
	outer := hold(t, t.Context(), svc, write("x"))
	inner := hold(t, outer.Context(), svc, write("y"))
	e.Do("DEL", e.Key("x"))
	<-outer.Lost()
	require.False(t, inner.HasLock(), "the whole chain counts")
	<-inner.Context().Done()
	require.ErrorIs(t, context.Cause(inner.Context()), lockservice.ErrLockLost)
	_ = inner.Release(t.Context())
	require.Empty(t, e.holders("y"))
	require.ErrorIs(t, outer.Release(t.Context()), lockservice.ErrLockLost)
}

func lostInner(t *testing.T, e *Env) {
	svc := e.NewService()
	outer := hold(t, t.Context(), svc, write("x"))
	inner := hold(t, outer.Context(), svc, write("y"))
	e.Do("DEL", e.Key("y"))
	<-inner.Lost()
	require.False(t, inner.HasLock())
	require.True(t, outer.HasLock())
	require.NoError(t, outer.Context().Err())
	require.ErrorIs(t, inner.Release(t.Context()), lockservice.ErrLockLost)
	letGo(t, outer)
}

func keepWins(t *testing.T, e *Env) {
	svc, ctx := e.NewService(), t.Context()
	for _, kept := range []bool{true, false} {
		var outer, inner []lockservice.LockOption
		if kept {
			outer = []lockservice.LockOption{lockservice.WithKeepLockData()}
		} else {
			inner = []lockservice.LockOption{lockservice.WithKeepLockData()}
		}
		acquired, err := svc.TryWriteLock(ctx, []string{"x"}, func(ctx context.Context, _ hasLock) error {
			_, err := svc.TryWriteLock(ctx, []string{"x"}, nothing, inner...)
			return err
		}, outer...)
		require.NoError(t, err)
		require.True(t, acquired)
		require.Equal(t, kept, e.Record("x")["keepLockData"])
		require.Equal(t, kept, e.ttl("x") < 0)
	}
}

// ttl is the record's time to live; negative for ever.
func (e *Env) ttl(name string) time.Duration {
	msg := e.Do("PTTL", e.Key(name))
	ms, err := msg.AsInt64()
	require.NoError(e.T, err)
	return time.Duration(ms) * time.Millisecond
}

func reuseUnderWaitingWriter(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	r := hold(t, t.Context(), svc, read("x"))
	w := start(t, t.Context(), other, locks(write("x")))
	e.AwaitWaiting("x", 1)
	require.True(t, tries(t, r.Context(), svc, read("x")))
	require.True(t, tries(t, r.Context(), svc, read("x"), write("y")))
	letGo(t, r)
	w.got()
}

// B8
func innerEnds(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	outer := hold(t, t.Context(), svc, write("x"))
	letGo(t, hold(t, outer.Context(), svc, write("x")))
	letGo(t, hold(t, outer.Context(), svc, write("x"), write("y")))
	e.Pass(3 * e.Lease)
	require.True(t, outer.HasLock())
	require.False(t, tries(t, t.Context(), other, write("x")))
	letGo(t, outer)
}

// B8, D4
func ctxDoesNotBound(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	a, err := svc.Acquire(ctx, locks(write("x")), timeout(time.Second))
	require.NoError(t, err)
	e.Pass(3 * e.Lease)
	require.Error(t, a.Context().Err())
	require.True(t, a.HasLock())
	require.False(t, tries(t, t.Context(), other, write("x")))
	letGo(t, a)
}
