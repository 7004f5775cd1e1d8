package locktest

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// identity: the context stands for the thread, the handle for the hold.
var identity = []scenario{
	{name: "GoroutinesSharingAContextExcludeEachOtherInNestedCalls", run: sharedContext},
	{name: "ContextOfAFinishedHoldDoesNotCount", run: finishedContext},
	{name: "WorkThatOutlivesTheCodeIsToldSo", run: outlivingWork},
	{name: "AnotherServiceIsAnotherOwner", run: otherService},
	{name: "ReleaseWorksFromAnyGoroutine", run: releaseElsewhere},
	{name: "ReleaseIsIdempotentAndNilSafe", run: releaseTwice},
	{name: "PlainReleaseIsNoLoss", run: plainRelease},
	{name: "ValuesOfTheCallersContextComeThrough", run: valuesComeThrough},
}

// J65, E7
func sharedContext(t *testing.T, e *Env) {
	svc := e.NewService()
	outer := hold(t, t.Context(), svc, write("outer"))
	inside := 0 // guarded by the lock "inner" alone: the race detector tells
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for range 20 {
				acquired, err := svc.TryWriteLock(outer.Context(), []string{"outer", "inner"}, func(context.Context, hasLock) error {
					inside++
					return nil
				}, timeout(long))
				if !acquired || err != nil {
					t.Errorf("acquired %v, %v", acquired, err)
				}
			}
		})
	}
	both.Wait()
	require.Equal(t, 40, inside)
	letGo(t, outer)
}

func finishedContext(t *testing.T, e *Env) {
	svc := e.NewService()
	first := hold(t, t.Context(), svc, write("x"))
	old, _ := first.FencingToken("x")
	letGo(t, first)
	stale := context.WithoutCancel(first.Context())
	_, held := lockservice.FencingToken(stale, "x")
	require.False(t, held)

	second := hold(t, stale, svc, write("x"))
	token, held := lockservice.FencingToken(second.Context(), "x")
	require.True(t, held)
	require.Greater(t, token, old, "acquired anew")
	require.False(t, tries(t, stale, svc, write("x")), "the finished hold's context owns nothing")
	letGo(t, second)
}

func outlivingWork(t *testing.T, e *Env) {
	svc := e.NewService()
	var kept hasLock
	var left context.Context
	_, err := svc.TryWriteLock(t.Context(), []string{"x"}, func(ctx context.Context, has hasLock) error {
		kept, left = has, ctx
		return nil
	})
	require.NoError(t, err)
	require.False(t, kept())
	require.ErrorIs(t, left.Err(), context.Canceled)
	require.NotErrorIs(t, context.Cause(left), lockservice.ErrLockLost)
}

func otherService(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	outer := hold(t, t.Context(), a, write("x"))
	require.False(t, tries(t, outer.Context(), b, write("x")))
	inner := hold(t, outer.Context(), b, write("y"))
	require.True(t, tries(t, inner.Context(), a, write("x")), "the chain of a is still carried")
	require.True(t, tries(t, inner.Context(), b, write("y")))
	token, held := lockservice.FencingToken(inner.Context(), "x")
	want, _ := outer.FencingToken("x")
	require.True(t, held)
	require.Equal(t, want, token)
}

// J66
func releaseElsewhere(t *testing.T, e *Env) {
	svc := e.NewService()
	a := hold(t, t.Context(), svc, write("x"))
	errs := make(chan error)
	for range 4 {
		go func() { errs <- a.Release(context.Background()) }()
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
	require.True(t, tries(t, t.Context(), svc, write("x")))
}

// B3
func releaseTwice(t *testing.T, e *Env) {
	svc := e.NewService()
	var none *lockservice.Acquisition
	require.NoError(t, none.Release(t.Context()))
	require.False(t, none.HasLock())
	_, held := none.FencingToken("x")
	require.False(t, held)

	a := hold(t, t.Context(), svc, write("x"))
	letGo(t, a)
	b := hold(t, t.Context(), svc, write("x"))
	letGo(t, a) // must not touch b's
	require.True(t, b.HasLock())
	require.Len(t, e.holders("x"), 1)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, b.Release(done), "the release has time of its own")
	require.Empty(t, e.holders("x"))
}

func plainRelease(t *testing.T, e *Env) {
	svc := e.NewService()
	a := hold(t, t.Context(), svc, write("x"))
	letGo(t, a)
	require.ErrorIs(t, a.Context().Err(), context.Canceled)
	select {
	case <-a.Lost():
		t.Error("Lost is closed")
	default:
	}
	require.False(t, a.HasLock())
}

func valuesComeThrough(t *testing.T, e *Env) {
	type key struct{}
	svc := e.NewService()
	ctx := context.WithValue(t.Context(), key{}, "value")
	_, err := svc.TryReadLock(ctx, []string{"x"}, func(ctx context.Context, _ hasLock) error {
		require.Equal(t, "value", ctx.Value(key{}))
		return nil
	})
	require.NoError(t, err)
}
