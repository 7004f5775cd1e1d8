package lane

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/internal/sim"
)

// TestNothingIsGrantedInAHoldOff: for each of its reasons, to who asks and to who
// waits, and then at once.
func TestNothingIsGrantedInAHoldOff(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hurt   func(s *setting)
		reason lockrules.HoldOff
		lasts  time.Duration
	}{
		"restart with everything": {func(s *setting) { s.r.Restart(sim.Everything) }, lockrules.OtherServer, testLease},
		"restart with nothing":    {func(s *setting) { s.r.Restart(sim.Nothing) }, lockrules.DataLost, testLease},
		"failover":                {func(s *setting) { s.r.Failover(sim.Everything) }, lockrules.OtherServer, testLease},
		"failover to an empty":    {func(s *setting) { s.r.Failover(sim.Nothing) }, lockrules.DataLost, testLease},
		"flush":                   {func(s *setting) { s.r.FlushAll() }, lockrules.DataLost, testLease},
		"eviction of the memory":  {func(s *setting) { s.r.Evict(s.keys.Server()) }, lockrules.DataLost, testLease},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				a, b := s.node(), s.node()
				a.get("1", write("n"))
				w := b.start(t.Context(), "2", write("n"), time.Hour)
				other := b.start(t.Context(), "3", write("n"), time.Hour)
				c.hurt(s)
				began := time.Now()
				b.WakeAll()
				tried := b.try(t.Context(), "4", write("m"), 0)
				require.NoError(t, tried.err)
				require.False(t, tried.granted)
				require.Equal(t, lockrules.NotYetUp, tried.blockers[0].Reason)
				require.Equal(t, []lockrules.HoldOff{c.reason}, b.holdOff)
				faketime.Pass(c.lasts - time.Since(began) - 10*moment)
				require.False(t, w().done)
				faketime.Pass(1200*time.Millisecond + 50*moment)
				require.True(t, w().granted)
				require.False(t, other().done)
				require.Len(t, b.holdOff, 1, "told once")
				require.NotEmpty(t, a.renewReason("1", w().RunID, "n"))
			})
		})
	}
}

func (n *testNode) renewReason(id, runID string, names ...string) string {
	n.s.t.Helper()
	_, lost := n.renewNow(id, runID, 0, names...)
	return lost
}

func TestServerThatHasJustStartedHoldsOff(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		s.r.SetUptime(10 * time.Second)
		n := s.node()
		require.False(t, n.try(t.Context(), "1", write("n"), 0).granted)
		a := n.try(t.Context(), "2", write("n"), time.Hour)
		require.True(t, a.granted)
		require.InDelta(t, (testLease + time.Second - 10*time.Second).Seconds(), a.at.Seconds(), 1.1)
		require.Equal(t, []lockrules.HoldOff{lockrules.JustStarted}, n.holdOff)
	})
}

func TestLargestLeaseOfAllCountsForTheHoldOff(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		s.node(func(c *Config) { c.Lease = 10 * testLease }).get("long", write("m"))
		n := s.node()
		n.get("1", write("n"))
		s.r.FlushAll()
		a := n.try(t.Context(), "2", write("n"), time.Hour)
		require.True(t, a.granted)
		require.GreaterOrEqual(t, a.at, 10*testLease)
	})
}

func TestRenewalSaysWhyALockIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hurt func(s *setting, a, b *testNode)
		want string
	}{
		"gone":      {func(s *setting, _, _ *testNode) { s.r.Evict(s.keys.Lock("n")) }, "gone or another's"},
		"flushed":   {func(s *setting, _, _ *testNode) { s.r.FlushAll() }, "gone or another's"},
		"restarted": {func(s *setting, _, _ *testNode) { s.r.Restart(sim.Everything) }, "restarted"},
		"lapsed":    {func(*setting, *testNode, *testNode) { faketime.Pass(testLease) }, "run out"},
		"taken": {func(_ *setting, _, b *testNode) {
			faketime.Pass(testLease + moment)
			b.get("2", write("n"))
		}, `taken by "owner of 2"`},
		"released": {func(_ *setting, a, _ *testNode) { a.let("1", "n", "m") }, "released"},
		"rolled back": {func(s *setting, a, _ *testNode) {
			old, _ := s.r.Get(s.keys.Lock("n"))
			for seen := range int64(2) {
				_, lost := a.renewNow("1", s.r.RunID(), seen, "n", "m")
				require.Empty(s.t, lost)
			}
			s.r.Put(s.keys.Lock("n"), old, time.Hour)
		}, "older"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				a, b := s.node(), s.node()
				g := a.get("1", write("n", "m"))
				c.hurt(s, a, b)
				before, _ := s.r.Get(s.keys.Lock("n"))
				_, lost := a.renewNow("1", g.RunID, 2, "n", "m")
				require.Contains(t, lost, c.want)
				after, _ := s.r.Get(s.keys.Lock("n"))
				require.Equal(t, string(before), string(after), "never resurrected")
			})
		})
	}
}

func TestReleaseWithoutMemoryGoesOnUntilThereIsSome(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("r1", readOf("n"))
		b.get("r2", readOf("n"))
		s.r.Refuse(exchange.OOM)
		_, err := a.Release(t.Context(), []string{"n"}, lockrules.Release{ID: "r1", Outcome: lockrules.OK}, testOp)
		requireUnavailable(t, err)
		s.r.Accept()
		require.Equal(t, []string{"r1", "r2"}, s.holders("n"))
		_, err = a.Release(t.Context(), []string{"n"}, lockrules.Release{ID: "r1", Outcome: lockrules.OK}, testLease)
		require.NoError(t, err)
		require.Equal(t, []string{"r2"}, s.holders("n"))
	})
}

// TestReadersAreNotHeldUpByACommitThatIsRefused: who has a look while others can't
// release must see who holds what.
func TestReadersAreNotHeldUpByACommitThatIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a := s.node()
		a.get("1", write("n"))
		s.r.Refuse(exchange.OOM)
		ended := make(chan error, 1)
		go func() {
			_, err := a.Release(t.Context(), []string{"n"}, lockrules.Release{ID: "1", Outcome: lockrules.OK}, time.Minute)
			ended <- err
		}()
		for range 20 {
			faketime.Pass(testOp / 40)
			began := time.Now()
			r, err := a.Read(t.Context(), []string{"n"})
			require.NoError(t, err)
			require.NotNil(t, r.Records["n"].WriteOwner)
			require.Less(t, time.Since(began), testOp)
		}
		s.r.Accept()
		<-ended
	})
}

// The read that is made apart from a refused commit may fail by itself, for a moment.
// That is no reason to answer that MULTI is not permitted.
func TestReaderDoesNotGetTheRefusalOfACommitThatItHasNothingToDoWith(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a := s.node()
		for i := range 10 {
			a.get(strconv.Itoa(i), write("n"+strconv.Itoa(i)))
		}
		f := s.faults()
		s.r.Refuse(exchange.NoPerm, "MULTI")
		for i := range 10 {
			f.add(rule{phase: sim.Request, reads: true, times: 1, fault: sim.Fault{Cut: true}})
			ended := make(chan error, 1)
			go func() {
				_, err := a.Release(t.Context(), []string{"n" + strconv.Itoa(i)}, lockrules.Release{ID: strconv.Itoa(i), Outcome: lockrules.OK}, time.Minute)
				ended <- err
			}()
			r, err := a.Read(t.Context(), []string{"n9"})
			require.NoError(t, err)
			require.NotNil(t, r.Records["n9"].WriteOwner)
			requireUnavailable(t, <-ended)
		}
		s.r.Accept()
	})
}

func TestRefusalThatStaysIsAnsweredAtOnceAndNamesTheCommand(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"WATCH", "MULTI", "GET", "SET", "TIME", "INFO", "PUBLISH"} {
		t.Run(command, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				a, b := s.node(), s.node()
				a.get("1", write("n"))
				w := b.start(t.Context(), "2", write("n"), time.Hour)
				faketime.Pass(time.Second) // INFO is due again
				s.r.Refuse(exchange.NoPerm, command)
				began := time.Now()
				_, err := a.Release(t.Context(), []string{"n"}, lockrules.Release{ID: "1", Outcome: lockrules.OK}, time.Minute)
				u := requireUnavailable(t, err)
				require.True(t, u.Permanent)
				require.Contains(t, err.Error(), command)
				require.Less(t, time.Since(began), time.Second)
				s.r.Accept()
				faketime.Pass(10 * time.Second)
				require.True(t, w().granted, "the release has gone on: the right came back")
			})
		})
	}
}

func TestRefusalThatPassesIsRiddenOut(t *testing.T) {
	t.Parallel()
	for _, kind := range []exchange.Kind{exchange.Loading, exchange.ReadOnly, exchange.OOM, exchange.Misconf, exchange.Busy,
		exchange.NoReplicas, exchange.MaxClients} {
		t.Run(kind.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				n := s.node()
				refuse := func() {
					s.r.Refuse(kind)
					s.r.CutAll()
				}
				refuse()
				short := n.try(t.Context(), "1", write("n"), 0)
				u := requireUnavailable(t, short.err)
				require.False(t, u.Permanent)
				require.Equal(t, testOp, short.at)
				time.AfterFunc(20*time.Second, s.r.Accept)
				before := n.Statistics().Exchanges
				long := n.try(t.Context(), "2", write("n"), time.Minute)
				require.Less(t, n.Statistics().Exchanges-before, int64(100), "it is not hammered")
				require.NoError(t, long.err)
				require.True(t, long.granted)
				require.Less(t, long.at, 25*time.Second)
			})
		})
	}
}

// TestWaiterRidesAnOutageOut and never says that somebody has the lock when
// that was only true before.
func TestWaiterRidesAnOutageOut(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b := s.node(), s.node()
		a.get("1", write("n"))
		short := b.start(t.Context(), "2", write("n"), 20*time.Second)
		long := b.start(t.Context(), "3", write("n"), time.Hour)
		f := s.faults()
		f.add(rule{node: "node-2", phase: sim.Request, times: -1, fault: sim.Fault{Cut: true}})
		a.let("1", "n")
		faketime.Pass(20 * time.Second)
		require.True(t, short().done)
		requireUnavailable(t, short().err)
		require.Equal(t, 20*time.Second, short().at)
		f.heal()
		faketime.Pass(2 * time.Second)
		require.True(t, long().granted)
	})
}

func TestSlowServerIsCarriedForInTheBackgroundAndBack(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		s.r.SetGate(sim.Latency(2 * quickBudget))
		n.get("1", write("n"))
		require.True(t, n.isSlow())
		n.let("1", "n")
		require.True(t, n.isSlow())
		s.r.SetGate(sim.Latency(moment))
		n.recover()
		require.False(t, n.isSlow())
		n.get("2", write("n"))
	})
}

// A machine short of time takes longer for an exchange than one attempt may take. With
// as little time for each it would be given up each time, until the lease is lost.
func TestExchangeTooSlowForOneAttemptIsGivenMoreTime(t *testing.T) {
	const lease = time.Second
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node(func(c *Config) { c.Lease = lease })
		s.r.SetGate(sim.Latency(lease / 8)) // each way: a quarter in all, and an attempt has a sixth
		granted := n.get("1", write("n"))
		before := n.Statistics().Failures
		var seen int64
		for range 5 {
			began := time.Now()
			r, lost := n.renewNow("1", granted.RunID, seen, "n")
			require.Empty(t, lost)
			require.Less(t, time.Since(began), lease*6/10)
			seen = r.Renewals
			faketime.Pass(lease / 5)
		}
		require.Equal(t, before, n.Statistics().Failures, "no attempt was given up any more")
	})
}

func (n *testNode) isSlow() bool {
	n.Lane.mu.Lock()
	defer n.Lane.mu.Unlock()
	return n.slow
}
