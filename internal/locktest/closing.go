package locktest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// closing: nobody waits for ever, and nothing is left behind.
var closing = slices.Concat([]scenario{
	{name: "WaitersAreToldAtOnceAndLeaveNoMark", run: waitersToldAtOnce},
	{name: "RunningCodeMayFinishAndRelease", run: mayFinish},
	{name: "WhatRunsOnIsCutOffAndItsRecordLeft", run: cutOff},
	{name: "EveryCallAfterCloseIsRefused", run: refusedAfterClose},
	{name: "CloseTwiceAndAtTheSameTimeIsOneClose", run: closeTogether},
	{name: "CloseFromInsideTheCodeIsBoundedByItsContext", run: closeFromInside},
	{name: "ClientOfTheCallerStaysOpen", run: clientStaysOpen},
	{name: "CloseRacingAcquiresLeavesNothingHeld", run: closeRaces},
}, in(bubbleName,
	scenario{name: "CloseOnASilentServerIsBounded", run: closeBounded(func(e *Env) { e.Pause() })},
	scenario{name: "CloseOnAnUnreachableServerIsBounded", run: closeBounded(func(e *Env) { e.Cut() })},
))

func waitersToldAtOnce(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	hold(t, t.Context(), a, write("x"))
	waiters := []*pending{start(t, t.Context(), b, locks(write("x"))), start(t, t.Context(), b, locks(read("x"), write("y")))}
	e.AwaitWaiting("x", 1)
	began := time.Now()
	require.NoError(t, b.Close(t.Context()))
	for _, p := range waiters {
		err := p.failed()
		require.ErrorIs(t, err, lockservice.ErrClosed)
		require.NotErrorIs(t, err, lockservice.ErrNotAcquired)
	}
	if e.Fake {
		require.Less(t, time.Since(began), 100*time.Millisecond)
	}
	e.AwaitWaiting("x", 0)
}

func mayFinish(t *testing.T, e *Env) {
	svc := e.NewService()
	a := hold(t, t.Context(), svc, write("x"))
	closed := make(chan error, 1)
	go func() { closed <- svc.Close(t.Context()) }()
	e.Eventually(func() bool {
		_, err := svc.GetLockInfo(t.Context(), []string{"x"})
		return err != nil
	}, "closing")
	_, err := svc.TryWriteLock(t.Context(), []string{"y"}, nothing)
	require.ErrorIs(t, err, lockservice.ErrClosed)
	e.Pass(2 * e.Lease) // it is renewed still
	require.True(t, a.HasLock())
	require.NoError(t, a.Context().Err())
	require.Empty(t, closed)
	letGo(t, a)
	require.NoError(t, <-closed)
	require.Empty(t, e.holders("x"))
}

func cutOff(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	a := hold(t, t.Context(), svc, write("x"))
	e.Close(svc)
	require.False(t, a.HasLock())
	require.ErrorIs(t, a.Context().Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(a.Context()), lockservice.ErrClosed)
	<-a.Lost()
	require.Error(t, a.Release(t.Context()))
	require.Len(t, e.holders("x"), 1, "the code may be running on: it lapses")
	require.False(t, tries(t, t.Context(), other, write("x")))
	p := start(t, t.Context(), other, locks(write("x")), timeout(2*time.Minute))
	p.got()
}

func refusedAfterClose(t *testing.T, e *Env) {
	svc, ctx := e.NewService(), t.Context()
	a := hold(t, ctx, svc, write("x"))
	letGo(t, a)
	require.NoError(t, svc.Close(ctx))
	began := time.Now()
	for _, opts := range [][]lockservice.LockOption{nil, {timeout(long)}} {
		acquired, err := svc.TryWriteLock(ctx, []string{"x"}, nothing, opts...)
		require.False(t, acquired)
		require.ErrorIs(t, err, lockservice.ErrClosed)
		_, err = svc.Acquire(ctx, locks(read("x")), opts...)
		require.ErrorIs(t, err, lockservice.ErrClosed)
	}
	_, err := svc.GetLockInfo(ctx, []string{"x"})
	require.ErrorIs(t, err, lockservice.ErrClosed)
	require.ErrorIs(t, svc.WaitUntilReady(ctx), lockservice.ErrClosed)
	require.NoError(t, a.Release(ctx), "as the first said")
	require.NoError(t, svc.Close(ctx))
	require.Less(t, time.Since(began), 5*time.Second)
}

func closeTogether(t *testing.T, e *Env) {
	svc := e.NewService()
	a := hold(t, t.Context(), svc, write("x"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := svc.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if a.HasLock() {
				t.Error("Close returned before the end")
			}
		})
	}
	e.Pass(50 * time.Millisecond)
	letGo(t, a)
	all.Wait()
}

func closeFromInside(t *testing.T, e *Env) {
	svc := e.NewService()
	acquired, err := svc.TryWriteLock(t.Context(), []string{"x"}, func(ctx context.Context, has hasLock) error {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 200*time.Millisecond)
		defer cancel()
		require.NoError(t, svc.Close(bounded))
		require.False(t, has())
		require.ErrorIs(t, context.Cause(ctx), lockservice.ErrClosed)
		return nil
	})
	require.True(t, acquired)
	require.ErrorIs(t, err, lockservice.ErrClosed)
}

func clientStaysOpen(t *testing.T, e *Env) {
	client := e.Client()
	for range 3 {
		svc := e.NewServiceOn(client)
		require.True(t, tries(t, t.Context(), svc, write("x")))
		require.NoError(t, svc.Close(t.Context()))
		require.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error())
	}
}

func closeRaces(t *testing.T, e *Env) {
	for range 10 {
		svc := e.NewService()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for {
					_, err := svc.TryLock(t.Context(), locks([]lockservice.Lock{read("x"), write("x")}[i%2]), nothing, timeout(long))
					if err != nil {
						if !errors.Is(err, lockservice.ErrClosed) {
							t.Error(err)
						}
						return
					}
					e.pause(t.Context(), time.Millisecond)
				}
			})
		}
		e.Eventually(func() bool { return e.Record("x") != nil }, "they run")
		require.NoError(t, svc.Close(t.Context()))
		all.Wait()
		require.Empty(t, e.holders("x"))
		require.Empty(t, e.Record("x")["waiting"])
	}
}

// E8
func closeBounded(hurt func(e *Env)) func(t *testing.T, e *Env) {
	return func(t *testing.T, e *Env) {
		svc := e.NewService()
		a := hold(t, t.Context(), svc, write("x"))
		p := start(t, t.Context(), svc, locks(write("x")), timeout(time.Hour))
		e.AwaitWaiting("x", 1)
		hurt(e)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		began := time.Now()
		require.NoError(t, svc.Close(ctx))
		require.LessOrEqual(t, time.Since(began), 15*time.Second)
		require.False(t, a.HasLock())
		require.ErrorIs(t, p.failed(), lockservice.ErrClosed)
		require.Less(t, p.after, time.Second)
	}
}
