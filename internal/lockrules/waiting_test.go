package lockrules

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMarkIsRefreshedOnlyAfterAThirdOfItsTime: a thousand looks at a parked
// waiter must not be a thousand writes.
func TestMarkIsRefreshedOnlyAfterAThirdOfItsTime(t *testing.T) {
	t.Parallel()
	rec, changed, opened := SetMark(Empty("x"), "n1", Waiters{SomeWrites, start}, start, lasts)
	require.True(t, changed)
	require.False(t, opened)
	require.Equal(t, []Mark{{Node: "n1", Write: true, Since: start, Until: start + lasts, LastsMillis: lasts}}, rec.Waiting)

	for at := start; at < start+lasts/3; at++ {
		same, changed, opened := SetMark(rec, "n1", Waiters{SomeWrites, start}, at, lasts)
		require.False(t, changed, "at %d", at)
		require.False(t, opened)
		require.Equal(t, rec, same)
	}
	at := start + lasts/3
	after, changed, opened := SetMark(rec, "n1", Waiters{SomeWrites, start}, at, lasts)
	require.True(t, changed)
	require.False(t, opened)
	require.Equal(t, []Mark{{Node: "n1", Write: true, Since: start, Until: at + lasts, LastsMillis: lasts}}, after.Waiting)
	require.Equal(t, start+lasts, rec.Waiting[0].Until, "the record passed in is as it was")
}

func TestMarkThatSaysSomethingElseIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		old, new        Waits
		changed, opened bool
	}{
		{"nobody came", Nobody, Nobody, false, false},
		{"a reader came", Nobody, SomeRead, true, false},
		{"a writer came", Nobody, SomeWrites, true, false},
		{"a writer came to the readers", SomeRead, SomeWrites, true, false},
		{"the readers left", SomeRead, Nobody, true, false},
		{"the readers still wait", SomeRead, SomeRead, false, false},
		{"the writer left, readers still wait", SomeWrites, SomeRead, true, true},
		{"all left", SomeWrites, Nobody, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rec, _, _ := SetMark(Empty("x"), "n2", Waiters{SomeRead, start}, start, lasts)
			rec, _, _ = SetMark(rec, "n1", Waiters{c.old, start}, start, lasts)
			after, changed, opened := SetMark(rec, "n1", Waiters{c.new, start}, start+1, lasts)
			require.Equal(t, c.changed, changed)
			require.Equal(t, c.opened, opened)
			require.Equal(t, waits("n2", false), after.Waiting[0], "another node's mark is not touched")
			if c.new == Nobody {
				require.Len(t, after.Waiting, 1)
				return
			}
			require.Len(t, after.Waiting, 2)
			require.Equal(t, c.new == SomeWrites, after.Waiting[1].Write)
		})
	}
}

func TestLapsedMarksAreDroppedWithTheNextWrite(t *testing.T) {
	t.Parallel()
	rec, _, _ := SetMark(Empty("x"), "dead", Waiters{SomeWrites, start}, start, lasts)
	rec, changed, _ := SetMark(rec, "n1", Waiters{SomeRead, start}, start+lasts, lasts)
	require.True(t, changed)
	require.Len(t, rec.Waiting, 1)
	require.Equal(t, "n1", rec.Waiting[0].Node)
}

// TestMarkBlocksNobodyOnceItHasLapsed looks at both sides of the moment.
func TestMarkBlocksNobodyOnceItHasLapsed(t *testing.T) {
	t.Parallel()
	rec, _, _ := SetMark(Empty("x"), "dead", Waiters{SomeWrites, start}, start, lasts)
	ask := asks("r", "n1", Read)
	d := Acquire([]Record{rec}, ask, instant(start+lasts)-1, nil)
	require.False(t, d.Granted)
	require.Equal(t, start+lasts, d.RetryAt)
	require.True(t, Acquire([]Record{rec}, ask, instant(d.RetryAt), nil).Granted)
}

// TestWakeNamesJustTheNodesThatGain: too few is a waiter that sleeps until its
// poll (J1, J15, J16), too many is a transaction for nothing (R3).
func TestWakeNamesJustTheNodesThatGain(t *testing.T) {
	t.Parallel()
	released := func(h Holding) Holding { h.ReleasedAt = ptr(start); return h }
	readers, writers := []Mark{waits("n1", false), waits("n2", false)}, []Mark{waits("n1", true), waits("n2", true)}
	for _, c := range []struct {
		name    string
		write   *Holding
		reads   []Holding
		waiting []Mark
		want    []string
	}{
		{"free, readers wait", nil, nil, readers, []string{"n1", "n2"}},
		{"free, writers wait", nil, nil, writers, []string{"n1", "n2"}},
		{"free, a reader waits, and for longer a writer", nil, nil, []Mark{waits("n1", false), elder(waits("n2", true))}, []string{"n2"}},
		{"free, a writer waits, and for no less a reader", nil, nil, []Mark{waits("n1", false), waits("n2", true)}, []string{"n1", "n2"}},
		{"read, a writer waits, and for longer a reader", nil, []Holding{held("r", "n3")}, []Mark{elder(waits("n1", false)), waits("n2", true)}, []string{"n1"}},
		{"written, a writer waits, and for longer a reader", ptr(held("w", "n3")), nil, []Mark{elder(waits("n1", false)), waits("n2", true)}, nil},
		{"read, readers wait", nil, []Holding{held("r", "n3")}, readers, []string{"n1", "n2"}},
		{"read, writers wait", nil, []Holding{held("r", "n3")}, writers, nil},
		{"written, readers wait", ptr(held("w", "n3")), nil, readers, nil},
		{"written, writers wait", ptr(held("w", "n3")), nil, writers, nil},
		{"written by a node that waits: another chain of it waits", ptr(held("w", "n1")), nil, readers, nil},
		{"read by a node that waits to write: an upgrade may be next", nil, []Holding{held("r", "n1")}, writers, []string{"n1"}},
		{"read by both nodes that wait to write", nil, []Holding{held("r", "n1"), held("q", "n2")}, writers, nil},
		{"upgrade, beside another node's waiting reader", nil, []Holding{held("r", "n1")}, []Mark{elder(waits("n1", true)), waits("n2", false)}, []string{"n1"}},
		{"released but held on: all may learn the new end", ptr(released(held("w", "n3"))), nil, writers, []string{"n1", "n2"}},
		{"the writer's mark has lapsed", nil, nil, []Mark{waits("n1", false), {Node: "n2", Write: true, Until: start, LastsMillis: lasts}}, []string{"n1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rec := record(c.reads...)
			rec.WriteOwner, rec.Waiting = c.write, c.waiting
			require.Equal(t, c.want, Wake(rec, "n3", start))
			var others []string
			for _, n := range c.want {
				if n != "n1" {
					others = append(others, n)
				}
			}
			require.Equal(t, others, Wake(rec, "n1", start), "never itself")
		})
	}
}

func TestNextLapseIsTheFirstOfWhatKeepsOthersOut(t *testing.T) {
	t.Parallel()
	rec := record(held("r", "n1"))
	rec.ReadOwners[0].ExpiresAt = ptr(start + 7)
	rec.WriteOwner = ptr(held("w", "n1"))
	rec.Waiting = []Mark{waits("n2", false), waits("n3", true)}
	require.Equal(t, start+7, NextLapse(rec, start))
	require.Equal(t, start+lasts, NextLapse(rec, start+7), "a mark that waits to write; the other keeps nobody out")
	require.Equal(t, start+lease, NextLapse(rec, start+lasts))
	require.Zero(t, NextLapse(rec, start+lease))
}
