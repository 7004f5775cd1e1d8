package lane

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/internal/sim"
)

// TestWithdrawalDefeatsALateCommit: the caller has gone, and its EXEC still sits
// in the socket of a dead connection.
func TestWithdrawalDefeatsALateCommit(t *testing.T) {
	t.Parallel()
	for _, existed := range []bool{true, false} {
		t.Run(map[bool]string{true: "of a record", false: "of no record"}[existed], func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				n := s.node()
				if existed {
					n.get("before", write("n"))
					n.let("before", "n")
				}
				f := s.faults()
				f.add(rule{phase: sim.Request, writes: true, times: 1, fault: sim.Fault{Late: true, Delay: 10 * time.Second}})
				f.add(rule{phase: sim.Dial, times: 3, fault: sim.Fault{Cut: true}}) // so that it is gone by then
				ctx, cancel := context.WithTimeout(t.Context(), 10*moment)
				defer cancel()
				a := n.try(ctx, "ghost", write("n"), time.Hour)
				require.ErrorIs(t, a.err, context.DeadlineExceeded)
				faketime.Pass(time.Minute)
				require.Empty(t, s.holders("n"))
				facts := s.r.Facts()
				require.Equal(t, 1, facts[sim.LateConflicted])
				require.Zero(t, facts[sim.LateCommitted])
			})
		})
	}
}

// TestCommitThatWasAppliedWithoutAReplyIsUndoneWhenItsCallerHasGone also on
// several names.
func TestCommitThatWasAppliedWithoutAReplyIsUndoneWhenItsCallerHasGone(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n, other, f := s.node(), s.node(), s.faults()
		f.add(rule{node: "node-1", phase: sim.Reply, writes: true, times: 1, fault: sim.Fault{Lose: true}})
		ctx, cancel := context.WithTimeout(t.Context(), 50*moment)
		defer cancel()
		a := n.try(ctx, "1", write("a", "b"), time.Hour)
		require.Error(t, a.err)
		w := other.start(t.Context(), "2", write("a", "b"), time.Hour)
		faketime.Pass(time.Second)
		require.True(t, w().granted)
		require.Less(t, w().at, 500*moment)
	})
}

func TestCallerWhoLeavesAnyPhaseLeavesNothingBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n, other := s.node(), s.node()
		for i := range 60 { // queued behind another, in flight, granted in the same moment, parked
			blocked := i%2 == 0
			if blocked {
				other.get(id("o%d", i), write("n"))
			}
			go n.try(t.Context(), id("first%d", i), write("m"), 0)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*moment/5)
			a := n.try(ctx, id("%d", i), write("n", "l"), time.Hour)
			cancel()
			if a.granted {
				require.NoError(t, a.err)
				require.Equal(t, []string{id("%d", i)}, s.holders("n"))
				n.let(id("%d", i), "n", "l")
			} else {
				require.ErrorIs(t, a.err, context.DeadlineExceeded)
			}
			faketime.Pass(100 * moment)
			if blocked {
				other.let(id("o%d", i), "n")
			}
			require.Empty(t, s.holders("n"))
			require.Empty(t, s.holders("l"))
			require.Empty(t, s.marks("n"))
			n.let(id("first%d", i), "m")
		}
	})
}

// TestCancelAgainstGrant cancels a parked caller at every moment about its grant.
func TestCancelAgainstGrant(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		granted := 0
		for i := range 60 {
			a.get("a", write("n"))
			ctx, cancel := context.WithCancel(t.Context())
			w := b.start(ctx, "b", write("n"), time.Hour)
			time.AfterFunc(time.Duration(i)*moment/4, cancel)
			a.let("a", "n")
			faketime.Pass(50 * moment)
			if w().granted {
				granted++
				require.Equal(t, []string{"b"}, s.holders("n"))
				b.let("b", "n")
			} else {
				require.ErrorIs(t, w().err, context.Canceled)
				require.Empty(t, s.holders("n"))
				require.Empty(t, s.marks("n"))
			}
		}
		require.Positive(t, granted)
		require.Less(t, granted, 60)
	})
}

func TestCancelledCallerReturnsAtOnceWhileRedisHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		s.faults().add(rule{phase: sim.Request, times: -1, fault: sim.Fault{Lose: true}})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			a := n.try(ctx, "1", write("n"), time.Hour)
			cancel()
			require.ErrorIs(t, a.err, context.DeadlineExceeded)
			require.LessOrEqual(t, a.at, 150*time.Millisecond+quickBudget)
		}
	})
}

func TestReleaseGoesOnWhenItsCallerHasGone(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n, f := s.node(), s.faults()
		n.get("1", write("n"))
		s.r.Crash()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := n.Release(ctx, []string{"n"}, lockrules.Release{ID: "1", Outcome: lockrules.OK}, testLease)
		require.Error(t, err)
		s.r.Start(sim.Everything)
		f.heal()
		faketime.Pass(2 * time.Second)
		require.Empty(t, s.holders("n"))
		rec, _ := s.record("n")
		require.Equal(t, lockrules.OK, *rec.WriteOwner.Outcome)
	})
}

// TestReleaseWithADoneContextIsMade since protected code is often left for just
// that reason.
func TestReleaseWithADoneContextIsMade(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		n.get("1", write("n"))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := n.Release(ctx, []string{"n"}, lockrules.Release{ID: "1", Outcome: lockrules.OK}, testLease)
		require.NoError(t, err)
		require.Empty(t, s.holders("n"))
		_, err = n.Read(ctx, nil)
		require.ErrorIs(t, err, context.Canceled)
	})
}

// TestMarkOfUnknownOutcomeIsBroughtUpToDate: the registration was applied, its
// reply lost, and the caller has left meanwhile.
func TestMarkOfUnknownOutcomeIsBroughtUpToDate(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b, f := s.node(), s.node(), s.faults()
		a.get("r", readOf("n"))
		f.add(rule{node: "node-2", phase: sim.Reply, writes: true, times: 1, fault: sim.Fault{Lose: true}})
		w := b.start(t.Context(), "w", write("n"), 50*moment)
		faketime.Pass(time.Second)
		require.True(t, w().done)
		require.Empty(t, s.marks("n"))
		a.get("r2", readOf("n"))
	})
}

// TestWaiterIsNotGrantedAfterItsDeadlineByAnOutcomeThatWasUnknown: its EXEC was
// lost, and it is tried again too late.
func TestWaiterIsNotGrantedAfterItsDeadlineByAnOutcomeThatWasUnknown(t *testing.T) {
	t.Parallel()
	for _, phase := range []sim.Phase{sim.Request, sim.Reply} {
		t.Run(phase.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				a, b, f := s.node(), s.node(), s.faults()
				a.get("1", write("n"))
				w := b.start(t.Context(), "2", write("n"), time.Second)
				f.add(rule{node: "node-2", phase: phase, writes: true, times: 1, fault: sim.Fault{Cut: true}})
				f.add(rule{node: "node-2", phase: sim.Dial, times: -1, fault: sim.Fault{Cut: true}})
				a.let("1", "n")
				faketime.Pass(2 * time.Second)
				require.True(t, w().done)
				require.False(t, w().granted)
				require.Equal(t, time.Second, w().at)
				requireUnavailable(t, w().err)
				f.heal()
				faketime.Pass(3 * time.Second)
				require.Empty(t, s.holders("n"), "undone")
			})
		})
	}
}

func TestAbortedOrAnsweredOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("1", write("n"))
		w := b.start(t.Context(), "2", write("n"), time.Hour)
		waits, ok := b.waiting("2")
		require.True(t, ok)
		require.Equal(t, "owner of 1", waits.Blockers[0].Owner)
		require.True(t, waits.Parked.Abort(errTest))
		require.False(t, waits.Parked.Abort(errTest))
		require.ErrorIs(t, w().err, errTest)
		faketime.Pass(20 * moment)
		_, ok = b.waiting("2")
		require.False(t, ok)
		w = b.start(t.Context(), "3", write("n"), time.Hour)
		waits, _ = b.waiting("3")
		a.let("1", "n")
		faketime.Pass(20 * moment)
		require.True(t, w().granted)
		require.False(t, waits.Parked.Abort(errTest))
	})
}

// TestWaiterWhoseTimeIsOverIsPassedBy also if its caller, whose processor was
// busy, hasn't looked at the clock yet.
func TestWaiterWhoseTimeIsOverIsPassedBy(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("1", write("n"))
		ctx, cancel := context.WithCancel(t.Context())
		late := b.start(ctx, "late", write("n"), time.Hour)
		b.Lane.mu.Lock()
		for o := range b.parked.all {
			o.patience = b.cfg.Now()
		}
		b.Lane.mu.Unlock()
		next := b.start(t.Context(), "next", write("n"), time.Hour)
		a.let("1", "n")
		faketime.Pass(50 * moment)
		require.False(t, late().done)
		require.True(t, next().granted)
		cancel()
		faketime.Pass(50 * moment)
		require.ErrorIs(t, late().err, context.Canceled)
	})
}
