package locktest

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// multi: several locks are had together or not at all.
var multi = slices.Concat([]scenario{
	{name: "OneTakenNameKeepsAllOthersFree", run: oneTaken},
	{name: "WaiterForSeveralGetsThemTogether", run: togetherLater},
	{name: "OppositeOrdersMakeProgress", run: oppositeOrders},
	{name: "CancelledMultiAcquireLeavesNothing", run: cancelledMulti},
	{name: "OneLostRecordIsTheLossOfAll", run: oneLost},
}, in(bubbleName,
	scenario{name: "AcquireWhoseReplyWasLostIsAdopted", run: lostAcquireReply},
	scenario{name: "ReleaseWhoseReplyWasLostIsDone", run: lostReleaseReply},
	scenario{name: "AcquireWithLostReplyOfACallerWhoLeftIsUndone", run: lostReplyAndGone},
))

func oneTaken(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	hold(t, t.Context(), a, write("b"))
	for _, svc := range []service{a, b} {
		require.False(t, tries(t, t.Context(), svc, write("a"), write("b"), write("c")))
		require.Nil(t, e.Record("a"))
		require.Nil(t, e.Record("c"))
	}
	require.True(t, tries(t, t.Context(), b, write("a"), write("c")))
}

func togetherLater(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	first, second := hold(t, t.Context(), a, write("a")), hold(t, t.Context(), a, read("b"))
	p := start(t, t.Context(), b, locks(write("a"), write("b"), write("c")))
	e.AwaitWaiting("a", 1)
	letGo(t, first)
	e.stillWaits(p)
	require.Empty(t, e.holders("a"), "not held before all are to be had")
	require.Empty(t, e.holders("c"))
	letGo(t, second)
	got := p.got()
	for _, name := range []string{"a", "b", "c"} {
		require.Len(t, e.holders(name), 1)
	}
	letGo(t, got)
	for _, name := range []string{"a", "b", "c"} {
		e.free(name)
	}
}

// J71
func oppositeOrders(t *testing.T, e *Env) {
	services := []service{e.NewService(), e.NewService()}
	orders := [][]string{{"a", "b", "c"}, {"c", "b", "a"}}
	inside := 0 // guarded by the locks alone
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			for range 25 {
				acquired, err := services[i%2].TryWriteLock(t.Context(), orders[i/2%2], func(context.Context, hasLock) error {
					inside++
					return nil
				}, timeout(2*long))
				if !acquired || err != nil {
					t.Errorf("acquired %v, %v", acquired, err)
				}
			}
		})
	}
	workers.Wait()
	require.Equal(t, 8*25, inside)
}

// J70, J24
func cancelledMulti(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	names := []string{"a", "b", "c", "d", "e"}
	var both sync.WaitGroup
	for i, svc := range []service{a, b} {
		both.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for range 100 {
				ctx, cancel := context.WithCancel(t.Context())
				spins := r.IntN(300) // times a moment that the scheduler makes longer
				go func() {
					for range spins {
						if ctx.Err() != nil {
							return
						}
						runtime.Gosched()
					}
					cancel()
				}()
				got, err := svc.Acquire(ctx, writeAll(names), timeout(long))
				if err == nil {
					err = got.Release(context.Background())
				}
				cancel()
				if err != nil {
					requireCancelled(t, err)
				}
			}
		})
	}
	both.Wait()
	for _, name := range names {
		e.free(name)
	}
	require.True(t, tries(t, t.Context(), a, writeAll(names)...))
}

func requireCancelled(t *testing.T, err error) {
	t.Helper()
	for _, want := range []error{context.Canceled, lockservice.ErrNotAcquired} {
		require.ErrorIs(t, err, want)
	}
}

func writeAll(names []string) []lockservice.Lock {
	all := make([]lockservice.Lock, len(names))
	for i, name := range names {
		all[i] = write(name)
	}
	return all
}

// S10
func oneLost(t *testing.T, e *Env) {
	svc := e.NewService()
	a := hold(t, t.Context(), svc, write("a"), read("b"), write("c"))
	e.Do("DEL", e.Key("b"))
	<-a.Lost()
	require.False(t, a.HasLock())
	for _, name := range []string{"a", "b", "c"} {
		_, held := a.FencingToken(name)
		require.False(t, held)
	}
	require.ErrorIs(t, a.Release(t.Context()), lockservice.ErrLockLost)
	require.True(t, tries(t, t.Context(), svc, write("a"), write("b"), write("c")), "the others are released")
}

// Z1, D7
func lostAcquireReply(t *testing.T, e *Env) {
	svc := e.NewService()
	e.LoseReplyTo("EXEC")
	a := hold(t, t.Context(), svc, write("a"), write("b"))
	require.Len(t, e.holders("a"), 1)
	require.Len(t, e.holders("b"), 1)
	token, _ := a.FencingToken("a")
	require.EqualValues(t, token, e.Record("a")["fencingToken"], "minted once")
	letGo(t, a)
	e.free("a")
}

// J46
func lostReleaseReply(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	held := hold(t, t.Context(), a, write("a"))
	p := start(t, t.Context(), b, locks(write("a")))
	e.AwaitWaiting("a", 1)
	e.LoseReplyTo("EXEC")
	require.NoError(t, held.Release(t.Context()))
	letGo(t, p.got())
	e.free("a")
}

// J24
func lostReplyAndGone(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	e.Pause()
	p := start(t, t.Context(), a, locks(write("a"), write("b")))
	e.Pass(50 * time.Millisecond)
	p.cancel()
	require.ErrorIs(t, p.failed(), context.Canceled)
	e.Unpause()
	e.Pass(3 * time.Second)
	require.True(t, tries(t, t.Context(), b, write("a"), write("b")))
}
