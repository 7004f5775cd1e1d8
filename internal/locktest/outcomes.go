package locktest

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// outcomes: what a call returns, never mixed up.
var outcomes = append([]scenario{
	{name: "TakenLockIsFalseWithoutAnError", run: takenIsFalse},
	{name: "NotAcquiredErrorNamesWhoIsInTheWay", run: blockerNamed},
	{name: "WaitingWriterIsNamedToTheReaderItKeepsOut", run: waitingWriterNamed},
	{name: "ErrorOfTheCodeIsHandedBackUntouched", run: ownErrorUntouched},
	{name: "LossNeverHidesTheCodesOwnError", run: lossJoined},
	{name: "CancelledWaiterIsToldBothReasonsAndLeavesNothing", run: cancelledWaiter},
	{name: "ContextDoneBeforehandTouchesNothing", run: doneBefore},
	{name: "PanicReleasesAndGoesOnWithItsOwnStack", run: panicReleases},
	{name: "GoexitReleases", run: goexitReleases},
	{name: "CancellationInsideTheCodeDoesNotKeepTheLock", run: cancelInside},
	{name: "ResultsComeThrough", run: resultsComeThrough},
}, in(bubbleName,
	scenario{name: "UnreachableRedisIsNeverTakenForATakenLock", run: unreachable},
	scenario{name: "SilentRedisIsNoContextErrorOfTheCaller", run: silent},
	scenario{name: "ReleaseThatFailsGoesOnInTheBackground", run: releaseInBackground},
)...)

func takenIsFalse(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	hold(t, t.Context(), a, write("x"))
	for _, svc := range []service{a, b} {
		for _, l := range []lockservice.Lock{read("x"), write("x")} {
			acquired, err := svc.TryLock(t.Context(), locks(l), func(context.Context, hasLock) error {
				t.Error("the code ran without its lock")
				return nil
			})
			require.NoError(t, err)
			require.False(t, acquired)
		}
	}
}

// C12
func blockerNamed(t *testing.T, e *Env) {
	a, b := e.NewService(lockservice.WithOwner("alice")), e.NewService()
	before := e.RedisMillis()
	hold(t, t.Context(), a, write("x"))
	_, err := b.Acquire(t.Context(), locks(read("x"), write("y")))
	require.ErrorIs(t, err, lockservice.ErrNotAcquired)
	require.ErrorContains(t, err, `"alice"`)
	require.ErrorContains(t, err, `"x"`)
	var not *lockservice.NotAcquiredError
	require.ErrorAs(t, err, &not)
	require.NoError(t, not.Cause)
	require.Len(t, not.Blockers, 1)
	who := not.Blockers[0]
	require.Equal(t, "x", who.LockName)
	require.Equal(t, "alice", who.Owner)
	require.True(t, who.Write)
	require.False(t, who.Waiting || who.HoldOff)
	require.GreaterOrEqual(t, who.Since.UnixMilli(), before)
	require.Equal(t, e.Lease, who.Until.Sub(who.Since))
}

func waitingWriterNamed(t *testing.T, e *Env) {
	a, b, c := e.NewService(), e.NewService(lockservice.WithOwner("bob")), e.NewService()
	hold(t, t.Context(), a, read("x"))
	start(t, t.Context(), b, locks(write("x")))
	e.AwaitWaiting("x", 1)
	for _, svc := range []service{b, c} {
		_, err := svc.Acquire(t.Context(), locks(read("x")))
		var not *lockservice.NotAcquiredError
		require.ErrorAs(t, err, &not)
		require.Len(t, not.Blockers, 1)
		require.True(t, not.Blockers[0].Waiting && not.Blockers[0].Write)
		require.NotEmpty(t, not.Blockers[0].Node)
	}
}

func ownErrorUntouched(t *testing.T, e *Env) {
	svc := e.NewService()
	mine := errors.New("mine")
	acquired, err := svc.TryWriteLock(t.Context(), []string{"x"}, func(context.Context, hasLock) error { return mine })
	require.True(t, acquired)
	require.Same(t, mine, err)
	require.True(t, tries(t, t.Context(), svc, write("x")), "an error releases")
}

// J45
func lossJoined(t *testing.T, e *Env) {
	svc := e.NewService()
	for _, mine := range []error{errors.New("mine"), nil} {
		acquired, err := svc.TryWriteLock(t.Context(), []string{"x"}, func(context.Context, hasLock) error {
			e.Do("DEL", e.Key("x"))
			return mine
		})
		require.True(t, acquired)
		require.ErrorIs(t, err, lockservice.ErrLockLost)
		if mine != nil {
			require.ErrorIs(t, err, mine)
		}
	}
}

// S6, B1
func cancelledWaiter(t *testing.T, e *Env) {
	svc := e.NewService()
	held := hold(t, t.Context(), svc, write("x"))
	why := errors.New("the user has left")
	for _, other := range []service{svc, e.NewService()} {
		ctx, cancel := context.WithCancelCause(t.Context())
		p := start(t, ctx, other, locks(write("x"), write("y")))
		e.AwaitWaiting("x", 1)
		began := time.Now()
		cancel(why)
		err := p.failed()
		if e.Fake {
			require.Zero(t, time.Since(began))
		}
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, lockservice.ErrNotAcquired)
		require.ErrorIs(t, err, why)
		e.AwaitWaiting("x", 0)
		require.Empty(t, e.holders("y"))
	}
	letGo(t, held)
	e.free("x")
}

func doneBefore(t *testing.T, e *Env) {
	svc := e.NewService()
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	acquired, err := svc.TryWriteLock(ctx, []string{"x"}, nothing, timeout(long))
	require.False(t, acquired)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lockservice.ErrNotAcquired)
	require.Nil(t, e.Record("x"))
}

// E2, G6
func panicReleases(t *testing.T, e *Env) {
	svc := e.NewService()
	value := &struct{ text string }{"boom"}
	func() {
		defer func() {
			// The stack is still that of the panic, since nobody has recovered it on the way.
			require.Contains(t, string(debug.Stack()), "locktest.explode")
			require.Same(t, value, recover())
		}()
		_, _ = svc.TryWriteLock(t.Context(), []string{"x"}, func(context.Context, hasLock) error {
			explode(value)
			return nil
		})
	}()
	require.Empty(t, e.holders("x"))
	require.Equal(t, "panic", e.Record("x")["writeOwner"].(map[string]any)["outcome"])
	require.True(t, tries(t, t.Context(), svc, write("x")))
}

//go:noinline
func explode(value any) { panic(value) }

// E2
func goexitReleases(t *testing.T, e *Env) {
	svc := e.NewService()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = svc.TryWriteLock(t.Context(), []string{"x"}, func(context.Context, hasLock) error {
			runtime.Goexit()
			return nil
		})
		t.Error("went on after Goexit")
	}()
	<-done
	require.True(t, tries(t, t.Context(), svc, write("x")))
}

// S13
func cancelInside(t *testing.T, e *Env) {
	svc := e.NewService()
	ctx, cancel := context.WithCancel(t.Context())
	acquired, err := svc.TryWriteLock(ctx, []string{"x"}, func(ctx context.Context, has hasLock) error {
		cancel()
		require.True(t, has(), "a cancelled context is no lost lock")
		return ctx.Err()
	})
	require.True(t, acquired)
	require.Equal(t, context.Canceled, err)
	require.Empty(t, e.holders("x"))
}

func resultsComeThrough(t *testing.T, e *Env) {
	svc, ctx := e.NewService(), t.Context()
	answer := func(context.Context, hasLock) (int, error) { return 42, nil }
	for range 2 {
		result, acquired, err := lockservice.TryWriteLockWithResult(ctx, svc, []string{"x"}, answer)
		require.NoError(t, err)
		require.True(t, acquired)
		require.Equal(t, 42, result)
	}
	result, acquired, err := lockservice.TryReadLockWithResult(ctx, svc, []string{"x"}, answer)
	require.Equal(t, []any{42, true, nil}, []any{result, acquired, err})
	hold(t, ctx, svc, write("x"))
	result, acquired, err = lockservice.TryLockWithResult(ctx, svc, locks(read("x"), write("y")), answer)
	require.Equal(t, []any{0, false, nil}, []any{result, acquired, err})
}

func unreachable(t *testing.T, e *Env) {
	svc := e.NewService()
	e.Cut()
	began := time.Now()
	acquired, err := svc.TryWriteLock(t.Context(), []string{"x"}, nothing)
	require.False(t, acquired)
	require.ErrorIs(t, err, lockservice.ErrUnavailable)
	require.NotErrorIs(t, err, lockservice.ErrNotAcquired)
	require.LessOrEqual(t, time.Since(began), 6*time.Second, "bounded by the connection timeout")
	_, err = svc.GetLockInfo(t.Context(), []string{"x"})
	require.ErrorIs(t, err, lockservice.ErrUnavailable)
	require.ErrorIs(t, svc.WaitUntilReady(t.Context()), lockservice.ErrUnavailable)
	e.Heal()
	e.Pass(5 * time.Second)
	require.True(t, tries(t, t.Context(), svc, write("x")))
}

func silent(t *testing.T, e *Env) {
	svc := e.NewService()
	e.Pause()
	defer e.Unpause()
	began := time.Now()
	acquired, err := svc.TryWriteLock(t.Context(), []string{"x"}, nothing)
	require.False(t, acquired)
	require.ErrorIs(t, err, lockservice.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.LessOrEqual(t, time.Since(began), 6*time.Second)
}

// Z2, S13
func releaseInBackground(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	acquired, err := svc.TryWriteLock(t.Context(), []string{"x"}, func(context.Context, hasLock) error {
		e.Cut()
		return nil
	})
	require.True(t, acquired)
	require.NoError(t, err, "a failed release never changes the result of the code")
	e.Heal()
	e.Pass(10 * time.Second)
	require.True(t, tries(t, t.Context(), other, write("x")), "long before the lease would have ended")
}
