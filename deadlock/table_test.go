package deadlock

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigNamesEveryContradiction(t *testing.T) {
	t.Parallel()
	_, err := NewTable(Config{Incarnation: -1, Limits: Limits{MessageBytes: 10}})
	require.ErrorContains(t, err, "node id")
	require.ErrorContains(t, err, "incarnation")
	require.ErrorContains(t, err, "lapse")
	require.ErrorContains(t, err, "2048")
}

func TestLastEdgeFindsTheDeadlockOnEitherSide(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "node-A", Limits{})
	first := table.Put(wait("A", 1, "w:a", "|", "w:b"))
	require.Equal(t, []Key{{"node-A", "A"}}, first)
	require.Empty(t, table.Find(first...))
	second := put(table, wait("B", 2, "w:b", "|", "w:a"), 1, 0)
	require.Equal(t, []string{"B"}, victimIDs(table.Find(second.Search...)))
	require.Len(t, table.Find(first[0], second.Search[0], first[0]), 1, "one deadlock, whoever changed")
	third := put(table, wait("C", 3, "w:c", "|", "w:d", "w:a"), 1, 0)
	fourth := put(table, wait("D", 4, "w:d", "|", "w:c"), 1, 0)
	found := table.Find(first[0], third.Search[0], fourth.Search[0])
	require.Equal(t, []string{"B", "D"}, victimIDs(found), "C reaches both cycles")
	require.Empty(t, table.Remove("A"))
	require.Equal(t, []string{"D"}, victimIDs(table.Deadlocks()))
}

// What holds nothing and only reads can neither block nor be a victim.
func TestPlainReadersAreNeitherKeptNorTold(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "n", Limits{})
	require.Empty(t, table.Put(wait("R", 1, "|", "r:x")))
	require.Empty(t, table.Waiters())
	require.Empty(t, table.Delta())
}

func TestLookAlikesAreToldOnceByTheOldest(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "n", Limits{})
	require.NotEmpty(t, table.Put(wait("B", 20, "|", "w:x", "r:y")))
	require.Empty(t, table.Put(wait("C", 30, "|", "r:y", "w:x", "r:x")), "the same wish in other words")
	require.NotEmpty(t, table.Put(wait("A", 10, "|", "w:x", "r:y")), "an older one takes over")
	require.Empty(t, table.Put(wait("D", 10, "|", "w:x", "r:y")))
	requireShown(t, table, "A", 4)
	blocked := wait("A", 10, "|", "w:x", "r:y")
	blocked.Blockers = []Blocker{{Name: "x", IDs: []string{"someone"}}}
	require.Empty(t, table.Put(blocked))
	requireShown(t, table, "A", 4)
	require.Equal(t, blocked.Blockers, table.Waiters()[0].Blockers)
	require.Empty(t, table.Remove("C"))
	requireShown(t, table, "A", 3)
	require.NotEmpty(t, table.Remove("A"), "the next one is to be searched from")
	requireShown(t, table, "D", 2)
	table.Remove("D")
	table.Remove("B")
	require.Empty(t, table.Waiters())
	require.Empty(t, table.local.classes)
}

func requireShown(t *testing.T, table *Table, id string, count int) {
	t.Helper()
	ws := table.Waiters()
	require.Len(t, ws, 1)
	require.Equal(t, id, ws[0].ID)
	require.Equal(t, count, ws[0].Count)
}

func TestDifferentWishesAreDifferentClasses(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "n", Limits{})
	table.Put(wait("A", 1, "|", "w:1:x"))
	table.Put(wait("B", 2, "|", "w:1", "w:x"))
	table.Put(wait("C", 3, "|", "w:1", "r:x"))
	table.Put(wait("D", 4, "r:q", "|", "w:1", "r:x"))
	table.Put(wait("E", 5, "r:q", "|", "w:1", "r:x"))
	require.Len(t, table.Waiters(), 5)
	for i, words := range [][]string{{"w:a", "w:b"}, {"w:atrueb"}, {"w:a:true;b"}, {"w:a:true;1:b"}} {
		table.Put(wait(numbered("", i), 6, append([]string{"|"}, words...)...))
	}
	require.Len(t, table.Waiters(), 9, "names may look like what separates them")
}

// A class that must give up members gives up one after the other, and the other
// class none.
func TestClassThatGivesUpStaysTheOne(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "n", Limits{})
	for i := range 3 {
		table.Put(wait(numbered("A", i), int64(10*i+1), "|", "w:a", "r:b"))
		table.Put(wait(numbered("B", i), int64(10*i+2), "|", "w:b", "r:a"))
	}
	for i := range 3 {
		require.Equal(t, []string{numbered("B", i)}, victimIDs(table.Deadlocks()))
		table.Find(table.Remove(numbered("B", i))...)
	}
	require.Empty(t, table.Deadlocks())
}

func TestPutAgainChangesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "n", Limits{})
	w := wait("A", 1, "w:a", "|", "w:b")
	table.Put(w)
	require.Len(t, table.Delta(), 1)
	w.Blockers = []Blocker{{Name: "b", IDs: []string{"x"}}}
	require.Empty(t, table.Put(w), "blockers make no edge")
	require.Empty(t, table.Delta())
	require.Equal(t, w.Blockers, table.Waiters()[0].Blockers)
	w.Wants = []Want{{Name: "c"}}
	require.NotEmpty(t, table.Put(w))
	require.Len(t, table.Delta(), 1)
	w.Holds = nil // the chain has lost its lock: what is left is a plain reader
	table.Put(w)
	require.Empty(t, table.Waiters())
	require.Len(t, table.Delta(), 1)
}

func TestComingAndGoingBetweenTwoDeltasIsNotTold(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "n", Limits{})
	table.Put(wait("A", 1, "w:a", "|", "w:b"))
	table.Remove("A")
	require.Nil(t, table.Delta())
}

func TestLocalWaiterAboveACapIsCountedAndNotJudged(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "n", Limits{WaitersPerNode: 2, NamesPerWaiter: 4, MessageBytes: 2048})
	require.Empty(t, table.Put(wait("many", 1, "w:a", "|", "w:b", "w:c", "w:d", "w:e")))
	require.Empty(t, table.Put(wait("long", 1, "w:"+strings.Repeat("\x01", 300), "|", "w:b")))
	require.Empty(t, table.Put(wait("", 1, "w:a", "|", "w:b")))
	require.NotEmpty(t, table.Put(wait("A", 1, "w:a", "|", "w:b")))
	require.NotEmpty(t, table.Put(wait("B", 1, "|", "w:b")))
	require.Empty(t, table.Put(wait("C", 1, "w:c", "|", "w:b")))
	require.Empty(t, table.Put(wait("D", 1, "|", "w:b")), "joins a class")
	require.Equal(t, 4, table.Stats().LocalOver)
	table.Remove("A")
	require.NotEmpty(t, table.Put(wait("C", 1, "w:c", "|", "w:b")), "may come again when there is room")
}

func TestLabelsAreCutAndLargeBlockersLeftOut(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "n", Limits{MessageBytes: 2048})
	w := wait("A", 1, "w:a", "|", "w:b")
	w.Owner, w.Site = strings.Repeat("é", 200), "\xff"
	for range 40 {
		w.Blockers = append(w.Blockers, Blocker{Name: "b", IDs: []string{strings.Repeat("i", 100)}})
	}
	require.NotEmpty(t, table.Put(w))
	got := table.Waiters()[0]
	require.Equal(t, strings.Repeat("é", 128), got.Owner)
	require.Equal(t, "\uFFFD", got.Site)
	require.Empty(t, got.Blockers)
	require.Len(t, table.Full(), 1)
}

func TestStoryNamesEachPartyAndMarksTheVictim(t *testing.T) {
	t.Parallel()
	a := wait("A", 1_700_000_000_000_001, "w:a", "|", "w:b", "r:line\nbreak")
	b := wait("B", 1_700_000_000_500_000, "r:b", "w:"+strings.Repeat("n", 100), "|", "r:a")
	b.Site = "main.go:42"
	found := Victims([]Waiter{a, b})
	require.Len(t, found, 1)
	require.Equal(t, `deadlock of 2 waiters, each waits for the next, the last for the first; * gives up:
  1. "owner-A" on node "node-A", since 2023-11-14T22:13:20.000001Z
     holds write "a"
     waits for write "b", read "line\nbreak"
     stopped by the next at "b" (holds it to read)
* 2. "owner-B" on node "node-B", since 2023-11-14T22:13:20.500000Z, at "main.go:42"
     holds read "b", write "`+strings.Repeat("n", 64)+`"…
     waits for read "a"
     stopped by the next at "a" (holds it to write)`, found[0].Story())

	plain := wait("P", 1, "|", "w:a", "w:b")
	plain.Count = 7
	for range 9 {
		plain.Wants = append(plain.Wants, Want{Name: numbered("", len(plain.Wants)), Write: true})
	}
	story := Victims([]Waiter{plain, wait("R", 2, "r:b", "|", "r:a")})[0].Story()
	require.Contains(t, story, "(the oldest of 7 alike)")
	require.Contains(t, story, "holds nothing")
	require.Contains(t, story, "and 3 more")
	require.Contains(t, story, `"a" (waits to write it)`)
}
