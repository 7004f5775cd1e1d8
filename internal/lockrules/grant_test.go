package lockrules

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRetryAtIsTheMillisecondItMayBeGranted: not one before, if nobody lets go,
// and then for sure (J6). Several things are in the way, of different lengths.
func TestRetryAtIsTheMillisecondItMayBeGranted(t *testing.T) {
	t.Parallel()
	x, y, z := record(held("r1", "n1"), held("r2", "n2")), Empty("y"), Empty("z")
	x.ReadOwners[1].ExpiresAt = ptr(start + 40)
	y.WriteOwner = ptr(held("w", "n1"))
	y.WriteOwner.ExpiresAt = ptr(start + 20)
	z.Waiting = []Mark{waits("n2", true)}
	z.Waiting[0].Until, z.Waiting[0].LastsMillis = start+70, 100
	for _, c := range []struct {
		name  string
		wants []Want
		at    Millis
		why   int
	}{
		{"write among readers", []Want{{"x", Write}}, start + 60, 2},
		{"read under a writer", []Want{{"y", Read}}, start + 20, 1},
		{"read behind a waiting writer", []Want{{"z", Read}}, start + 70, 1},
		{"all of it", []Want{{"x", Write}, {"y", Write}, {"z", Read}}, start + 70, 4},
		{"two of it", []Want{{"y", Write}, {"x", Write}, {"z", Write}}, start + 60, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			recs := map[string]Record{"x": x, "y": y, "z": z}
			var in []Record
			for _, w := range c.wants {
				in = append(in, recs[w.Name])
			}
			req := Request{Asker: Asker{ID: "me", Node: "n9"}, Wants: c.wants, LeaseMillis: lease}
			d := Acquire(in, req, instant(start), nil)
			require.Equal(t, c.at, d.RetryAt)
			require.Len(t, d.Blockers, c.why)
			for at := start; at < d.RetryAt; at++ {
				require.False(t, Acquire(in, req, instant(at)+999, nil).Granted, "at %d", at)
			}
			require.True(t, Acquire(in, req, instant(d.RetryAt), nil).Granted)
		})
	}
}

func TestBlockersTellWhoAndSinceWhen(t *testing.T) {
	t.Parallel()
	rec := record(held("r", "n1"))
	rec.Waiting = []Mark{waits("n2", true)}
	d := Acquire([]Record{rec}, asks("me", "n3", Write), instant(start+1), nil)
	require.Equal(t, []Blocker{{Name: "x", Reason: Held, Mode: Read, ID: "r", Owner: "owner-r", Node: "n1", Since: start, Until: start + lease}}, d.Blockers)
	d = Acquire([]Record{rec}, asks("me", "n3", Read), instant(start+1), nil)
	require.Equal(t, []Blocker{{Name: "x", Reason: WriterWaits, Mode: Write, Node: "n2", Since: start, Until: start + lasts}}, d.Blockers)
	require.Nil(t, d.Records, "a refused request writes nothing")
	require.Zero(t, d.Token)
}

// TestTokenIsHigherThanEveryTokenOfItsRecords (B4): also if Redis' clock is
// behind what the records have seen.
func TestTokenIsHigherThanEveryTokenOfItsRecords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ x, y, want int64 }{
		"the clock is ahead":     {5, 7, int64(instant(start))},
		"one record is ahead":    {5, int64(instant(start)) + 100, int64(instant(start)) + 101},
		"the other is ahead":     {int64(instant(start)) + 100, 5, int64(instant(start)) + 101},
		"it was minted just now": {int64(instant(start)), int64(instant(start)), int64(instant(start)) + 1},
		"far in the future":      {math.MaxInt64 - 1, 0, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, y := Empty("x"), Empty("y")
			x.FencingToken, y.FencingToken = c.x, c.y
			req := Request{Asker: Asker{ID: "me"}, Wants: []Want{{"x", Read}, {"y", Write}}, LeaseMillis: lease}
			d := Acquire([]Record{x, y}, req, instant(start), nil)
			require.Equal(t, c.want, d.Token)
			for _, rec := range d.Records {
				require.Equal(t, c.want, rec.FencingToken)
				h, _, ok := rec.Find("me")
				require.True(t, ok)
				require.Equal(t, c.want, h.FencingToken)
			}
		})
	}
}

// TestUpgradeHasANewerTokenThanItsRead, and reuse has none of its own.
func TestUpgradeHasANewerTokenThanItsRead(t *testing.T) {
	t.Parallel()
	read := Acquire([]Record{Empty("x")}, asks("outer", "n1", Read), instant(start), nil)
	write := Acquire(read.Records, asks("inner", "n1", Write, "outer"), instant(start), nil)
	require.True(t, write.Granted)
	require.Greater(t, write.Token, read.Token)
	outer, _, _ := write.Records[0].Find("outer")
	require.Equal(t, read.Token, outer.FencingToken)

	reuse := Acquire(write.Records, asks("innermost", "n1", Write, "outer", "inner"), instant(start+1), nil)
	require.True(t, reuse.Granted)
	require.Equal(t, write.Records, reuse.Records, "the chain's own holding must not be overwritten")
}

// TestAcquireThatRunsAgainNeverShortensItsLease, and keeps what it had.
func TestAcquireThatRunsAgainNeverShortensItsLease(t *testing.T) {
	t.Parallel()
	first := Acquire([]Record{Empty("x")}, asks("a", "n1", Write), instant(start), nil)
	renewed, ok := Renew(first.Records, Renewal{ID: "a", LeaseMillis: 2 * lease}, start)
	require.True(t, ok)
	again := Acquire(renewed, asks("a", "n1", Write), instant(start+5), nil)
	require.True(t, again.Granted)
	require.Equal(t, first.Token, again.Token)
	h, _, _ := again.Records[0].Find("a")
	require.Equal(t, start+2*lease, *h.ExpiresAt)
	require.Equal(t, start, h.AcquiredAt)
	require.Equal(t, int64(1), h.Renewals)
	require.LessOrEqual(t, again.ExpiresAt, *h.ExpiresAt, "the holder trusts no longer than the record")
}
