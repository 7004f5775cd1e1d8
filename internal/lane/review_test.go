package lane

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/internal/sim"
)

// TestWhoHasGivenWayToAnotherNodeDoesNotSpinWhileThatHolds: the end of the grace
// is past all that time, and is no reason to try.
func TestWhoHasGivenWayToAnotherNodeDoesNotSpinWhileThatHolds(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("0", write("n"))
		other := b.start(t.Context(), "other", write("n"), time.Hour)
		faketime.Pass(2 * starving)
		a.start(t.Context(), "1", write("n"), time.Hour)
		a.let("0", "n")
		faketime.Pass(2 * grace)
		require.True(t, other().granted)
		cost := a.cost(func() { faketime.Pass(6 * testPoll) })
		require.Less(t, cost, int64(20), "the poll, and nothing else")
		b.let("other", "n")
	})
}

// TestCallerWhoLeavesDuringItsFirstAttemptIsNotToldOfAsWaiting: nobody would ever
// take it back, and the other nodes would be told of it for ever.
func TestCallerWhoLeavesDuringItsFirstAttemptIsNotToldOfAsWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		b.get("1", write("n"))
		for i := range 40 { // queued, in the batch that another caller carries, parked
			first := startNow(func() answerOf { return *a.try(t.Context(), id("first%d", i), write("m"), 0) })
			faketime.Pass(moment / 10)
			second := startNow(func() answerOf { return *a.try(t.Context(), id("second%d", i), write("l"), 0) })
			faketime.Pass(moment / 10)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*moment/4)
			require.ErrorIs(t, a.try(ctx, id("w%d", i), write("n"), time.Hour).err, context.DeadlineExceeded)
			cancel()
			faketime.Pass(time.Second)
			require.True(t, first().granted && second().granted)
			a.let(id("first%d", i), "m")
			a.let(id("second%d", i), "l")
			_, waits := a.waiting(id("w%d", i))
			require.False(t, waits, i)
		}
	})
}

// TestWaiterIsNotGrantedAfterItsDeadlineByAReplyThatWasSleptThrough: the machine
// sleeps while the grant is under way. Timers stand still then, the clock doesn't.
func TestWaiterIsNotGrantedAfterItsDeadlineByAReplyThatWasSleptThrough(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		var slept atomic.Int64
		b := s.node(func(c *Config) {
			now := c.Now
			c.Now = func() time.Duration { return now() + time.Duration(slept.Load()) }
		})
		a := s.node()
		a.get("1", write("n"))
		w := b.start(t.Context(), "2", write("n"), 10*time.Second)
		a.let("1", "n")
		for b.Statistics().Commits == 0 || len(s.holders("n")) == 0 {
			faketime.Pass(moment / 10)
		}
		slept.Store(int64(20 * time.Second)) // granted, and the reply is on its way
		faketime.Pass(time.Second)
		require.True(t, w().done)
		require.NoError(t, w().err)
		require.False(t, w().granted)
		require.Empty(t, s.holders("n"))
	})
}

// TestReadsThatAreServedApartDoNotHoldTheirCarrierUp: a caller who carries can
// leave soon also while a batch whose commit was refused is taken apart.
func TestReadsThatAreServedApartDoNotHoldTheirCarrierUp(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		s.r.Refuse(exchange.OOM)
		s.r.SetGate(hangsOnceRefused{n.Lane})
		read := startNow(func() answerOf { _, err := n.Read(t.Context(), []string{"m"}); return answerOf{err: err} })
		faketime.Pass(moment / 10)
		ctx, cancel := context.WithTimeout(t.Context(), 20*moment)
		defer cancel()
		carrier := startNow(func() answerOf { return *n.try(ctx, "1", write("n"), time.Hour) })
		faketime.Pass(moment / 10)
		apart := startNow(func() answerOf { _, err := n.Read(t.Context(), []string{"n"}); return answerOf{err: err} })
		faketime.Pass(time.Minute)
		require.NoError(t, read().err)
		require.Error(t, apart().err)
		require.ErrorIs(t, carrier().err, context.DeadlineExceeded)
		require.LessOrEqual(t, carrier().at, quickBudget+20*moment)
	})
}

// hangsOnceRefused has the server answer nobody after the first refusal.
type hangsOnceRefused struct{ l *Lane }

func (h hangsOnceRefused) Pass(s sim.Step) sim.Fault {
	if h.l.Statistics().Failures > 0 && s.Phase == sim.Request {
		return sim.Fault{Lose: true}
	}
	return sim.Latency(moment).Pass(s)
}

// TestCloseEndsThoughEveryCommitConflicts: somebody else writes the record all the time.
func TestCloseEndsThoughEveryCommitConflicts(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		n.get("1", write("n"))
		s.r.SetGate(&touches{s: s, key: s.keys.Lock("n")})
		go func() {
			_, _ = n.Release(context.Background(), []string{"n"}, lockrules.Release{ID: "1", Outcome: lockrules.OK}, testLease)
		}()
		faketime.Pass(time.Second)
		began := time.Now()
		n.close(time.Second)
		require.Less(t, time.Since(began), 3*time.Second)
	})
}

// touches writes a key again right before each commit of others, for a while.
type touches struct {
	s     *setting
	key   string
	count int
}

func (g *touches) Pass(s sim.Step) sim.Fault {
	if s.Phase == sim.Request && s.Writes && g.count < 10_000 {
		g.count++
		data, _ := g.s.r.Get(g.key)
		g.s.r.Put(g.key, data, time.Hour)
	}
	return sim.Latency(moment).Pass(s)
}

// TestWaiterWhoseTimeEndsWhileRedisIsSilentIsNotToldThatSomebodyHasIt: the look
// that is under way has had no answer for long; the last one is long past.
func TestWaiterWhoseTimeEndsWhileRedisIsSilentIsNotToldThatSomebodyHasIt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("1", write("n"))
		w := b.start(t.Context(), "2", write("n"), testPoll+4*time.Second)
		f := s.faults()
		f.add(rule{phase: sim.Request, times: -1, fault: sim.Fault{Lose: true}})
		faketime.Pass(testPoll + 4*time.Second)
		require.True(t, w().done)
		requireUnavailable(t, w().err)
		f.heal()
	})
}

// TestBackOffLeavesARenewalOfAShortLeaseItsRetries: after an outage of a third of
// the lease the next attempt must not come after its end.
func TestBackOffLeavesARenewalOfAShortLeaseItsRetries(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node(func(c *Config) { c.Lease = time.Second })
		g := n.get("1", write("n"))
		f := s.faults()
		f.add(rule{phase: sim.Request, times: 1, fault: sim.Fault{Cut: true}})
		f.add(rule{phase: sim.Dial, times: -1, fault: sim.Fault{Cut: true}})
		time.AfterFunc(320*time.Millisecond, f.heal)
		ctx, cancel := context.WithTimeout(t.Context(), 450*time.Millisecond)
		defer cancel()
		_, lost, err := n.Renew(ctx, []string{"n"}, renewal("1"), g.RunID, false)
		require.NoError(t, err)
		require.Empty(t, lost)
	})
}

// TestCloseDoesNotWaitForAnExchangeWithoutAnAnswer whatever the connection timeout.
func TestCloseDoesNotWaitForAnExchangeWithoutAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node(func(c *Config) { c.Lease, c.OpTimeout = time.Hour, time.Minute })
		f := s.faults()
		f.add(rule{phase: sim.Request, times: -1, fault: sim.Fault{Lose: true}})
		w := startNow(func() answerOf { return *n.try(t.Context(), "1", write("n"), time.Hour) })
		faketime.Pass(10 * time.Second)
		began := time.Now()
		n.close(time.Second)
		require.Less(t, time.Since(began), 5*time.Second)
		require.ErrorIs(t, w().err, ErrClosed)
		f.heal()
	})
}
