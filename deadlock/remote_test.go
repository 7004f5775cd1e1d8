package deadlock

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const lapse = 15_000

func full(seq int64, part, parts int, ids ...string) Message {
	return Message{Node: "b", Incarnation: 1, Seq: seq, Kind: Full, Part: part, Parts: parts, Put: waitersOf("b", ids)}
}

func delta(seq int64, removed []string, ids ...string) Message {
	return Message{Node: "b", Incarnation: 1, Seq: seq, Kind: Delta, Removed: removed, Put: waitersOf("b", ids)}
}

func waitersOf(node string, ids []string) (ws []Waiter) {
	for _, id := range ids {
		w := wait(id, 1, "w:"+id, "|", "w:other")
		w.Node = node
		ws = append(ws, w)
	}
	return ws
}

func known(table *Table) []string {
	ids := []string{}
	for _, w := range table.Waiters() {
		ids = append(ids, w.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestOldMessagesNeverBringAWaiterBack(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	table.Apply(delta(1, nil, "x"), 0)
	table.Apply(delta(2, []string{"x"}), 0)
	table.Apply(delta(1, nil, "x"), 0)
	require.Empty(t, known(table), "a double")

	table.Apply(delta(4, []string{"y"}), 0)
	table.Apply(delta(3, nil, "y", "z"), 0)
	require.Equal(t, []string{"z"}, known(table), "the removal has overtaken y")

	table.Apply(full(5, 0, 1, "q"), 0)
	table.Apply(delta(3, nil, "y", "z"), 0)
	require.Equal(t, []string{"q"}, known(table), "all before a full is history")
	require.Equal(t, 1, table.Stats().Stale)
	require.Empty(t, table.remote["b"].gone)
}

func TestOlderMessageChangesNothingOfANewerOne(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	newer, older := delta(5, nil, "x"), delta(4, nil, "x")
	newer.Put[0].Wants = []Want{{Name: "newer"}}
	table.Apply(newer, 0)
	require.Empty(t, table.Apply(older, 0).Search)
	require.Equal(t, newer.Put, table.Waiters())
	older.Seq = 5
	require.Empty(t, table.Apply(older, 0).Search, "the same number is a double")
}

func TestRefreshedLabelsKeepTheBooks(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	m := delta(1, nil, "x")
	table.Apply(m, 0)
	m.Seq, m.Put = 2, waitersOf("b", []string{"x"})
	m.Put[0].Site, m.Put[0].Blockers = "main.go:1", []Blocker{{Name: "other", IDs: []string{"someone"}}}
	require.Empty(t, table.Apply(m, 0).Search, "the graph is as it was")
	require.Equal(t, m.Put, table.Waiters())
	requireBooks(t, table)
}

// An id may come back honestly: the one who stands for a class may change to an
// older one and back.
func TestNewerMessageBringsAWaiterBack(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	table.Apply(delta(1, nil, "x"), 0)
	table.Apply(delta(2, []string{"x"}), 0)
	require.NotEmpty(t, table.Apply(delta(3, nil, "x"), 0).Search)
	table.Apply(delta(2, []string{"x"}), 0)
	require.Equal(t, []string{"x"}, known(table))
}

func TestFullDropsOthersOnlyWhenAllPartsCame(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	table.Apply(full(1, 0, 1, "old"), 0)
	table.Apply(full(5, 2, 3, "p2"), 0)
	table.Apply(full(5, 0, 3, "p0"), 0)
	table.Apply(full(5, 0, 3, "p0"), 0)
	require.Equal(t, []string{"old", "p0", "p2"}, known(table))
	table.Apply(delta(6, []string{"p1"}, "new"), 0)
	table.Apply(full(5, 1, 3, "p1", "p1b"), 0)
	require.Equal(t, []string{"new", "p0", "p1b", "p2"}, known(table))
}

func TestUnfinishedFullGivesWayToTheNext(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	table.Apply(full(1, 0, 2, "x"), 0)
	table.Apply(full(2, 0, 2, "y"), 0)
	table.Apply(full(1, 1, 2, "x2"), 0)
	table.Apply(full(2, 1, 3, "lies about its parts"), 0)
	require.Len(t, known(table), 4)
	table.Apply(full(2, 1, 2, "y2"), 0)
	require.Equal(t, []string{"lies about its parts", "y", "y2"}, known(table))
}

func TestRestartedNodeBeginsAnew(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	table.Apply(delta(100, nil, "x"), 0)
	again := delta(1, nil, "y")
	again.Incarnation = 2
	table.Apply(again, 0)
	require.Equal(t, []string{"y"}, known(table))
	table.Apply(delta(101, nil, "x"), 0)
	require.Equal(t, []string{"y"}, known(table))
}

func TestWaiterThatIsNotRepeatedLapses(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	table.Apply(delta(1, nil, "x"), 0)
	table.Apply(delta(2, nil, "y"), 5_000)
	require.Zero(t, table.Expire(lapse-1))
	require.Equal(t, 1, table.Expire(lapse))
	require.Equal(t, []string{"y"}, known(table))
	require.Equal(t, 1, table.Expire(5_000+lapse))
	require.Equal(t, []string{"b"}, table.Nodes(), "its numbers are still known")
	table.Apply(delta(1, nil, "x"), 5_001+lapse)
	table.Expire(100_000)
	table.Expire(200_000)
	require.Empty(t, table.Nodes())
	require.Zero(t, table.bytes)
	require.Empty(t, table.index.names)
	require.Equal(t, 3, table.Stats().Lapsed)
}

func TestClockThatWentBackKeepsNobodyForEver(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	table.Apply(delta(1, nil, "x"), 1<<50)
	table.Expire(0)
	require.Equal(t, 1, table.Expire(lapse))
}

func TestOwnEchoAndForgeryUnderTheOwnNameDoNothing(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "b", Limits{})
	table.Put(waitersOf("b", []string{"mine"})[0])
	table.Apply(delta(9, []string{"mine"}, "forged"), 0)
	require.Equal(t, []string{"mine"}, known(table))
	require.Equal(t, 1, table.Stats().Own)
}

func TestAskIsAnsweredByWhoIsAsked(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	for to, want := range map[string]bool{"": true, "a": true, "c": false} {
		m := Message{Node: "b", Incarnation: 1, Kind: Ask, To: to}
		require.Equal(t, Applied{Answer: want}, table.Apply(m, 0))
	}
	require.Empty(t, table.Nodes(), "asking leaves nothing behind")
}

func TestAliveRefreshesOrAsks(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	alive := Message{Node: "b", Incarnation: 1, Seq: 3, Kind: Alive, Waiters: 2}
	require.Equal(t, "b", table.Apply(alive, 0).Ask, "never heard of")
	table.Apply(full(4, 0, 1, "x", "y"), 0)
	alive.Seq, alive.Sum = 5, table.remote["b"].sum
	require.Equal(t, Applied{}, table.Apply(alive, lapse-1))
	require.Zero(t, table.Expire(2*lapse-2))
	alive.Seq, alive.Sum = 6, alive.Sum+1
	require.Equal(t, "b", table.Apply(alive, lapse).Ask)
	require.Equal(t, 2, table.Expire(2*lapse-1))
	table.Apply(delta(9, nil, "z"), 2*lapse)
	alive.Seq = 8
	require.Equal(t, Applied{}, table.Apply(alive, 2*lapse), "overtaken: it says nothing of now")
}

func TestCapsDropAndCount(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{Nodes: 2, WaitersPerNode: 3, TotalBytes: 4000})
	table.Apply(full(1, 0, 1, "1", "2", "3", "4", "5"), 0)
	require.Len(t, known(table), 3)
	require.Equal(t, 2, table.Stats().OverWaiters)
	alive := Message{Node: "b", Incarnation: 1, Seq: 2, Kind: Alive, Waiters: 5}
	require.Equal(t, Applied{}, table.Apply(alive, 0), "asking again would not help")

	for _, node := range []string{"c", "d"} {
		put(table, Waiter{ID: "w", Node: node, SinceMicros: 1, Wants: []Want{{Name: "x", Write: true}}}, 1, 0)
	}
	require.Equal(t, []string{"b", "c"}, table.Nodes())
	require.Equal(t, 1, table.Stats().OverNodes)

	for i := range 20 {
		w := wait(numbered("", i), 1, "w:x", "|", "w:y")
		w.Node = "c"
		put(table, w, int64(i+2), 0)
	}
	require.LessOrEqual(t, table.bytes, 4000)
	require.Len(t, table.remote["c"].entries, 3)
}

func TestTotalBytesBoundAllNodes(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{TotalBytes: 10_000})
	for i := range 100 {
		put(table, wait(numbered("", i), 1, "w:x", "|", "w:y"), 1, 0)
	}
	require.LessOrEqual(t, table.bytes, 10_000)
	require.Greater(t, len(known(table)), 10)
	require.Positive(t, table.Stats().OverWaiters)
}

func TestFloodOfRemovalsIsNotRemembered(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	for i := range 10 * maxGone {
		table.Apply(delta(int64(i+1), []string{numbered("", i)}), 0)
		require.LessOrEqual(t, len(table.remote["b"].gone), maxGone)
	}
	table.Apply(delta(1, nil, numbered("", 0)), 0)
	require.Empty(t, known(table), "what is forgotten lies below the floor")
}

func TestForgedWaiterThatCannotMatterIsNotKept(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "a", Limits{})
	put(table, wait("R", 1, "|", "r:x"), 1, 0)
	require.Empty(t, known(table))
	require.Equal(t, 1, table.Stats().OverWaiters)
}
