package deadlock

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	exhaustive = flag.Bool("exhaustive", false, "all graphs of 4 waiters and 3 names (about half an hour)")
	rewrite    = flag.Bool("rewrite", false, "write the golden messages anew")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wait builds a waiter from words: "r:x" and "w:x" before the bar are holdings,
// after it wishes. Its age is since, its node "node-<id>".
func wait(id string, since int64, words ...string) Waiter {
	w := Waiter{ID: id, Node: "node-" + id, Owner: "owner-" + id, SinceMicros: since, Count: 1}
	holding := true
	for _, word := range words {
		switch {
		case word == "|":
			holding = false
		case holding:
			w.Holds = append(w.Holds, Hold{Name: word[2:], Write: word[0] == 'w', ID: "acq-" + id})
		default:
			w.Wants = append(w.Wants, Want{Name: word[2:], Write: word[0] == 'w'})
		}
	}
	return w
}

func newTestTable(t testing.TB, node string, limits Limits) *Table {
	t.Helper()
	table, err := NewTable(Config{Node: node, Incarnation: 1, LapseMillis: 15_000, Limits: limits})
	require.NoError(t, err)
	return table
}

// victimIDs names the victims of a result, oldest first.
func victimIDs(ds []Deadlock) []string {
	ids := []string{}
	for _, d := range ds {
		ids = append(ids, d.VictimKey().ID)
	}
	return ids
}

func cycleIDs(d Deadlock) []string {
	var ids []string
	for _, w := range d.Cycle {
		ids = append(ids, w.ID)
	}
	return ids
}

func put(table *Table, w Waiter, seq, now int64) Applied {
	return table.Apply(Message{Node: w.Node, Incarnation: 1, Seq: seq, Kind: Delta, Put: []Waiter{w}}, now)
}

func numbered(prefix string, i int) string { return fmt.Sprintf("%s%05d", prefix, i) }
