package lockrules

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const patient = StarvesAfter

// nobody has had a turn.
func nobodyHad(Mark) bool { return false }

// TestWhoGoesFirst looks at both sides of each line: who stands back too soon
// costs a message and an idle moment, who does too late starves others.
func TestWhoGoesFirst(t *testing.T) {
	t.Parallel()
	old := func(node string, write bool, age Millis) Mark { return since(waits(node, write), start-age) }
	for _, c := range []struct {
		name    string
		age     Millis // for how long the one has waited who could be granted
		waiting []Mark
		reads   []Holding
		want    string
	}{
		{"nobody waits", 0, nil, nil, ""},
		{"not yet starving", 0, []Mark{old("n2", true, patient)}, nil, ""},
		{"just starving", 0, []Mark{old("n2", true, patient+1)}, nil, "n2"},
		{"a reader too", 0, []Mark{old("n2", false, patient+1)}, nil, "n2"},
		{"older, but not by much", patient, []Mark{old("n2", true, 2*patient)}, nil, ""},
		{"older by much", patient, []Mark{old("n2", true, 2*patient+1)}, nil, "n2"},
		{"the own node's mark is no other's", 0, []Mark{old("n1", true, 3*patient)}, nil, ""},
		{"the eldest", 0, []Mark{old("n2", true, 2*patient), old("n3", false, 3*patient), old("n4", true, patient+1)}, nil, "n3"},
		{"the reader behind an elder writer is not next", 0, []Mark{old("n2", false, 2*patient), old("n1", true, 3*patient)}, nil, ""},
		{"who can't get in isn't waited for", 0, []Mark{old("n2", true, 3*patient)}, []Holding{held("r", "n3")}, ""},
		{"a mark from the future", 0, []Mark{old("n2", true, -patient)}, nil, ""},
		{"a lapsed mark", 0, []Mark{{Node: "n2", Write: true, Since: 1, Until: start, LastsMillis: lasts}}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rec := record(c.reads...)
			rec.Waiting = c.waiting
			m, yes := GoesFirst(rec, "n1", start-c.age, start, nobodyHad)
			require.Equal(t, c.want != "", yes)
			require.Equal(t, c.want, m.Node)
		})
	}
}

func TestWhoHasHadItsTurnMakesRoomForTheNext(t *testing.T) {
	t.Parallel()
	rec := record()
	rec.Waiting = []Mark{since(waits("n2", true), start-90), since(waits("n3", true), start-80)}
	for _, c := range []struct {
		had  map[string]bool
		want string
	}{{nil, "n2"}, {map[string]bool{"n2": true}, "n3"}, {map[string]bool{"n2": true, "n3": true}, ""}} {
		m, _ := GoesFirst(rec, "n1", start, start, func(m Mark) bool { return c.had[m.Node] })
		require.Equal(t, c.want, m.Node)
	}
}

// TestFirstOfTheWaitersIsWrittenAlongOnly: each hand-over would be two writes.
func TestFirstOfTheWaitersIsWrittenAlongOnly(t *testing.T) {
	t.Parallel()
	rec, _, _ := SetMark(Empty("x"), "n1", Waiters{SomeWrites, start - 9}, start, lasts)
	after, changed, opened := SetMark(rec, "n1", Waiters{SomeWrites, start - 5}, start+1, lasts)
	require.False(t, changed)
	require.True(t, opened, "readers may be older than its writer now")
	require.Equal(t, start-5, after.Waiting[0].Since)
	_, _, opened = SetMark(after, "n1", Waiters{SomeWrites, start - 9}, start+1, lasts)
	require.False(t, opened)
	after, _, _ = SetMark(rec, "n1", Waiters{SomeWrites, start + 100}, start+1, lasts)
	require.Equal(t, start+1, after.Waiting[0].Since, "the clock went back")
}

// TestReaderIsToldWhenItMayPass: nobody wakes it when its patience is at its end.
func TestReaderIsToldWhenItMayPass(t *testing.T) {
	t.Parallel()
	rec := record(held("r", "n3"))
	rec.Waiting = []Mark{waits("n2", true)}
	require.Equal(t, start+patient+1, PassesAt(rec, start, start))
	require.Equal(t, start+patient+1, PassesAt(rec, start, start+patient))
	require.Zero(t, PassesAt(rec, start, start+patient+1), "it may already")
	rec.WriteOwner = ptr(held("w", "n3"))
	require.Zero(t, PassesAt(rec, start, start), "the release tells")
}

// TestWhoIsWokenFirst: two who can't both get in aren't both woken, and nobody is
// left out without others being said to be there.
func TestWhoIsWokenFirst(t *testing.T) {
	t.Parallel()
	old := func(node string, write bool, age Millis) Mark { return since(waits(node, write), start-age) }
	for _, c := range []struct {
		name    string
		waiting []Mark
		reads   []Holding
		had     string
		want    []string
		others  bool
	}{
		{"nobody waits", nil, nil, "", nil, false},
		{"one waits", []Mark{old("n2", true, 1)}, nil, "", []string{"n2"}, false},
		{"of two writers the eldest", []Mark{old("n2", true, 1), old("n3", true, 2)}, nil, "", []string{"n3"}, true},
		{"who didn't come before is passed over", []Mark{old("n2", true, 1), old("n3", true, 2)}, nil, "n3", []string{"n2"}, true},
		{"readers together", []Mark{old("n2", false, 1), old("n3", false, 2)}, nil, "", []string{"n2", "n3"}, false},
		{"readers, and not the writer that came after", []Mark{old("n2", false, 3), old("n3", true, 1), old("n4", false, 2)}, nil, "", []string{"n2", "n4"}, true},
		{"the writer that came first", []Mark{old("n2", false, 1), old("n3", true, 3), old("n4", false, 2)}, nil, "", []string{"n3"}, false},
		{"beside readers all who gain", []Mark{old("n2", false, 2), old("n3", false, 1)}, []Holding{held("r", "n4")}, "", []string{"n2", "n3"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rec := record(c.reads...)
			rec.Waiting = c.waiting
			nodes, others := WakeFirst(rec, "n1", start, func(m Mark) bool { return m.Node == c.had })
			require.Equal(t, c.want, nodes)
			require.Equal(t, c.others, others)
		})
	}
	rec := record()
	rec.Waiting = []Mark{old("n2", true, 1), old("n3", true, 2)}
	all, others := WakeFirst(rec, "n1", start, func(Mark) bool { return true })
	require.Equal(t, []string{"n2", "n3"}, all, "none has come before: all")
	require.False(t, others)
}
