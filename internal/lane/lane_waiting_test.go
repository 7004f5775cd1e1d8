package lane

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/sim"
)

func TestFirstAttemptIsMadeInFullWhateverTheTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		s.r.SetGate(sim.Latency(30 * moment))
		n := s.node()
		for i, timeout := range []time.Duration{0, 1, moment, 50 * moment} {
			a := n.try(t.Context(), id("%d", i), write(id("n%d", i)), timeout)
			require.NoError(t, a.err)
			require.True(t, a.granted, "%v", timeout)
		}
		for _, timeout := range []time.Duration{0, 1} {
			a := n.try(t.Context(), id("again %d", timeout), write("n0"), timeout)
			require.NoError(t, a.err)
			require.False(t, a.granted)
			require.Equal(t, "owner of 0", a.blockers[0].Owner)
			faketime.Pass(time.Second)
			require.Empty(t, s.marks("n0"), "who doesn't wait leaves no mark")
		}
	})
}

func TestDeadlineIsExact(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("1", write("n"))
		late := b.start(t.Context(), "2", write("n"), 300*time.Millisecond)
		faketime.Pass(300*time.Millisecond - 20*moment)
		require.True(t, late().done)
		require.False(t, late().granted)
		require.NoError(t, late().err)
		require.Equal(t, 300*time.Millisecond, late().at)
		require.Equal(t, "owner of 1", late().blockers[0].Owner)
	})
}

// TestNothingIsGrantedAfterTheDeadline lets go at every moment about it.
func TestNothingIsGrantedAfterTheDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		const timeout = 100 * time.Millisecond
		granted := 0
		for i := range 100 {
			a.get(id("a%d", i), write("n"))
			w := b.start(t.Context(), id("b%d", i), write("n"), timeout)
			faketime.Pass(timeout - 20*moment - 10*moment + time.Duration(i)*moment/5)
			a.let(id("a%d", i), "n")
			faketime.Pass(time.Second)
			require.NoError(t, w().err)
			require.LessOrEqual(t, w().at, timeout)
			if w().granted {
				granted++
				b.let(id("b%d", i), "n")
			}
			require.Empty(t, s.holders("n"))
			require.Empty(t, s.marks("n"))
		}
		require.Positive(t, granted)
		require.Less(t, granted, 100)
	})
}

func TestMarkIsRegisteredRefreshedWeakenedAndRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("1", write("n", "m"))
		require.Equal(t, int64(2), b.cost(func() {
			b.start(t.Context(), "2", readOf("n", "m"), time.Hour)
		}), "a read, and the commit that registers")
		require.Equal(t, []string{"node-2 r"}, s.marks("n"))
		ctx, cancel := context.WithCancel(t.Context())
		w := b.start(ctx, "3", write("n"), time.Hour)
		require.Equal(t, []string{"node-2 w"}, s.marks("n"))
		require.Equal(t, []string{"node-2 r"}, s.marks("m"))
		for range 10 * markLasts {
			faketime.Pass(testPoll)
			_, _, _ = a.Renew(t.Context(), []string{"n", "m"}, renewal("1"), s.r.RunID(), false)
			require.Equal(t, []string{"node-2 w"}, s.marks("n"))
			require.Equal(t, []string{"node-2 r"}, s.marks("m"))
		}
		cancel()
		faketime.Pass(20 * moment)
		require.ErrorIs(t, w().err, context.Canceled)
		require.Equal(t, []string{"node-2 r"}, s.marks("n"))
		a.let("1", "n", "m")
		faketime.Pass(20 * moment)
		require.Empty(t, s.marks("n"))
		require.Empty(t, s.marks("m"))
	})
}

// TestWhoSteppedDownIsWokenWhenTheWriterGivesUp: whichever way it gives up, and
// wherever the readers wait.
func TestWhoSteppedDownIsWokenWhenTheWriterGivesUp(t *testing.T) {
	t.Parallel()
	for name, giveUp := range map[string]func(n *testNode, cancel context.CancelFunc){
		"timeout": func(*testNode, context.CancelFunc) { faketime.Pass(time.Second) },
		"ctx":     func(_ *testNode, cancel context.CancelFunc) { cancel() },
		"abort": func(n *testNode, _ context.CancelFunc) {
			w, _ := n.waiting("writer")
			w.Parked.Abort(errTest)
		},
		"refuse": func(n *testNode, _ context.CancelFunc) { n.Refuse() },
		"close":  func(n *testNode, _ context.CancelFunc) { n.close(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				a, b, c := s.node(), s.node(), s.node()
				a.get("reader", readOf("n"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := b.start(ctx, "writer", write("n"), time.Second)
				same := b.start(t.Context(), "on the same node", readOf("n"), time.Hour)
				other := c.start(t.Context(), "on another", readOf("n"), time.Hour)
				require.Equal(t, []string{"reader"}, s.holders("n"))
				giveUp(b, cancel)
				faketime.Pass(50 * moment)
				require.True(t, w().done)
				require.False(t, w().granted)
				require.True(t, other().granted)
				require.Less(t, other().at, testPoll/2, "woken, not polled")
				if name == "refuse" || name == "close" {
					require.ErrorIs(t, same().err, ErrClosed)
				} else {
					require.True(t, same().granted)
				}
				require.Empty(t, s.marks("n"))
			})
		})
	}
}

func TestHandOverIsInArrivalOrderAndPartOfTheRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		n.get("0", write("n"))
		var waiting []func() answerOf
		for i := 1; i < 10; i++ {
			waiting = append(waiting, n.start(t.Context(), id("%d", i), write("n"), time.Hour))
		}
		for i, w := range waiting {
			require.Equal(t, int64(1), n.cost(func() { n.let(id("%d", i), "n") }))
			require.Equal(t, []string{id("%d", i+1)}, s.holders("n"))
			require.True(t, w().granted)
			if i > 0 {
				require.Greater(t, w().Token, waiting[i-1]().Token)
			}
		}
		require.Empty(t, s.marks("n"))
	})
}

func TestReadersGetInTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("w", write("n"))
		for i := range 5 {
			a.start(t.Context(), id("a%d", i), readOf("n"), time.Hour)
			b.start(t.Context(), id("b%d", i), readOf("n"), time.Hour)
		}
		a.let("w", "n")
		require.Len(t, s.holders("n"), 5, "with the release itself")
		faketime.Pass(20 * moment)
		require.Len(t, s.holders("n"), 10)
	})
}

// TestWriterComesBeforeReadersThatCameBeforeIt as long as those don't starve.
func TestWriterComesBeforeReadersThatCameBeforeIt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		for i, starves := range []bool{false, true} {
			a, b := s.node(), s.node()
			n := id("%d", i)
			a.get("w", write(n))
			r := startNow(func() answerOf { return *a.try(t.Context(), "r", readOf(n), time.Hour) })
			faketime.Pass(4 * moment)
			w := startNow(func() answerOf { return *b.try(t.Context(), "w2", write(n), time.Hour) })
			faketime.Pass(8 * moment)
			require.False(t, a.try(t.Context(), "r0", readOf(n), 0).granted)
			if starves {
				faketime.Pass(starving)
			}
			a.let("w", n)
			faketime.Pass(20 * moment)
			require.Equal(t, !starves, w().granted)
			require.Equal(t, starves, r().granted)
			if starves {
				a.let("r", n)
			} else {
				b.let("w2", n)
			}
			faketime.Pass(20 * moment)
			require.True(t, w().granted && r().granted)
		}
	})
}

// TestCandidateOfSeveralNamesWhoseRecordsWereNotRead is handed what is free in
// the next batch: the release had read only its own name's record.
func TestCandidateOfSeveralNamesWhoseRecordsWereNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		n.get("holder", write("n"))
		n.get("long", write("x"))
		var first []func() answerOf
		for i := range candidatesRead + 2 { // they stay blocked by x
			first = append(first, n.start(t.Context(), id("%d", i), write("n", "x"), time.Hour))
		}
		last := n.start(t.Context(), "last", write("n", "other"), time.Hour)
		faketime.Pass(2 * maxAge)
		n.let("holder", "n")
		faketime.Pass(50 * moment)
		require.True(t, last().granted)
		for _, f := range first {
			require.False(t, f().done)
		}
	})
}

// TestWaiterBehindManyThatCannotGetInIsNotForgotten: only so many are tried in
// one batch.
func TestWaiterBehindManyThatCannotGetInIsNotForgotten(t *testing.T) {
	t.Parallel()
	for name, wants := range map[string]func(names ...string) []wantT{"writers": write, "readers": readOf} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				n := s.node()
				n.get("holder", write("n"))
				n.get("long", write("x"))
				for i := range 2*maxTries + 3 {
					n.start(t.Context(), id("%d", i), wants("n", "x"), time.Hour)
				}
				last := n.start(t.Context(), "last", wants("n"), time.Hour)
				n.let("holder", "n")
				faketime.Pass(testPoll / 5)
				require.True(t, last().granted)
			})
		})
	}
}

func TestPollIsTheNetWhenAllMessagesAreLost(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		s.faults().add(rule{phase: sim.Message, times: -1, fault: sim.Fault{Lose: true}})
		for i := range 5 {
			a.get(id("a%d", i), write("n"))
			w := b.start(t.Context(), id("b%d", i), write("n"), time.Hour)
			a.let(id("a%d", i), "n")
			faketime.Pass(testPoll + 50*moment)
			require.True(t, w().granted)
			b.let(id("b%d", i), "n")
		}
	})
}

func TestThousandWaitersCostOneExchangePerPoll(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("1", write("n"))
		for i := range 1000 {
			go b.try(t.Context(), id("b%d", i), write("n"), time.Minute)
		}
		faketime.Pass(time.Second)
		cost := b.cost(func() { faketime.Pass(4 * testPoll) })
		require.Positive(t, cost)
		require.LessOrEqual(t, cost, int64(15))
		faketime.Pass(time.Minute)
		require.Empty(t, s.marks("n"))
	})
}

// TestLapseOfWhatIsInTheWayIsNotSleptThrough: the holder has died, and nobody
// tells.
func TestLapseOfWhatIsInTheWayIsNotSleptThrough(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b, c := s.node(), s.node(), s.node()
		g := a.get("dead", write("n"))
		a.port.Kill()
		w := b.start(t.Context(), "w", write("n"), time.Hour)
		faketime.Pass(time.Duration(g.ExpiresAt-s.millis())*time.Millisecond + 50*moment)
		require.True(t, w().granted)
		b.let("w", "n")
		// The same of a writer's mark.
		b.get("r", readOf("n"))
		c.start(t.Context(), "writer", write("n"), time.Hour)
		r := b.start(t.Context(), "r2", readOf("n"), time.Hour)
		c.port.Kill()
		faketime.Pass(markLasts*testPoll + 50*moment)
		require.True(t, r().granted)
		require.LessOrEqual(t, r().at, markLasts*testPoll+100*moment)
	})
}

func TestSubscriptionThatIsBackHasEverybodyTried(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("1", write("n"))
		a.get("2", write("m"))
		wn := b.start(t.Context(), "3", write("n"), time.Hour)
		wm := b.start(t.Context(), "4", write("m"), time.Hour)
		f := s.faults()
		f.add(rule{phase: sim.Subscribe, times: -1, fault: sim.Fault{Lose: true}})
		b.port.CutSubscription()
		a.let("1", "n")
		a.let("2", "m")
		faketime.Pass(500 * moment)
		require.False(t, wn().done)
		f.heal()
		faketime.Pass(600 * moment)
		require.True(t, wn().granted)
		require.True(t, wm().granted)
	})
}
