package locktest

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// leases: renewed while the code runs, and not a moment longer.
var leases = slices.Concat([]scenario{
	{name: "RenewalKeepsTheLockOverManyLeases", run: manyLeases},
	{name: "WrapperIsCalledOncePerAcquisitionOnTheCallersGoroutine", run: wrapperCalled},
}, in(bubbleName,
	scenario{name: "FailedRenewalsAreTriedAgainUntilTheLeaseEnds", run: failedRenewals},
	scenario{name: "NoRenewalComesAfterTheRelease", run: noRenewalAfter},
	scenario{name: "LockTakenAgainAtOnceIsRenewed", run: takenAgain},
	scenario{name: "MaxHoldEndsTheHold", run: maxHold},
	scenario{name: "MaxHoldOfAReusingCallIsWithoutEffect", run: maxHoldOfReuse},
	scenario{name: "ExpiryFromTheFutureEndsWithinOneLease", run: futureExpiry},
	scenario{name: "ExpiryFromTheFutureIsWrittenBackByWhoeverReadsIt", run: futureWrittenBack},
	scenario{name: "RecordOfACrashedOwnerIsFreeAtItsExpiryAndNotBefore", run: crashedRecord},
	scenario{name: "LostRenewalReplyIsNoLoss", run: lostRenewalReply},
))

// S1, D1
func manyLeases(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	ctx, cancel := context.WithCancel(t.Context())
	held := hold(t, ctx, a, write("x"), read("y"))
	cancel()
	for range 8 {
		e.Pass(e.Lease / 2)
		require.True(t, held.HasLock())
		require.False(t, tries(t, t.Context(), b, write("x")))
		require.False(t, tries(t, t.Context(), b, write("y")))
	}
	letGo(t, held)
	require.True(t, tries(t, t.Context(), b, write("x"), write("y")))
}

type wrapKey struct{}

func wrapperCalled(t *testing.T, e *Env) {
	var mu sync.Mutex // guards the fields below
	calls, ran, on := 0, 0, ""
	svc := e.NewService(lockservice.WithGoroutineWrapper(func(ctx context.Context, run func()) func() {
		mu.Lock()
		defer mu.Unlock()
		calls, on = calls+1, goroutineID()
		value, _ := ctx.Value(wrapKey{}).(string)
		return func() {
			mu.Lock()
			if value == "mine" {
				ran++
			}
			mu.Unlock()
			run()
		}
	}))
	ctx := context.WithValue(t.Context(), wrapKey{}, "mine")
	acquired, err := svc.TryWriteLock(ctx, []string{"x", "y"}, func(ctx context.Context, _ hasLock) error {
		require.True(t, tries(t, ctx, svc, write("x"), read("y")), "reuse needs no renewal")
		e.Pass(e.Lease) // so that something has to be renewed
		return nil
	})
	require.NoError(t, err)
	require.True(t, acquired)
	require.False(t, func() bool {
		defer letGo(t, hold(t, ctx, svc, write("x")))
		return tries(t, ctx, svc, write("x")) // not acquired: not called
	}())
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 2, calls)
	require.Equal(t, goroutineID(), on)
	require.Positive(t, ran)
}

// goroutineID is "goroutine 17".
func goroutineID() string {
	buf := make([]byte, 64)
	return string(bytes.Join(bytes.Fields(buf[:runtime.Stack(buf, false)])[:2], []byte(" ")))
}

// J19, B6, D6, J34
func failedRenewals(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	held := hold(t, t.Context(), a, write("x"))
	for i := range 10 {
		e.Pass(25 * time.Second)
		if i%2 == 0 {
			e.Cut()
			e.Pass(10 * time.Second)
			e.Heal()
		} else {
			e.Pause()
			e.Pass(10 * time.Second)
			e.Unpause()
		}
		require.True(t, held.HasLock(), "round %d", i)
	}
	e.Pass(5 * time.Second)
	require.False(t, tries(t, t.Context(), b, write("x")))
	letGo(t, held)
}

// B5, J23
func noRenewalAfter(t *testing.T, e *Env) {
	svc := e.NewService()
	for i := range 60 {
		held := hold(t, t.Context(), svc, write("x"))
		e.Pass(e.Lease/2 - 3*time.Second + time.Duration(i)*60*time.Millisecond) // across the renewal, which is jittered
		letGo(t, held)
		require.Empty(t, e.holders("x"))
	}
	e.Pass(29 * time.Second)
	require.NotNil(t, e.Record("x"))
	e.Pass(2 * time.Second)
	require.Nil(t, e.Record("x"), "somebody has written it after the release")
}

// D1, J22
func takenAgain(t *testing.T, e *Env) {
	svc, other := e.NewService(), e.NewService()
	for range 20 {
		letGo(t, hold(t, t.Context(), svc, write("x")))
	}
	held := hold(t, t.Context(), svc, write("x"))
	e.Pass(3 * e.Lease)
	require.True(t, held.HasLock())
	require.False(t, tries(t, t.Context(), other, write("x")))
	letGo(t, held)
}

func maxHold(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	held, err := a.Acquire(t.Context(), locks(write("x")), lockservice.WithMaxHold(10*time.Minute))
	require.NoError(t, err)
	p := start(t, t.Context(), b, locks(write("x")), timeout(time.Hour))
	e.Pass(10*time.Minute - time.Second)
	require.True(t, held.HasLock())
	e.Pass(2 * time.Second)
	require.False(t, held.HasLock())
	<-held.Context().Done()
	require.ErrorIs(t, context.Cause(held.Context()), lockservice.ErrLockLost)
	e.stillWaits(p)
	p.got()
	require.LessOrEqual(t, p.after, 10*time.Minute+e.Lease+time.Second, "free when the lease ends")
	require.ErrorIs(t, held.Release(t.Context()), lockservice.ErrLockLost)

	again, err := a.Acquire(t.Context(), locks(write("y")), lockservice.WithMaxHold(time.Second))
	require.NoError(t, err)
	<-again.Lost()
	require.ErrorIs(t, again.Release(t.Context()), lockservice.ErrLockLost)
	require.True(t, tries(t, t.Context(), b, read("y")), "free when the code returns")
	require.Equal(t, "lost", e.Record("y")["writeOwner"].(map[string]any)["outcome"])
}

func maxHoldOfReuse(t *testing.T, e *Env) {
	svc := e.NewService()
	outer := hold(t, t.Context(), svc, write("x"))
	inner, err := svc.Acquire(outer.Context(), locks(write("x")), lockservice.WithMaxHold(time.Second))
	require.NoError(t, err)
	e.Pass(time.Minute)
	require.True(t, inner.HasLock())
	require.True(t, outer.HasLock())
	letGo(t, inner)
	letGo(t, outer)
}

// K4: Redis' clock went back by a day.
func futureExpiry(t *testing.T, e *Env) {
	svc := e.NewService()
	e.plantFromTheFuture("x")
	p := start(t, t.Context(), svc, locks(write("x")), timeout(time.Hour))
	p.got()
	require.InDelta(t, 60, p.after.Seconds(), 0.1)
}

func (e *Env) plantFromTheFuture(name string) {
	e.plantWriter(name, "yesterday", time.Minute)
	e.EditRecord(name, func(record map[string]any) {
		w := record["writeOwner"].(map[string]any)
		w["expiresAtEpochMillis"] = w["expiresAtEpochMillis"].(float64) + 86_400_000
	})
}

func futureWrittenBack(t *testing.T, e *Env) {
	svc := e.NewService()
	e.plantFromTheFuture("x")
	_, err := svc.GetLockInfo(t.Context(), []string{"x"})
	require.NoError(t, err)
	expires := e.Record("x")["writeOwner"].(map[string]any)["expiresAtEpochMillis"].(float64)
	require.InDelta(t, e.RedisMillis()+60_000, expires, 1000)
	e.Pass(61 * time.Second)
	require.True(t, tries(t, t.Context(), svc, write("x")))
}

func crashedRecord(t *testing.T, e *Env) {
	svc := e.NewService()
	e.plantWriter("x", "dead", 10*time.Second)
	e.Pass(10*time.Second - 2*time.Millisecond)
	require.False(t, tries(t, t.Context(), svc, write("x")))
	e.Pass(2 * time.Millisecond)
	require.True(t, tries(t, t.Context(), svc, write("x")))
}

// J34
func lostRenewalReply(t *testing.T, e *Env) {
	svc := e.NewService()
	held := hold(t, t.Context(), svc, write("x"))
	for range 6 {
		e.LoseReplyTo("EXEC")
		e.Pass(e.Lease / 2)
		require.True(t, held.HasLock())
	}
	letGo(t, held)
}
