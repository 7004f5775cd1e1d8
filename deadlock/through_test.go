package deadlock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The victim of two cycles stays it when one of them turns out to be old news,
// although of those left it isn't the youngest.
func TestVictimOfAKnotStaysItWhenAPartIsGone(t *testing.T) {
	table := newTestTable(t, "node-A", Limits{})
	hub := wait("A", 3, "w:a", "|", "w:b", "w:c")
	table.Put(hub)
	for _, w := range []Waiter{wait("B", 4, "w:b", "|", "w:a"), wait("dead", 1, "w:c", "|", "w:a")} {
		table.Apply(Message{Node: w.Node, Incarnation: 1, Seq: 1, Kind: Full, Parts: 1, Put: []Waiter{w}}, 0)
	}
	found := table.Find(hub.Key())
	require.Equal(t, []string{"A"}, victimIDs(found))
	d, yes := table.Through(hub.Key(), []Key{{Node: "node-dead", ID: "dead"}})
	require.True(t, yes)
	require.Len(t, d.Cycle, 2)
	require.Equal(t, hub.Key(), d.VictimKey())
	_, yes = table.Through(hub.Key(), []Key{{Node: "node-dead", ID: "dead"}, {Node: "node-B", ID: "B"}})
	require.False(t, yes)
	_, yes = table.Through(Key{Node: "node-A", ID: "nobody"}, nil)
	require.False(t, yes)
}
