package lane

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/internal/sim"
)

func TestHundredCallersShareAFewExchanges(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		cost := n.cost(func() {
			var all sync.WaitGroup
			for i := range 100 {
				all.Go(func() { n.get(id("a%d", i), write(id("n%d", i))) })
			}
			all.Wait()
		})
		require.LessOrEqual(t, cost, int64(6))
		for i := range 100 {
			require.Equal(t, []string{id("a%d", i)}, s.holders(id("n%d", i)))
		}
	})
}

func TestLoneCallerPaysOneExchangeEach(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		n.get("first", write("a", "b"))
		require.Equal(t, int64(1), n.cost(func() { n.let("first", "a", "b") }))
		for i := range 5 {
			require.Equal(t, int64(1), n.cost(func() { n.get(strconv.Itoa(i), write("a", "b")) }))
			require.Equal(t, int64(1), n.cost(func() { n.let(strconv.Itoa(i), "a", "b") }))
		}
	})
}

// TestConflictIsNeverAnAnswer has two readers that don't wait write the same
// record at the same time.
func TestConflictIsNeverAnAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		for i := range 20 {
			var both sync.WaitGroup
			both.Go(func() { a.get(id("a%d", i), readOf("n")) })
			both.Go(func() { b.get(id("b%d", i), readOf("n")) })
			both.Wait()
		}
		require.Len(t, s.holders("n"), 40)
		require.Positive(t, a.Statistics().Conflicts+b.Statistics().Conflicts)
	})
}

func TestManyNodesInConflictAllGetIn(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		var all sync.WaitGroup
		for i := range 16 {
			n := s.node()
			all.Go(func() {
				for j := range 5 {
					n.get(id("%d-%d", i, j), readOf("n"))
				}
			})
		}
		all.Wait()
		require.Len(t, s.holders("n"), 80)
	})
}

func TestStaleSnapshotIsNoAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("1", write("n"))
		require.False(t, b.try(t.Context(), "2", write("n"), 0).granted)
		a.let("1", "n")
		// b has read the record, as held, a moment ago.
		b.get("3", write("n"))
		b.let("3", "n")
		a.get("4", write("n"))
		a.let("4", "n")
		b.get("5", write("n"))
		require.False(t, a.try(t.Context(), "6", write("n"), 0).granted, "a has read it as free")
	})
}

// TestTrustStartsBeforeRedisReadItsClock: a reply may be under way for long.
func TestTrustStartsBeforeRedisReadItsClock(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n, f := s.node(), s.faults()
		f.add(rule{phase: sim.Reply, times: -1, fault: sim.Fault{Delay: 40 * moment}})
		for i := range 5 {
			g := n.get(id("%d", i), write("n"))
			granted := time.Hour + time.UnixMilli(int64(g.At)).Sub(n.began)
			require.LessOrEqual(t, g.Asked, granted+moment)
			r, _ := n.renewNow(id("%d", i), g.RunID, 0, "n")
			rec, _ := s.record("n")
			require.LessOrEqual(t, r.Asked, time.Hour+time.UnixMilli(int64(*rec.WriteOwner.ExpiresAt-millis(testLease))).Sub(n.began)+moment)
			n.let(id("%d", i), "n")
			faketime.Pass(time.Duration(i) * maxAge / 3)
		}
	})
}

// TestLostRequestAndLostReplyChangeNothing: whatever is lost on the way, each
// operation has the effect of one.
func TestLostRequestAndLostReplyChangeNothing(t *testing.T) {
	t.Parallel()
	for phase, fault := range map[string]struct {
		phase sim.Phase
		fault sim.Fault
	}{
		"request": {sim.Request, sim.Fault{Lose: true}}, "reply": {sim.Reply, sim.Fault{Lose: true}},
		"cut before": {sim.Request, sim.Fault{Cut: true}}, "cut after": {sim.Reply, sim.Fault{Cut: true}},
		"cut within": {sim.Read, sim.Fault{Cut: true}},
	} {
		t.Run(phase, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				n, f := s.node(), s.faults()
				lose := func() { f.add(rule{phase: fault.phase, writes: true, times: 1, fault: fault.fault}) }
				lose()
				g := n.get("1", write("a", "b"))
				require.Equal(t, []string{"1"}, s.holders("a"))
				rec, _ := s.record("a")
				require.Equal(t, rec.WriteOwner.FencingToken, g.Token)
				require.LessOrEqual(t, rec.FencingToken, g.Token, "granted once")
				n.recover()
				lose()
				_, lost := n.renewNow("1", g.RunID, 0, "a", "b")
				require.Empty(t, lost)
				n.recover()
				lose()
				require.Equal(t, lockrules.Done, n.let("1", "a", "b"))
				require.Empty(t, s.holders("a"))
				rec, _ = s.record("a")
				require.Equal(t, lockrules.OK, *rec.WriteOwner.Outcome)
				n.get("2", write("a", "b"))
			})
		})
	}
}

func TestReleaseWhoseReplyWasLostHandsOverOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n, f := s.node(), s.faults()
		n.get("1", write("n"))
		second := n.start(t.Context(), "2", write("n"), time.Minute)
		third := n.start(t.Context(), "3", write("n"), time.Minute)
		f.add(rule{phase: sim.Reply, writes: true, times: 1, fault: sim.Fault{Lose: true}})
		require.Equal(t, lockrules.Done, n.let("1", "n"))
		faketime.Pass(time.Second)
		require.True(t, second().granted)
		require.False(t, third().done)
		require.Equal(t, []string{"2"}, s.holders("n"))
		require.Less(t, second().at, 2*time.Second, "not by the poll")
	})
}

func TestBatchLargerThanATransactionIsDoneInSeveral(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		var all sync.WaitGroup
		for i := range 3 * maxOps {
			all.Go(func() { n.get(id("%d", i), write(id("n%d", i))) })
		}
		many := make([]string, 2*maxNames)
		for i := range many {
			many[i] = id("m%d", i)
		}
		all.Go(func() { n.get("big", write(many...)) })
		all.Wait()
		require.Equal(t, []string{"big"}, s.holders("m0"))
		require.Equal(t, lockrules.Done, n.let("big", many...))
	})
}

// TestMuchWantedNameDoesNotHoldUpOthers: after some conflicts the batch is split.
func TestMuchWantedNameDoesNotHoldUpOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		n.get("1", write("hot"))
		n.get("2", write("cold"))
		var stop atomic.Bool
		go func() {
			for !stop.Load() {
				s.r.Touch(s.keys.Lock("hot"), time.Hour)
				faketime.Pass(moment / 2)
			}
		}()
		var hot, cold time.Duration
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() { n.let("1", "hot"); hot = time.Since(began) })
		all.Go(func() { n.let("2", "cold"); cold = time.Since(began) })
		faketime.Pass(2 * time.Second)
		stop.Store(true)
		all.Wait()
		require.Greater(t, hot, 2*time.Second)
		require.Less(t, cold, 2*time.Second)
	})
}
