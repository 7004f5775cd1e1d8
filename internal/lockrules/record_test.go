package lockrules

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEmptyRecordIsFreeAndSpellsItsListsOut(t *testing.T) {
	t.Parallel()
	rec := Empty("x")
	require.Equal(t, Record{V: Version, LockName: "x", ReadOwners: []Holding{}, Waiting: []Mark{}}, rec)
	require.False(t, HeldByAnybody(rec, 0))
	settled, changed := Settle(rec, start)
	require.False(t, changed)
	require.Equal(t, rec, settled)
}

// TestRedisKeepsARecordUntilItsLastLeaseHasEnded (J58): a holder with a short
// lease must not cut the lease of one with a long one.
func TestRedisKeepsARecordUntilItsLastLeaseHasEnded(t *testing.T) {
	t.Parallel()
	const after = 30
	require.Equal(t, Millis(after), Lasts(Empty("x"), start, after), "nobody: the audit only")

	long, short := held("long", "n1"), held("short", "n2")
	short.ExpiresAt = ptr(start + 10)
	for _, order := range [][]Holding{{long, short}, {short, long}} {
		require.Equal(t, lease+after, Lasts(record(order...), start, after))
		require.Equal(t, lease-20+after, Lasts(record(order...), start+20, after))
		require.Equal(t, Millis(after), Lasts(record(order...), start+lease+5, after), "never less than the audit")
	}
	rec := record(short)
	rec.Waiting = []Mark{waits("n3", false)}
	require.Equal(t, lasts+after, Lasts(rec, start, after), "a mark may be the last")
	rec.WriteOwner = ptr(long)
	require.Equal(t, lease+after, Lasts(rec, start, after))
	require.Equal(t, lease+after, Lasts(rec, start-1000, after), "a clock that went back doesn't keep it longer")
	rec.KeepLockData = true
	require.Zero(t, Lasts(rec, start, after), "kept: for ever")
}

// TestExpiryFromTheFutureEndsWithinOneLease: the clock went back by a day.
func TestExpiryFromTheFutureEndsWithinOneLease(t *testing.T) {
	t.Parallel()
	const now = start - 500
	for name, set := range map[string]func(*Record){
		"writer": func(r *Record) { r.WriteOwner = ptr(held("w", "n1")) },
		"reader": func(r *Record) { r.ReadOwners = append(r.ReadOwners, held("r", "n1")) },
		"mark":   func(r *Record) { r.Waiting = append(r.Waiting, waits("n2", true)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := Empty("x")
			set(&rec)
			before := deepCopy([]Record{rec})[0]
			settled, changed := Settle(rec, now)
			require.True(t, changed)
			require.Equal(t, before, rec, "the record passed in is as it was")
			require.Equal(t, now, settled.UpdatedAt)
			again, changed := Settle(settled, now)
			require.False(t, changed, "once is enough")
			require.Equal(t, settled, again)
			require.Equal(t, lease+30, Lasts(settled, now, 30)+map[string]Millis{"mark": lease - lasts}[name])
			end := NextLapse(settled, now)
			require.Equal(t, end, NextLapse(settled, end-1), "judged later, it doesn't move on")
			require.True(t, Acquire([]Record{settled}, asks("a", "n9", Read), instant(end), nil).Granted)
		})
	}
}

func TestSettleLeavesAloneWhatEndsWithinItsLease(t *testing.T) {
	t.Parallel()
	rec := record(held("r", "n1"), Holding{ID: "gone", ReleasedAt: ptr(start)})
	rec.WriteOwner, rec.Waiting = ptr(held("w", "n1")), []Mark{waits("n2", true)}
	for _, at := range []Millis{start, start + 1, start + lease, start + 10*lease} {
		settled, changed := Settle(rec, at)
		require.False(t, changed, "at %d", at)
		require.Equal(t, rec, settled)
	}
}

// previousCases: how many previous readers are remembered.
var previousCases = map[bool]int{true: MaxPrevious, false: FewPrevious}

// TestLiveReadersAreNeverCapped: the limit is for those who have left.
func TestLiveReadersAreNeverCapped(t *testing.T) {
	t.Parallel()
	const readers = 3 * MaxPrevious
	for keep, most := range previousCases {
		recs := []Record{Empty("x")}
		for i := range readers {
			req := asks(fmt.Sprintf("r%02d", i), "n1", Read)
			req.Keep = keep
			recs = Acquire(recs, req, instant(start), nil).Records
		}
		require.Len(t, recs[0].ReadOwners, readers)
		for i := range readers {
			id := fmt.Sprintf("r%02d", i)
			after, met, _ := ReleaseOne(recs[0], Release{ID: id, Outcome: OK}, start+1)
			require.Equal(t, Done, met)
			require.Len(t, after.ReadOwners, readers-max(0, i+1-most))
			again, met, _ := ReleaseOne(after, Release{ID: id, Outcome: OK}, start+1)
			require.Equal(t, Done, met, "the reply was lost: the release that runs again finds itself")
			require.Equal(t, after, again)
			recs[0] = after
		}
	}
}

func TestReadersThatDiedAreCappedToo(t *testing.T) {
	t.Parallel()
	for keep, most := range previousCases {
		recs := []Record{Empty("x")}
		now := start
		for i := range 3 * MaxPrevious {
			req := asks(fmt.Sprintf("r%02d", i), "n1", Read)
			req.Keep = keep
			recs = Acquire(recs, req, instant(now), nil).Records
			now += lease
		}
		require.Len(t, recs[0].ReadOwners, most+1)
		require.Equal(t, "r47", recs[0].ReadOwners[most].ID)
	}
}

func TestFindGivesTheModeAndACopy(t *testing.T) {
	t.Parallel()
	rec := record(held("r", "n1"))
	rec.WriteOwner = ptr(held("w", "n1"))
	for id, want := range map[string]Mode{"r": Read, "w": Write} {
		h, mode, ok := rec.Find(id)
		require.True(t, ok)
		require.Equal(t, want, mode)
		h.Owner = "changed"
	}
	require.Equal(t, "owner-r", rec.ReadOwners[0].Owner)
	require.Equal(t, "owner-w", rec.WriteOwner.Owner)
	_, _, ok := rec.Find("nobody")
	require.False(t, ok)
	require.Equal(t, []string{"read", "write"}, []string{Read.String(), Write.String()})
}
