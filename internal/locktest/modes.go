package locktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// modes: readers share, writers don't, and writers are preferred.
var modes = append([]scenario{
	{name: "ReadersShareAndWritersExclude", run: readersShare},
	{name: "BothModesOfOneNameAreItsWriteLock", run: bothModes},
	{name: "MixedModesInOneCall", run: mixedModes},
	{name: "WaitingWriterKeepsNewReadersOut", run: waitingWriterFirst},
	{name: "SingleWriteAttemptLeavesNoMark", run: noMarkByAttempt},
	{name: "OverlappingReadersDoNotStarveTheWriter", run: noStarvation},
	{name: "ReadersWhoSteppedDownEnterWhenTheWriterTimesOut", run: steppedDown(timesOut)},
	{name: "ReadersWhoSteppedDownEnterWhenTheWriterIsCancelled", run: steppedDown(isCancelled)},
	{name: "ReadersWhoSteppedDownEnterWhenTheWritersServiceIsClosed", run: steppedDown(isClosed)},
	{name: "TwentyReadersEnterTogetherAfterAWriter", run: twentyReaders},
}, in(bubbleName,
	scenario{name: "MarkOfADeadWriterLapses", run: deadWritersMark},
)...)

func readersShare(t *testing.T, e *Env) {
	a, b, ctx := e.NewService(), e.NewService(), t.Context()
	r1, r2 := hold(t, ctx, a, read("x")), hold(t, ctx, b, read("x"))
	r3 := hold(t, ctx, a, read("x"))
	require.Len(t, e.holders("x"), 3)
	for _, r := range []*lockservice.Acquisition{r1, r2, r3} {
		require.False(t, tries(t, ctx, a, write("x")))
		require.False(t, tries(t, ctx, b, write("x")))
		letGo(t, r)
	}
	w := hold(t, ctx, b, write("x"))
	require.False(t, tries(t, ctx, a, read("x")))
	require.False(t, tries(t, ctx, b, read("x")))
	require.False(t, tries(t, ctx, b, write("x")))
	letGo(t, w)
	require.True(t, tries(t, ctx, a, read("x")))
}

func bothModes(t *testing.T, e *Env) {
	svc, ctx := e.NewService(), t.Context()
	for _, l := range [][]lockservice.Lock{{read("x"), write("x")}, {write("x"), read("x")}, {write("x"), write("x")}} {
		a := hold(t, ctx, svc, l...)
		require.Len(t, e.holders("x"), 1)
		require.False(t, tries(t, ctx, svc, read("x")), "it is the write lock")
		letGo(t, a)
	}
	a := hold(t, ctx, svc, read("x"), read("x"))
	require.Len(t, e.holders("x"), 1)
	letGo(t, a)
}

func mixedModes(t *testing.T, e *Env) {
	a, b, ctx := e.NewService(), e.NewService(), t.Context()
	hold(t, ctx, a, read("config"), write("report"))
	require.True(t, tries(t, ctx, b, read("config")))
	require.False(t, tries(t, ctx, b, write("config")))
	require.False(t, tries(t, ctx, b, read("report")))
	require.True(t, tries(t, ctx, b, read("config"), write("other")))
}

// J62
func waitingWriterFirst(t *testing.T, e *Env) {
	a, b, ctx := e.NewService(), e.NewService(), t.Context()
	r := hold(t, ctx, a, read("x"))
	w := start(t, ctx, a, locks(write("x")))
	e.AwaitWaiting("x", 1)
	require.False(t, tries(t, ctx, a, read("x")), "a reader of the writer's node")
	require.False(t, tries(t, ctx, b, read("x")), "a reader of another node")
	late := start(t, ctx, b, locks(read("x")))
	e.AwaitWaiting("x", 2)
	e.stillWaits(w)
	letGo(t, r)
	wa := w.got()
	e.stillWaits(late)
	letGo(t, wa)
	letGo(t, late.got())
}

func noMarkByAttempt(t *testing.T, e *Env) {
	a, b, ctx := e.NewService(), e.NewService(), t.Context()
	hold(t, ctx, a, read("x"))
	require.False(t, tries(t, ctx, b, write("x")))
	require.Empty(t, e.Record("x")["waiting"])
	require.True(t, tries(t, ctx, b, read("x")))
}

// J62: readers that overlap for ever, on three nodes; every other one makes single attempts.
func noStarvation(t *testing.T, e *Env) {
	services := []service{e.NewService(), e.NewService(), e.NewService()}
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	for i := range 10 {
		readers.Go(func() {
			e.pause(ctx, time.Duration(i)*time.Millisecond)
			for ctx.Err() == nil {
				r, err := services[i%3].Acquire(ctx, locks(read("x")), timeout(time.Duration(i%2)*long))
				e.pause(ctx, 5*time.Millisecond)
				if err == nil {
					_ = r.Release(context.Background())
				}
			}
		})
	}
	e.Eventually(func() bool { return len(e.holders("x")) > 1 }, "readers overlap")
	acquired, err := services[1].TryWriteLock(t.Context(), []string{"x"}, nothing, timeout(10*time.Second))
	require.NoError(t, err)
	require.True(t, acquired)
}

// pause is a moment, shorter if ctx ends.
func (e *Env) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// A giveUp is a way in which a waiting writer gives up, and what it is told.
type giveUp struct {
	do    func(w *pending, svc service, e *Env)
	told  error
	close bool
}

var (
	timesOut    = giveUp{func(w *pending, _ service, _ *Env) { <-w.done }, lockservice.ErrNotAcquired, false}
	isCancelled = giveUp{func(w *pending, _ service, _ *Env) { w.cancel() }, context.Canceled, false}
	isClosed    = giveUp{func(_ *pending, svc service, e *Env) { e.Close(svc) }, lockservice.ErrClosed, true}
)

// J15: on the writer's node and on another one.
func steppedDown(give giveUp) func(t *testing.T, e *Env) {
	return func(t *testing.T, e *Env) {
		a, b, ctx := e.NewService(), e.NewService(), t.Context()
		hold(t, ctx, a, read("x"))
		w := start(t, ctx, b, locks(write("x")), timeout(time.Second))
		e.AwaitWaiting("x", 1)
		readers := []*pending{start(t, ctx, a, locks(read("x")))}
		e.AwaitWaiting("x", 2)
		if !give.close {
			readers = append(readers, start(t, ctx, b, locks(read("x"))))
		}
		e.stillWaits(readers[0])
		give.do(w, b, e)
		began := time.Now()
		require.ErrorIs(t, w.failed(), give.told)
		for _, r := range readers {
			r.got()
		}
		if e.Fake {
			require.Less(t, time.Since(began), 10*time.Millisecond, "not by the poll")
		}
	}
}

// J4
func twentyReaders(t *testing.T, e *Env) {
	services := []service{e.NewService(), e.NewService(), e.NewService()}
	w := hold(t, t.Context(), services[0], write("x"))
	var readers []*pending
	for i := range 20 {
		readers = append(readers, start(t, t.Context(), services[i%3], locks(read("x"))))
	}
	e.AwaitWaiting("x", 3)
	letGo(t, w)
	for _, r := range readers {
		r.got() // nobody lets go before all are in
	}
	require.Len(t, e.holders("x"), 20)
}

// J15: the writer's process has died; its mark says until when it counts, and that
// it came before the reader.
func deadWritersMark(t *testing.T, e *Env) {
	a, ctx := e.NewService(lockservice.WithPollDelay(time.Hour)), t.Context()
	hold(t, ctx, a, read("x"))
	now := e.RedisMillis()
	e.EditRecord("x", func(record map[string]any) {
		record["waiting"] = []any{map[string]any{"node": "dead", "write": true, "sinceEpochMillis": now - 1,
			"untilEpochMillis": now + 15_000, "lastsMillis": 15_000}}
	})
	require.False(t, tries(t, ctx, a, read("x")))
	r := start(t, ctx, a, locks(read("x")))
	r.got()
	require.InDelta(t, 15, r.after.Seconds(), 0.01)
}
