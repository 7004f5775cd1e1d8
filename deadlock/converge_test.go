package deadlock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireBooks counts anew whatever a table keeps a running sum of.
func requireBooks(t *testing.T, table *Table) {
	t.Helper()
	bytes, vertices := 0, len(table.local.shown)
	for _, r := range table.remote {
		sum := uint64(0)
		for id, e := range r.entries {
			require.Equal(t, id, e.v.ID)
			sum += e.v.digest
			bytes += e.v.weight()
			vertices++
		}
		require.Equal(t, sum, r.sum)
		require.LessOrEqual(t, len(r.entries), table.cfg.Limits.WaitersPerNode)
		require.LessOrEqual(t, len(r.gone), maxGone)
	}
	require.Equal(t, bytes, table.bytes)
	require.Equal(t, vertices, table.index.size)
	require.LessOrEqual(t, bytes, table.cfg.Limits.TotalBytes)
	size := 0
	for _, v := range table.local.shown {
		size += v.size
	}
	require.Equal(t, size, table.local.size)
	fresh := newIndex()
	for _, v := range table.vertices() {
		fresh.add(v)
	}
	require.Equal(t, fresh.names, table.index.names)
}

// network delivers to each node out of order, doubled, and not at all.
type network struct {
	t       *testing.T
	rng     *rand.Rand
	tables  []*Table
	flying  [][]Message // per receiver
	seq     int
	alive   []map[string]bool // waiters of each node
	removed map[Key]bool
}

func newNetwork(t *testing.T, seed uint64, nodes int) *network {
	n := &network{t: t, rng: rand.New(rand.NewPCG(seed, 1)), removed: map[Key]bool{}}
	for i := range nodes {
		n.tables = append(n.tables, newTestTable(t, fmt.Sprint("n", i), Limits{MessageBytes: 2048}))
		n.alive = append(n.alive, map[string]bool{})
		n.flying = append(n.flying, nil)
	}
	return n
}

func (n *network) publish(from int, messages [][]byte) {
	for _, data := range messages {
		m, err := Decode(data, n.tables[from].cfg.Limits)
		require.NoError(n.t, err)
		for to := range n.tables {
			for range []int{0, 1, 1, 1, 2}[n.rng.IntN(5)] {
				n.flying[to] = append(n.flying[to], m)
			}
		}
	}
}

func (n *network) change() {
	i := n.rng.IntN(len(n.tables))
	table := n.tables[i]
	switch n.rng.IntN(6) {
	case 0, 1, 2:
		n.seq++
		w := randomWaiters(n.rng, 1)[0]
		w.ID, w.SinceMicros = numbered("", n.seq), int64(1+n.rng.IntN(50))
		if table.Put(w); table.local.members[w.ID] != nil {
			n.alive[i][w.ID] = true
		}
	case 3:
		for id := range n.alive[i] {
			table.Remove(id)
			delete(n.alive[i], id)
			n.removed[Key{table.cfg.Node, id}] = true
			break
		}
	case 4:
		n.publish(i, table.Delta())
	case 5:
		n.publish(i, []func() [][]byte{table.Full, table.Repeat}[n.rng.IntN(2)]())
	}
}

func (n *network) deliver(now int64) {
	to := n.rng.IntN(len(n.tables))
	queue := n.flying[to]
	if len(queue) == 0 {
		return
	}
	i := n.rng.IntN(min(len(queue), 8))
	m := queue[i]
	n.flying[to] = slices.Delete(queue, i, i+1)
	n.applied(to, m, now)
}

// applied checks that nothing seen as gone by an untorn view comes back.
func (n *network) applied(to int, m Message, now int64) {
	table := n.tables[to]
	before := map[Key]bool{}
	for _, w := range table.Waiters() {
		before[w.Key()] = true
	}
	r := table.remote[m.Node]
	seen := int64(0)
	if r != nil {
		seen = r.floor
	}
	a := table.Apply(m, now)
	for _, w := range table.Waiters() {
		if m.Seq <= seen && !before[w.Key()] {
			require.Failf(n.t, "history came back", "%+v", w)
		}
	}
	if a.Answer || a.Ask != "" {
		for from := range n.tables {
			if n.tables[from].cfg.Node == a.Ask {
				n.publish(from, n.tables[from].Full())
			}
		}
	}
	requireBooks(n.t, table)
}

// settle drops what is still under way, and lets each node repeat without loss.
func (n *network) settle(now int64) {
	for i := range n.flying {
		n.flying[i] = nil
	}
	for from, table := range n.tables {
		messages := append(table.Delta(), table.Repeat()...)
		for to := range n.tables {
			n.exchange(from, to, messages, now)
		}
	}
}

func (n *network) exchange(from, to int, messages [][]byte, now int64) {
	for _, data := range messages {
		m, err := Decode(data, n.tables[from].cfg.Limits)
		require.NoError(n.t, err)
		if n.tables[to].Apply(m, now).Ask != "" {
			deliver(n.t, n.tables[to], n.tables[from].Full(), now)
		}
	}
}

func (n *network) requireSameEverywhere() {
	view := func(table *Table) []Waiter {
		ws := table.Waiters()
		for i := range ws { // only informative, and told late
			ws[i].Count, ws[i].Blockers = 0, nil
		}
		slices.SortFunc(ws, older)
		return ws
	}
	want := view(n.tables[0])
	for _, w := range want {
		require.False(n.t, n.removed[w.Key()], "a removed waiter is still known")
	}
	for _, table := range n.tables[1:] {
		require.Equal(n.t, want, view(table))
		require.Len(n.t, table.Deadlocks(), len(n.tables[0].Deadlocks()))
		for i, d := range n.tables[0].Deadlocks() {
			require.Equal(n.t, d.VictimKey(), table.Deadlocks()[i].VictimKey())
			require.Equal(n.t, cycleIDs(d), cycleIDs(table.Deadlocks()[i]))
		}
	}
}

func TestLostDoubledAndReorderedMessagesConverge(t *testing.T) {
	t.Parallel()
	deadlocks := 0
	var networks uint64 = 16 / min(everyGraph, 4)
	for seed := range networks {
		n := newNetwork(t, seed, 3)
		for step := range 400 {
			n.change()
			n.deliver(int64(step))
			n.deliver(int64(step))
		}
		n.settle(400)
		n.requireSameEverywhere()
		deadlocks += len(n.tables[0].Deadlocks())
	}
	require.Positive(t, deadlocks, "a network without deadlocks compares little")
}

// A node whose messages never arrive again is gone after the lapse time, and the
// others judge without it.
func TestDeadNodesWaitersLapse(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "node-A", Limits{})
	table.Put(wait("A", 1, "w:a", "|", "w:b"))
	put(table, wait("B", 2, "w:b", "|", "w:a"), 1, 1000)
	require.Len(t, table.Deadlocks(), 1)
	table.Expire(1000 + lapse)
	require.Empty(t, table.Deadlocks())
	require.Equal(t, []string{"A"}, known(table))
}
