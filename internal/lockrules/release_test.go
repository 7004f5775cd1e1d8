package lockrules

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReleaseNeverTouchesAnothersLock (J40): everything of the others is as it
// was, to the last field.
func TestReleaseNeverTouchesAnothersLock(t *testing.T) {
	t.Parallel()
	extra := map[string]json.RawMessage{"new": json.RawMessage(`1`)}
	rec := record(held("r1", "n1"), held("r2", "n2"), Holding{ID: "gone", ReleasedAt: ptr(start), Outcome: ptr(Panic), Extra: extra})
	rec.WriteOwner = ptr(Holding{ID: "lapsed", ExpiresAt: ptr(start), LeaseMillis: lease})
	rec.Waiting, rec.Extra = []Mark{waits("n3", true)}, extra
	before := deepCopy([]Record{rec})[0]

	after, met, opened := ReleaseOne(rec, Release{ID: "r1", Outcome: Error, Error: "boom"}, start+1)
	require.Equal(t, Done, met)
	require.True(t, opened)
	require.Equal(t, before, rec, "the record passed in is as it was")
	want := held("r1", "n1")
	want.ExpiresAt, want.ReleasedAt, want.Outcome, want.Error = nil, ptr(start+1), ptr(Error), "boom"
	require.ElementsMatch(t, []Holding{want, before.ReadOwners[1], before.ReadOwners[2]}, after.ReadOwners)
	after.ReadOwners, after.UpdatedAt = before.ReadOwners, before.UpdatedAt
	require.Equal(t, before, after)
}

func TestReleaseOfWhatIsNotHeldChangesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id  string
		met Released
	}{"unknown": {"nobody", Missing}, "lapsed": {"late", Lapsed}, "released": {"gone", Done}} {
		for _, outcome := range []Outcome{OK, LostIt, Undone} {
			rec := record(held("r", "n1"), Holding{ID: "late", ExpiresAt: ptr(start), LeaseMillis: lease}, Holding{ID: "gone", ReleasedAt: ptr(start)})
			before := deepCopy([]Record{rec})[0]
			after, met, opened := ReleaseOne(rec, Release{ID: c.id, Outcome: outcome, HoldFor: lease}, start)
			require.Equal(t, c.met, met, name)
			require.False(t, opened, name)
			require.Equal(t, before, after, name)
		}
	}
}

// TestUndoneGrantLeavesNoTrace: neither in the audit nor as a success.
func TestUndoneGrantLeavesNoTrace(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Read, Write} {
		req := asks("a", "n1", mode)
		req.Keep = true
		d := Acquire([]Record{record(held("r", "n2"))}, asks("b", "n1", Read), instant(start), nil)
		d = Acquire([]Record{d.Records[0]}, req, instant(start+lease), nil)
		require.True(t, d.Granted)
		after, met, opened := ReleaseOne(d.Records[0], Release{ID: "a", Outcome: Undone}, start+lease+1)
		require.Equal(t, Done, met)
		require.True(t, opened)
		_, _, found := after.Find("a")
		require.False(t, found)
		require.Len(t, after.ReadOwners, 2)
		require.Nil(t, after.WriteOwner)
		require.Nil(t, after.LastSuccess)
	}
}

// TestRenewalIsAllOrNothing (S10): whatever is wrong with one of three records,
// nothing comes back of any.
func TestRenewalIsAllOrNothing(t *testing.T) {
	t.Parallel()
	req := Request{Asker: Asker{ID: "a"}, Wants: []Want{{"x", Read}, {"y", Write}, {"z", Read}}, LeaseMillis: lease}
	fresh := func() []Record {
		return Acquire([]Record{Empty("x"), Empty("y"), Empty("z")}, req, instant(start), nil).Records
	}
	_, ok := Renew(fresh(), Renewal{ID: "a", LeaseMillis: lease}, start+lease-1)
	require.True(t, ok, "at the last moment")
	for name, spoil := range map[string]func(*Record){
		"missing":         func(r *Record) { *r = Empty(r.LockName) },
		"another's":       func(r *Record) { r.WriteOwner, r.ReadOwners = ptr(held("b", "n2")), nil },
		"released":        func(r *Record) { *r, _, _ = ReleaseOne(*r, Release{ID: "a"}, start) },
		"held on":         func(r *Record) { *r, _, _ = ReleaseOne(*r, Release{ID: "a", Outcome: OK, HoldFor: 50}, start) },
		"from a snapshot": func(r *Record) { older(r) },
		"lapsed":          func(r *Record) { expire(r) },
	} {
		for i := range 3 {
			recs, ok := Renew(fresh(), Renewal{ID: "a", LeaseMillis: lease}, start)
			require.True(t, ok)
			spoil(&recs[i])
			before := deepCopy(recs)
			after, ok := Renew(recs, Renewal{ID: "a", LeaseMillis: lease, Seen: 1}, start+1)
			require.False(t, ok, "%s in %d", name, i)
			require.Nil(t, after)
			require.Equal(t, before, recs)
		}
	}
}

func older(r *Record) {
	h, _ := r.find("a")
	h.Renewals = 0
}

func expire(r *Record) {
	h, _ := r.find("a")
	h.ExpiresAt = ptr(start + 1)
}

// TestRenewalNeverShortens: nor does one with a shorter lease.
func TestRenewalNeverShortens(t *testing.T) {
	t.Parallel()
	recs := Acquire([]Record{Empty("x")}, asks("a", "n1", Write), instant(start), nil).Records
	after, ok := Renew(recs, Renewal{ID: "a", LeaseMillis: 10}, start+1)
	require.True(t, ok)
	require.Equal(t, start+lease, *after[0].WriteOwner.ExpiresAt)
	require.Equal(t, lease, after[0].WriteOwner.LeaseMillis, "or its end would look like one from the future")
	_, changed := Settle(after[0], start+1)
	require.False(t, changed)
}
