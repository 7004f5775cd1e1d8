package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/faketime"
)

func TestRestartKeepsWhatItIsTold(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		r.Put(keyA, []byte("1"), 0)
		old := r.Snapshot()
		r.Put(keyA, []byte("2"), 0)
		p := r.Port()
		first := watch(t, p, keyA)

		r.Restart(Everything)
		_, _, err := p.Exchange(within(t, time.Minute), set(keyA, "3"), []string{keyA})
		requireConnError(t, err, true)
		second := watch(t, p, keyA)
		require.NotEqual(t, first.RunID, second.RunID)
		require.Zero(t, second.Uptime)
		require.Equal(t, "2", string(second.Values[0].Data))

		r.Restart(old)
		requireValue(t, r, keyA, "1")
		r.Put(keyA, []byte("4"), 0)
		r.Restart(old)
		requireValue(t, r, keyA, "1")
		r.Restart(Nothing)
		require.Empty(t, r.Keys())
		facts := r.Facts()
		require.Equal(t, []int{1, 2, 1}, []int{facts[StartedFull], facts[StartedOld], facts[StartedEmpty]})
	})
}

func TestRestoredKeyExpiresWhenItWouldHave(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		r.Put(keyA, []byte("1"), time.Minute)
		old := r.Snapshot()
		r.StepClock(2 * time.Minute)
		r.Restart(old)
		require.Empty(t, r.Keys())
	})
}

func TestCrashedServerRefusesUntilItStarts(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		watch(t, p, keyA)
		r.Crash()
		_, _, err := p.Exchange(within(t, time.Minute), nil, []string{keyA})
		requireConnError(t, err, true)
		_, _, err = p.Exchange(within(t, time.Minute), nil, []string{keyA})
		requireConnError(t, err, false)
		r.Start(Nothing)
		watch(t, p, keyA)
	})
}

func TestFailoverIsAnotherServerThatIsUpForLong(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		r.Put(keyA, []byte("1"), 0)
		replicated := r.Snapshot()
		r.Put(keyA, []byte("2"), 0)
		p := r.Port()
		before := watch(t, p, keyA)
		r.Failover(replicated)
		_, _, err := p.Exchange(within(t, time.Minute), nil, []string{keyA})
		requireConnError(t, err, true)
		after := watch(t, p, keyA)
		require.NotEqual(t, before.RunID, after.RunID)
		require.GreaterOrEqual(t, after.Uptime, before.Uptime)
		require.Equal(t, "1", string(after.Values[0].Data))
	})
}

func TestUptimeIsWallClockArithmetic(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		r.SetUptime(90 * time.Second)
		require.EqualValues(t, 90, watch(t, p, keyA).Uptime)
		r.StepClock(-200 * time.Second)
		require.EqualValues(t, 90, watch(t, p, keyA).Uptime, "what INFO said counts for a while")
		faketime.Pass(identityLasts)
		before := watch(t, p, keyA)
		require.EqualValues(t, -109, before.Uptime)
		faketime.Pass(time.Second)
		after := watch(t, p, keyA)
		require.Equal(t, time.Second.Microseconds(), after.Micros-before.Micros)
	})
}

func TestRefusalsAreThoseOfARealServer(t *testing.T) {
	t.Parallel()
	cases := []struct {
		kind      exchange.Kind
		set, read string // the command that is refused, "" if none
		del       bool   // a commit of a delete only is refused, too
	}{
		{exchange.OOM, "SET", "", false},
		{exchange.ReadOnly, "SET", "", true},
		{exchange.Misconf, "SET", "", true},
		{exchange.NoReplicas, "SET", "", true},
		{exchange.Loading, "SET", "GET", true},
		{exchange.Busy, "SET", "GET", true},
		{exchange.NoAuth, "MULTI", "WATCH", true},
	}
	for _, c := range cases {
		t.Run(c.kind.String(), func(t *testing.T) {
			both(t, func(t *testing.T, r *Redis) {
				r.Put(keyB, []byte("v"), 0)
				p := r.Port()
				watch(t, p, keyA)
				r.Refuse(c.kind)
				committed, _, err := p.Exchange(within(t, time.Minute), set(keyA, "v"), []string{keyA})
				require.False(t, committed)
				requireRefused(t, err, c.set, c.kind)
				_, _, err = p.Exchange(within(t, time.Minute), nil, []string{keyA})
				if c.read == "" {
					require.NoError(t, err)
				} else {
					requireRefused(t, err, c.read, c.kind)
					return
				}
				committed, _, err = p.Exchange(within(t, time.Minute), &exchange.Writes{Deletes: []string{keyB}}, nil)
				require.Equal(t, !c.del, committed)
				require.Equal(t, c.del, err != nil)
			})
		})
	}
}

func requireRefused(t *testing.T, err error, command string, kind exchange.Kind) {
	t.Helper()
	var refused *exchange.ServerError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, command, refused.Command)
	require.Equal(t, kind, refused.Kind)
	require.True(t, refused.NothingApplied())
}

func TestFullServerRefusesConnectionsButKeepsThoseItHas(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		watch(t, p, keyA)
		r.Refuse(exchange.MaxClients)
		_, _, err := r.Port().Exchange(within(t, time.Minute), nil, []string{keyA})
		requireRefused(t, err, dial, exchange.MaxClients)
		require.True(t, commit(t, p, set(keyA, "v")))
	})
}

func TestReadThatFailsAfterACommitSaysThatItMayBeApplied(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		watch(t, p, keyA)
		r.Refuse(exchange.NoPerm, "GET")
		committed, _, err := p.Exchange(within(t, time.Minute), set(keyA, "v"), []string{keyA})
		require.True(t, committed)
		var refused *exchange.ServerError
		require.ErrorAs(t, err, &refused)
		require.False(t, refused.NothingApplied())
		requireValue(t, r, keyA, "v")
	})
}

func TestRightThatGoesBetweenQueueAndExecLeavesAPart(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		r.SetGate(at(Request, 1, Fault{Revoke: "DEL"}))
		r.Put(keyB, []byte("v"), 0)
		p := r.Port()
		watch(t, p, keyA, keyB)
		w := set(keyA, "v")
		w.Deletes = []string{keyB}
		committed, _, err := p.Exchange(within(t, time.Minute), w, nil)
		require.False(t, committed)
		var refused *exchange.ServerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, exchange.Partly, refused.Applied)
		require.Equal(t, []string{keyA, keyB}, r.Keys())
	})
}

func TestWithoutMultiTheRestRunsUnguarded(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		watch(t, p, keyA)
		r.Put(keyA, []byte("somebody's"), 0)
		r.Refuse(exchange.NoPerm, "MULTI")
		_, _, err := p.Exchange(within(t, time.Minute), set(keyA, "v"), nil)
		var refused *exchange.ServerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, exchange.Partly, refused.Applied)
		requireValue(t, r, keyA, "v")
	})
}

func TestRefusalOfOneExchangeOnly(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		r.SetGate(at(Request, 1, Fault{Refuse: []Refusal{{Kind: exchange.OOM}}}))
		p := r.Port()
		watch(t, p, keyA)
		_, _, err := p.Exchange(within(t, time.Minute), set(keyA, "v"), nil)
		requireRefused(t, err, "SET", exchange.OOM)
		watch(t, p, keyA)
		require.True(t, commit(t, p, set(keyA, "v")))
	})
}

func TestLogHasWhatWasAppliedInOrder(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		r.Log()
		p, q := r.PortOf("p"), r.PortOf("q")
		watch(t, p, keyA)
		watch(t, q, keyA)
		require.True(t, commit(t, p, set(keyA, "1")))
		require.False(t, commit(t, q, set(keyA, "2")))
		log := r.TakeLog()
		require.Len(t, log, 1)
		require.Equal(t, "p", log[0].Node)
		require.Equal(t, 2, log[0].Number)
		require.Equal(t, *set(keyA, "1"), log[0].Writes)
		require.Empty(t, r.TakeLog())
	})
}
