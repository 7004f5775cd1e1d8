package lockrules

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// The scripts restarts*.txt tell the stories; this is the arithmetic, branch by
// branch, with a lease of 10 s at 1000 s.
func TestHoldOffBranchByBranch(t *testing.T) {
	t.Parallel()
	const now, ten, long = Millis(1_000_000), Millis(10_000), 5000
	extra := map[string]json.RawMessage{"new": json.RawMessage(`1`)}
	old := func(since, lease Millis) *Server {
		return &Server{V: Version, RunID: "a", Since: since, LeaseMillis: lease, Extra: extra}
	}
	is := func(run string, since, lease Millis, extra map[string]json.RawMessage) *Server {
		return &Server{V: Version, RunID: run, Since: since, LeaseMillis: lease, Extra: extra}
	}
	for _, c := range []struct {
		name       string
		remembered *Server
		known      bool
		run        string
		uptime     int64
		want       Standing
	}{
		{"first use, up for long", nil, false, "a", long, Standing{now, NoHoldOff, is("a", now-5000_000, ten, nil)}},
		{"first use, just up", nil, false, "a", 0, Standing{now + 11_000, JustStarted, is("a", now, ten, nil)}},
		{"first use, up for the lease", nil, false, "a", 10, Standing{now + 1000, JustStarted, is("a", now-10_000, ten, nil)}},
		{"first use, up for the lease and a second", nil, false, "a", 11, Standing{now, NoHoldOff, is("a", now-11_000, ten, nil)}},
		{"first use, negative uptime", nil, false, "a", -3, Standing{now + 11_000, JustStarted, is("a", now, ten, nil)}},
		{"data lost", nil, true, "a", long, Standing{now + ten, DataLost, is("a", now, ten, nil)}},
		{"data lost and just up", nil, true, "b", 1, Standing{now + ten, DataLost, is("b", now, ten, nil)}},
		{"data lost this very second", nil, true, "b", 0, Standing{now + 11_000, DataLost, is("b", now, ten, nil)}},
		{"same server", old(0, ten), true, "a", long, Standing{now, NoHoldOff, nil}},
		{"same server, smaller lease than remembered", old(0, 30_000), true, "a", long, Standing{now, NoHoldOff, nil}},
		{"same server, larger lease", old(0, 5_000), true, "a", long, Standing{now, NoHoldOff, is("a", 0, ten, extra)}},
		{"larger lease during a hold-off", old(now-1000, 5_000), true, "a", long, Standing{now + 9_000, OtherServer, is("a", now-1000, ten, extra)}},
		{"the largest lease counts for uptime", old(0, 30_000), true, "a", 15, Standing{now + 16_000, JustStarted, nil}},
		{"hold-off goes on", old(now-4_000, ten), false, "a", long, Standing{now + 6_000, OtherServer, nil}},
		{"hold-off ends in a millisecond", old(now-9_999, ten), true, "a", long, Standing{now + 1, OtherServer, nil}},
		{"hold-off has ended", old(now-ten, ten), true, "a", long, Standing{now, NoHoldOff, nil}},
		{"noticed in the future", old(now+50_000, ten), true, "a", long, Standing{now + ten, OtherServer, is("a", now, ten, extra)}},
		{"same server, uptime negative", old(0, ten), true, "a", -1, Standing{now + 11_000, JustStarted, nil}},
		{"another server", old(0, ten), true, "b", long, Standing{now + ten, OtherServer, is("b", now, ten, extra)}},
		{"another server, its leases were larger", old(0, 30_000), true, "b", long, Standing{now + 30_000, OtherServer, is("b", now, 30_000, extra)}},
		{"restart", old(0, ten), true, "b", 0, Standing{now + 11_000, OtherServer, is("b", now, ten, extra)}},
		{"restart, uptime negative", old(0, 30_000), false, "b", -9, Standing{now + 31_000, OtherServer, is("b", now, 30_000, extra)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, CheckServer(c.remembered, c.known, Sighting{RunID: c.run, Uptime: c.uptime}, ten, now))
		})
	}
}

// TestHoldOffIsOverWhenItSaid: looked at again at its end, by anybody, and
// until then never granted.
func TestHoldOffIsOverWhenItSaid(t *testing.T) {
	t.Parallel()
	const lease = Millis(3_000)
	began := Millis(1_000_000)
	first := CheckServer(&Server{RunID: "a", LeaseMillis: lease}, true, Sighting{RunID: "b", Uptime: 100}, lease, began)
	for at := began; at < first.Until; at += 100 {
		up := 100 + int64(at-began)/1000
		require.Greater(t, CheckServer(first.Write, true, Sighting{RunID: "b", Uptime: up}, lease, at).Until, at)
	}
	require.Equal(t, Standing{Until: first.Until}, CheckServer(first.Write, true, Sighting{RunID: "b", Uptime: 103}, lease, first.Until))
}

func TestHoldOffsHaveWords(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, h := range []HoldOff{NoHoldOff, JustStarted, OtherServer, DataLost} {
		require.NotEmpty(t, h.String())
		seen[h.String()] = true
	}
	require.Len(t, seen, 4)
}
