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

// TestCloseInEveryState refuses and closes at every moment of a busy lane; inBubble
// sees to it that no goroutine is left.
func TestCloseInEveryState(t *testing.T) {
	t.Parallel()
	for at := range 40 {
		for name, fault := range map[string]*rule{
			"sound":      nil,
			"black hole": {phase: sim.Request, times: -1, fault: sim.Fault{Lose: true}},
			"no replies": {phase: sim.Reply, times: -1, fault: sim.Fault{Lose: true}},
			"cut":        {phase: sim.Request, times: -1, fault: sim.Fault{Cut: true}},
		} {
			t.Run(id("%s %d", name, at), func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *setting) {
					n, other, f := s.node(), s.node(), s.faults()
					other.get("o", write("taken"))
					g := n.get("mine", write("mine"))
					var ends []func() answerOf
					ask := func(who string, wants []lockrules.Want, timeout time.Duration) {
						ends = append(ends, startNow(func() answerOf { return *n.try(t.Context(), who, wants, timeout) }))
					}
					ask("1", write("taken"), time.Hour)
					ask("2", readOf("taken", "a"), time.Hour)
					faketime.Pass(10 * moment)
					if fault != nil {
						r := *fault
						r.node = n.port.Node()
						f.add(r)
					}
					ask("3", write("free"), time.Hour)
					ask("4", write("taken"), 0)
					released := startNow(func() answerOf {
						_, err := n.Release(t.Context(), []string{"mine"}, lockrules.Release{ID: "mine", Outcome: lockrules.OK}, testLease)
						return answerOf{err: err, done: true}
					})
					renewed := startNow(func() answerOf {
						_, _, err := n.Renew(t.Context(), []string{"mine"}, renewal("mine"), g.RunID, false)
						return answerOf{err: err, done: true}
					})
					faketime.Pass(time.Duration(at*at) * moment / 4)
					refused := time.Now()
					n.Refuse()
					faketime.Pass(150 * moment)
					for _, end := range ends {
						require.True(t, end().done, "waiters end at once")
						if !end().granted && end().err != nil && fault == nil {
							require.ErrorIs(t, end().err, ErrClosed)
						}
					}
					require.ErrorIs(t, n.try(t.Context(), "5", write("x"), 0).err, ErrClosed)
					n.close(time.Second)
					require.Less(t, time.Since(refused), 2*time.Second+testOp)
					faketime.Pass(moment)
					require.True(t, released().done)
					require.True(t, renewed().done)
					_, err := n.Read(t.Context(), nil)
					require.ErrorIs(t, err, ErrClosed)
					if fault == nil {
						require.Empty(t, s.marks("taken"))
						require.Empty(t, s.holders("mine"))
					}
				})
			})
		}
	}
}

func TestGrantAtTheMomentOfRefuseIsGivenBackOrKnown(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		for i := range 30 {
			n := s.node()
			a := startNow(func() answerOf { return *n.try(t.Context(), id("%d", i), write("n"), time.Hour) })
			faketime.Pass(time.Duration(i) * moment / 5)
			n.Refuse()
			faketime.Pass(20 * moment)
			require.True(t, a().done)
			if a().granted {
				n.let(id("%d", i), "n")
			}
			n.close(time.Second)
			require.Empty(t, s.holders("n"))
		}
	})
}

func TestRenewalsAndReleasesGoOnAfterRefuse(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		g := n.get("1", write("n"))
		n.Refuse()
		_, lost := n.renewNow("1", g.RunID, 0, "n")
		require.Empty(t, lost)
		require.Equal(t, lockrules.Done, n.let("1", "n"))
	})
}

func TestCloseFinishesWhatGoesOnInTheBackground(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n, f := s.node(), s.faults()
		n.get("1", write("n"))
		f.add(rule{phase: sim.Request, times: 4, fault: sim.Fault{Cut: true}})
		ctx, cancel := context.WithTimeout(t.Context(), moment)
		defer cancel()
		_, err := n.Release(ctx, []string{"n"}, lockrules.Release{ID: "1", Outcome: lockrules.OK}, testLease)
		require.Error(t, err)
		n.close(time.Minute)
		require.Empty(t, s.holders("n"))
	})
}
