package locktest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// deadlines: timeouts are kept to, from both sides.
var deadlines = slices.Concat([]scenario{
	{name: "CollidingReadersWithTimeoutZeroBothGetIn", run: collidingReaders},
	{name: "SingleAttemptOnAFreeLockSucceedsUnderLoad", run: singleAttempts},
	{name: "ShortestTimeoutStillMakesAFullAttempt", run: oneNanosecond},
}, in(bubbleName,
	scenario{name: "EachWaiterWaitsItsWholeTimeoutAndNoLonger", run: exactTimeouts},
	scenario{name: "WaiterThatLosesTheRaceGoesOnWaiting", run: losesTheRace},
	scenario{name: "NothingIsGrantedAfterTheDeadline", run: notAfterDeadline},
	scenario{name: "WaitMayBeLongerThanLeases", run: longerThanLeases},
	scenario{name: "WaiterRidesOutAnOutage", run: ridesOut},
	scenario{name: "WaiterWhoseTimeEndsInAnOutageIsToldSo", run: endsInOutage},
	scenario{name: "CancelledWaiterDoesNotWaitForASilentServer", run: cancelOnSilentServer},
))

// J73: a conflict of transactions is not an answer.
func collidingReaders(t *testing.T, e *Env) {
	services := []service{e.NewService(), e.NewService(), e.NewService()}
	for range 30 {
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				acquired, err := services[i%3].TryReadLock(t.Context(), []string{"x", "y"}, nothing)
				if !acquired || err != nil {
					t.Errorf("acquired %v, %v", acquired, err)
				}
			})
		}
		all.Wait()
	}
}

// J73
func singleAttempts(t *testing.T, e *Env) {
	services := []service{e.NewService(), e.NewService()}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			own := string(rune('a' + i))
			for range 20 {
				acquired, err := services[i%2].TryLock(t.Context(), locks(write(own), read("shared")), nothing)
				if !acquired || err != nil {
					t.Errorf("acquired %v, %v", acquired, err)
				}
			}
		})
	}
	all.Wait()
}

func oneNanosecond(t *testing.T, e *Env) {
	svc := e.NewService()
	acquired, err := svc.TryWriteLock(t.Context(), []string{"x"}, nothing, timeout(1))
	require.NoError(t, err)
	require.True(t, acquired)
	hold(t, t.Context(), svc, write("x"))
	acquired, err = svc.TryWriteLock(t.Context(), []string{"x"}, nothing, timeout(1))
	require.NoError(t, err)
	require.False(t, acquired)
}

// C8, B2
func exactTimeouts(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	hold(t, t.Context(), a, write("x"))
	var all []*pending
	for i := range 8 {
		l := []lockservice.Lock{read("x"), write("x")}[i%2]
		all = append(all, start(t, t.Context(), []service{a, b}[i/2%2], locks(l), timeout(time.Duration(i+1)*3*time.Second)))
	}
	for i, p := range all {
		require.ErrorIs(t, p.failed(), lockservice.ErrNotAcquired)
		require.Equal(t, time.Duration(i+1)*3*time.Second, p.after)
	}
	e.AwaitWaiting("x", 0)
}

// J12, J13
func losesTheRace(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	held := hold(t, t.Context(), a, write("x"))
	p := start(t, t.Context(), b, locks(write("x")), timeout(2*time.Second))
	e.AwaitWaiting("x", 1)
	e.Pass(1900 * time.Millisecond)
	// Let go and taken again in one moment, before the waiter has a chance.
	e.EditRecord("x", func(record map[string]any) {
		record["writeOwner"] = foreignHolding("third", e.RedisMillis(), time.Minute)
	})
	e.Do("PUBLISH", "{"+e.Prefix+"}:wake:"+e.waitingNode("x"), `["x"]`)
	require.ErrorIs(t, p.failed(), lockservice.ErrNotAcquired)
	require.Equal(t, 2*time.Second, p.after)
	require.ErrorIs(t, held.Release(t.Context()), lockservice.ErrLockLost)
}

// waitingNode is the node whose mark is the first in the record.
func (e *Env) waitingNode(name string) string {
	e.T.Helper()
	waiting, _ := e.Record(name)["waiting"].([]any)
	require.NotEmpty(e.T, waiting)
	return waiting[0].(map[string]any)["node"].(string)
}

// E4
func notAfterDeadline(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	for _, waiter := range []service{a, b} {
		for _, late := range []time.Duration{0, time.Nanosecond, time.Millisecond} {
			held := hold(t, t.Context(), a, write("x"))
			p := start(t, t.Context(), waiter, locks(write("x")), timeout(2*time.Second))
			settle()
			e.Pass(2*time.Second + late)
			letGo(t, held)
			<-p.done
			if late > 0 {
				require.Nil(t, p.a, "granted %v after the deadline", late)
			}
			if p.a != nil {
				letGo(t, p.a)
			}
			e.free("x")
		}
	}
}

// B2
func longerThanLeases(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	held := hold(t, t.Context(), a, write("x"))
	p := start(t, t.Context(), b, locks(write("x")), timeout(time.Hour))
	e.Pass(10 * e.Lease)
	e.stillWaits(p)
	letGo(t, held)
	letGo(t, p.got())
	require.GreaterOrEqual(t, p.after, 10*e.Lease)
}

func ridesOut(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	held := hold(t, t.Context(), a, write("x"))
	p := start(t, t.Context(), b, locks(write("x")))
	e.AwaitWaiting("x", 1)
	e.Cut()
	e.Pass(12 * time.Second)
	e.stillWaits(p)
	e.Heal()
	e.Pass(3 * time.Second)
	e.stillWaits(p)
	letGo(t, held)
	letGo(t, p.got())
}

func endsInOutage(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	hold(t, t.Context(), a, write("x"))
	for _, hurt := range [][2]func(){{e.Cut, e.Heal}, {e.Pause, e.Unpause}} {
		p := start(t, t.Context(), b, locks(write("x")), timeout(20*time.Second))
		e.AwaitWaiting("x", 1)
		e.Pass(time.Second)
		hurt[0]()
		err := p.failed()
		require.ErrorIs(t, err, lockservice.ErrUnavailable)
		require.NotErrorIs(t, err, lockservice.ErrNotAcquired, "whether somebody has it isn't known")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.InDelta(t, 20, p.after.Seconds(), 0.2)
		hurt[1]()
		e.Pass(5 * time.Second)
	}
}

func cancelOnSilentServer(t *testing.T, e *Env) {
	svc := e.NewService()
	for _, wait := range []time.Duration{0, time.Millisecond, time.Second, 20 * time.Second} {
		e.Pause()
		p := start(t, t.Context(), svc, locks(write("x")))
		e.Pass(wait)
		began := time.Now()
		p.cancel()
		require.ErrorIs(t, p.failed(), context.Canceled)
		require.LessOrEqual(t, time.Since(began), 150*time.Millisecond)
		e.Unpause()
		e.Pass(5 * time.Second)
		e.free("x")
	}
}
