package lane

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/internal/sim"
)

const starving = time.Duration(lockrules.StarvesAfter) * time.Millisecond

// crowd is callers that take one lock again and again, and what they meet.
type crowd struct {
	s  *setting
	wg sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	waits map[string][]time.Duration
	last  time.Time       // of the last release
	idle  []time.Duration // for how long it was nobody's, each time
}

func (s *setting) crowd() *crowd {
	return &crowd{s: s, waits: make(map[string][]time.Duration), last: time.Now()}
}

// join has callers of the node come for a time; each holds for a millisecond.
func (c *crowd) join(who string, n *testNode, callers int, wants []wantT, last time.Duration) {
	end := time.Now().Add(last)
	for j := range callers {
		c.wg.Go(func() {
			for i := 0; time.Now().Before(end); i++ {
				me := id("%s-%d-%d", who, j, i)
				a := n.try(c.s.t.Context(), me, wants, time.Hour)
				c.took(who, a.at)
				faketime.Pass(time.Millisecond)
				n.let(me, "n")
				c.gave()
			}
		})
	}
}

func (c *crowd) took(who string, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits[who] = append(c.waits[who], wait)
	c.idle = append(c.idle, time.Since(c.last))
}

func (c *crowd) gave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
}

// done waits for all, and gives the waits of each, the longest last.
func (c *crowd) done() map[string][]time.Duration {
	c.wg.Wait()
	for _, w := range c.waits {
		slices.Sort(w)
	}
	return c.waits
}

// idleFor is for how long in all the lock was nobody's, in pieces of at least that.
func (c *crowd) idleFor(atLeast time.Duration) (sum time.Duration) {
	for _, d := range c.idle {
		if d >= atLeast {
			sum += d
		}
	}
	return sum
}

func longest(w []time.Duration) time.Duration { return w[len(w)-1] }

// TestNobodyWaitsThreeTimesAsLongAsItsPeers: four nodes, 25 callers each, without
// and with readers.
func TestNobodyWaitsThreeTimesAsLongAsItsPeers(t *testing.T) {
	t.Parallel()
	for name, readers := range map[string]int{"writers": 0, "mixed": 5} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				s.r.SetGate(sim.Latency(moment / 10))
				c := s.crowd()
				for range 4 {
					n := s.node()
					c.join("writers", n, 25-readers, write("n"), 2*time.Second)
					c.join("readers", n, readers, readOf("n"), 2*time.Second)
				}
				for who, w := range c.done() {
					require.Greater(t, len(w), 4*5*5, who)
					require.Less(t, longest(w), 3*w[len(w)/2], who)
				}
			})
		})
	}
}

// TestNodeThatTakesTheLockAgainAndAgainLetsOthersGoFirst: whether it is many that
// hand it to each other, or one that is quicker than any message.
func TestNodeThatTakesTheLockAgainAndAgainLetsOthersGoFirst(t *testing.T) {
	t.Parallel()
	for name, callers := range map[string]int{"many": 10, "one": 1} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				s.r.SetGate(sim.Latency(moment / 10))
				c := s.crowd()
				c.join("busy", s.node(), callers, write("n"), 5*time.Second)
				c.join("other", s.node(), 1, write("n"), 5*time.Second)
				waits := c.done()
				require.Greater(t, len(waits["busy"]), 100)
				require.Less(t, longest(waits["other"]), 3*starving)
				require.Less(t, longest(waits["busy"]), 3*starving)
				require.Zero(t, c.idleFor(grace), "whose turn it was took it")
			})
		})
	}
}

// TestReadersGetInWhileWritersKeepComing: on their node and on another, alone and
// together, and although at every moment some writer waits.
func TestReadersGetInWhileWritersKeepComing(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		s.r.SetGate(sim.Latency(moment / 10))
		a, b, r := s.node(), s.node(), s.node()
		c := s.crowd()
		c.join("writers of one node", a, 5, write("n"), 3*time.Second)
		c.join("writers of another", b, 5, write("n"), 3*time.Second)
		c.join("readers beside writers", a, 2, readOf("n"), 3*time.Second)
		c.join("readers", r, 2, readOf("n"), 3*time.Second)
		for who, w := range c.done() {
			require.Greater(t, len(w), 50, who)
			require.Less(t, longest(w), 4*starving, who)
		}
	})
}

// TestReaderPassesAWriterThatWaitsBehindALongHolder: nobody lets go, so nobody
// tells the reader when its patience is at its end.
func TestReaderPassesAWriterThatWaitsBehindALongHolder(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b, c := s.node(), s.node(), s.node()
		a.get("w", write("n"))
		r1 := startNow(func() answerOf { return *a.try(t.Context(), "r1", readOf("n"), time.Hour) })
		faketime.Pass(starving)
		r2 := startNow(func() answerOf { return *b.try(t.Context(), "r2", readOf("n"), time.Hour) })
		faketime.Pass(3 * moment)
		w := startNow(func() answerOf { return *c.try(t.Context(), "w2", write("n"), time.Hour) })
		faketime.Pass(6 * moment)
		a.let("w", "n")
		faketime.Pass(10 * moment)
		require.True(t, r1().granted, "it starves")
		require.False(t, r2().done, "it doesn't yet")
		faketime.Pass(starving)
		require.True(t, r2().granted)
		require.Less(t, r2().at, starving+10*moment)
		require.False(t, w().done)
	})
}

// TestDeadNodeThatIsFirstInLineCostsOneGrace for each rest; also two of them.
func TestDeadNodeThatIsFirstInLineCostsOneGrace(t *testing.T) {
	t.Parallel()
	for _, dead := range []int{1, 2} {
		t.Run(id("%d dead", dead), func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				a := s.node()
				a.get("0", write("n"))
				for i := range dead {
					b := s.node()
					b.start(t.Context(), id("dead%d", i), write("n"), time.Hour)
					b.port.Kill()
				}
				a.let("0", "n")
				faketime.Pass(testPoll)
				c := s.crowd()
				c.join("living", a, 5, write("n"), rest-2*starving)
				waits := c.done()
				one := time.Duration(dead) * grace
				require.InDelta(t, one, c.idleFor(grace/2), float64(one/4))
				require.LessOrEqual(t, longest(waits["living"]), one+20*moment)
				c.join("living", a, 5, write("n"), 3*rest)
				c.done()
				require.InDelta(t, 4*one, c.idleFor(grace/2), float64(one), "a turn for each rest")
			})
		})
	}
}

// TestNodeThatMissedItsTurnIsOfferedAnother: the message got lost.
func TestNodeThatMissedItsTurnIsOfferedAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		s.faults().add(rule{node: b.port.Node(), phase: sim.Message, times: 1, fault: sim.Fault{Lose: true}})
		c := s.crowd()
		c.join("busy", a, 5, write("n"), 3*time.Second)
		faketime.Pass(10 * moment)
		w := b.start(t.Context(), "w", write("n"), time.Hour)
		faketime.Pass(rest / 2)
		require.False(t, w().done)
		faketime.Pass(rest)
		require.True(t, w().granted)
		b.let("w", "n")
		c.done()
	})
}

// TestTurnIsOfferedToTheEldestAndNobodyElseIsWoken: the others would look for nothing.
func TestTurnIsOfferedToTheEldestAndNobodyElseIsWoken(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b, c := s.node(), s.node(), s.node()
		a.get("0", write("n"))
		eldest := c.start(t.Context(), "eldest", write("n"), time.Hour)
		other := b.start(t.Context(), "other", write("n"), time.Hour)
		faketime.Pass(2 * starving)
		own := a.start(t.Context(), "1", write("n"), time.Hour)
		require.Zero(t, b.cost(func() { a.let("0", "n"); faketime.Pass(10 * moment) }))
		require.True(t, eldest().granted)
		c.let("eldest", "n")
		faketime.Pass(20 * moment)
		require.True(t, other().granted, "who is the eldest now")
		b.let("other", "n")
		faketime.Pass(20 * moment)
		require.True(t, own().granted)
	})
}

// TestOfferOfAPlanThatWasNotCommittedIsMadeAgain: nobody has heard of the first.
func TestOfferOfAPlanThatWasNotCommittedIsMadeAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("0", write("n"))
		eldest := b.start(t.Context(), "eldest", write("n"), time.Hour)
		s.faults().add(rule{phase: sim.Message, times: 1, fault: sim.Fault{Lose: true}})
		a.let("0", "n")
		faketime.Pass(2 * starving)
		require.False(t, eldest().done, "it has not been told")
		before := a.Statistics().Conflicts
		s.r.SetGate(&touches{s: s, key: s.keys.Lock("n"), count: 9_999})
		own := startNow(func() answerOf { return *a.try(t.Context(), "1", write("n"), time.Hour) })
		faketime.Pass(12 * moment)
		require.Equal(t, before+1, a.Statistics().Conflicts)
		require.True(t, eldest().granted)
		require.False(t, own().done)
	})
}

// TestReleaseWakesTheEldestOnlyAndTheOthersIfItDoesNotCome: at a release by who
// has no waiters itself; also if that closes right after, and costs nothing when
// the eldest comes.
func TestReleaseWakesTheEldestOnlyAndTheOthersIfItDoesNotCome(t *testing.T) {
	t.Parallel()
	for name, dead := range map[string]bool{"alive": false, "dead": true} {
		for _, closes := range []bool{false, true} {
			t.Run(id("%s, closes %v", name, closes), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *setting) {
					a, b, c := s.node(), s.node(), s.node()
					a.get("0", write("n"))
					eldest := b.start(t.Context(), "eldest", write("n"), time.Hour)
					second := c.start(t.Context(), "second", write("n"), time.Hour)
					if dead {
						b.port.Kill()
					}
					looks := c.Statistics().Exchanges
					a.let("0", "n")
					if closes {
						a.close(time.Second)
					}
					faketime.Pass(answerWithin + 20*moment)
					require.Equal(t, !dead, eldest().granted)
					require.Equal(t, dead, second().granted)
					if !dead && !closes {
						require.Equal(t, looks, c.Statistics().Exchanges, "nothing to look for")
					}
				})
			})
		}
	}
}

// TestReleaseWakesAllReadersThatCameFirst, and the writer behind them doesn't look.
func TestReleaseWakesAllReadersThatCameFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b, c, d := s.node(), s.node(), s.node(), s.node()
		a.get("0", write("n"))
		first := b.start(t.Context(), "first", readOf("n"), time.Hour)
		second := c.start(t.Context(), "second", readOf("n"), time.Hour)
		writer := d.start(t.Context(), "writer", write("n"), time.Hour)
		faketime.Pass(starving)
		a.let("0", "n")
		faketime.Pass(20 * moment)
		require.True(t, first().granted && second().granted)
		require.False(t, writer().done)
		b.let("first", "n")
		c.let("second", "n")
		faketime.Pass(20 * moment)
		require.True(t, writer().granted)
	})
}

// TestWhoStandsBackAndLeavesWakesTheOthers: they had not been told, since it was to
// take the lock if the one whose turn it was doesn't.
func TestWhoStandsBackAndLeavesWakesTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b, c := s.node(), s.node(), s.node()
		a.get("0", write("n"))
		b.start(t.Context(), "dead", write("n"), time.Hour)
		b.port.Kill()
		other := c.start(t.Context(), "other", write("n"), time.Hour)
		faketime.Pass(2 * starving)
		ctx, cancel := context.WithCancel(t.Context())
		a.start(ctx, "1", write("n"), time.Hour)
		a.let("0", "n")
		faketime.Pass(grace / 4)
		cancel()
		faketime.Pass(answerWithin + 20*moment)
		require.True(t, other().granted)
	})
}

// TestNestedCallsAndSingleAttemptsDontStandBack: a chain holds what others may
// need, and a single attempt would say that a free lock is taken.
func TestNestedCallsAndSingleAttemptsDontStandBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("outer", write("o"))
		a.get("0", write("n"))
		other := b.start(t.Context(), "other", write("n"), time.Hour)
		faketime.Pass(3 * starving)
		plain := a.start(t.Context(), "plain", write("n"), time.Hour)
		nested := a.start(t.Context(), "nested", write("n"), time.Hour, "outer")
		a.let("0", "n")
		require.Equal(t, []string{"nested"}, s.holders("n"), "by the release itself")
		require.True(t, nested().granted)
		b.port.Kill()
		a.let("nested", "n")
		require.True(t, a.try(t.Context(), "single", write("n"), 0).granted)
		a.let("single", "n")
		require.False(t, plain().done, "the grace is not over")
		faketime.Pass(2 * grace)
		require.True(t, plain().granted)
		require.False(t, other().done)
	})
}

// TestMarkTellsSinceWhenTheFirstOfItsNodeWaits, and is not written for that alone.
func TestMarkTellsSinceWhenTheFirstOfItsNodeWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		n.get("0", write("n"))
		var came []lockrules.Millis
		for i := 1; i < 5; i++ {
			came = append(came, s.millis())
			wants := [][]wantT{write("n"), readOf("n")}[i%2]
			require.LessOrEqual(t, n.cost(func() { n.start(t.Context(), id("%d", i), wants, time.Hour) }), int64(2))
			rec, _ := s.record("n")
			require.InDelta(t, int64(came[0]), int64(rec.Waiting[0].Since), 5)
		}
		faketime.Pass(starving)
		for i := 1; i < 4; i++ {
			n.let(id("%d", i-1), "n")
			rec, _ := s.record("n")
			require.InDelta(t, int64(came[i]), int64(rec.Waiting[0].Since), 5)
		}
	})
}
