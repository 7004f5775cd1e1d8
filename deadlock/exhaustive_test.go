package deadlock

import (
	"math/bits"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestVictimsOfEveryGraphOfFour goes through all 4,096 graphs of four waiters
// and all 16 ways to say who of them holds something.
func TestVictimsOfEveryGraphOfFour(t *testing.T) {
	t.Parallel()
	cyclic := 0
	for code := uint32(0); code < 1<<12; code += everyGraph {
		edges := graphOf(4, code)
		for plain := range uint32(16) {
			if checkVictims(t, realize(edges, plain), edges, plain) {
				cyclic++
			}
		}
	}
	// 543 graphs of four have no cycle; 100 among each 16th.
	require.Equal(t, map[int]int{1: 4096 - 543, 16: 256 - 100}[everyGraph]*16, cyclic)
}

// graphOf reads the edges of n waiters from the bits of code.
func graphOf(n int, code uint32) []uint32 {
	edges := make([]uint32, n)
	for i := range n {
		for j := range n {
			if i != j {
				edges[i] |= (code & 1) << j
				code >>= 1
			}
		}
	}
	return edges
}

// checkVictims compares with the oracle and then checks, apart from it, each
// promise. It tells whether there is a cycle.
func checkVictims(t *testing.T, ws []Waiter, edges []uint32, plain uint32) bool {
	t.Helper()
	found := Victims(ws)
	set := victimSet(ws, found)
	cycles := simpleCycles(edges)
	want := oracleVictims(edges, plain)
	if set != want || len(found) != bits.OnesCount32(set) || !breaksAll(cycles, set) {
		require.Failf(t, "wrong victims", "edges %b plain %b: %b, not %b", edges, plain, set, want)
	}
	if (len(cycles) > 0) != (len(stuck(ws)) > 0) || len(stuck(without(ws, set))) > 0 {
		require.Failf(t, "somebody is stuck for ever", "edges %b plain %b", edges, plain)
	}
	for _, d := range found {
		checkReported(t, ws, edges, plain, set, d)
	}
	for gone := set; gone != 0; gone = (gone - 1) & set {
		if rest := victimSet(ws, Victims(without(ws, gone))); rest != set&^gone {
			require.Failf(t, "the others changed when a victim went", "edges %b plain %b gone %b: %b", edges, plain, gone, rest)
		}
	}
	return len(cycles) > 0
}

// checkReported: it is a cycle, begins with its oldest, has one victim, and that
// one holds something if anybody does.
func checkReported(t *testing.T, ws []Waiter, edges []uint32, plain, set uint32, d Deadlock) {
	t.Helper()
	members := uint32(0)
	at := func(i int) int { return position(ws, d.Cycle[i%len(d.Cycle)]) }
	ok := len(d.Cycle) > 1
	for i := range d.Cycle {
		ok = ok && edges[at(i)]&(1<<at(i+1)) != 0 && members&(1<<at(i)) == 0 && at(0) <= at(i)
		members |= 1 << at(i)
	}
	victim := uint32(1) << at(d.Victim)
	ok = ok && members&set == victim
	if victim&plain != 0 {
		ok = ok && members&^plain == 0
	}
	if len(simpleCycles(edges)) == 1 && victim&plain == 0 {
		ok = ok && members&^plain < victim<<1 // the youngest of those that hold something
	}
	if !ok {
		require.Failf(t, "wrong cycle", "edges %b plain %b: %v victim %d", edges, plain, cycleIDs(d), d.Victim)
	}
}

func position(ws []Waiter, w Waiter) int {
	for i := range ws {
		if ws[i].Key() == w.Key() {
			return i
		}
	}
	panic("a stranger in the cycle")
}

func victimSet(ws []Waiter, ds []Deadlock) (set uint32) {
	for _, d := range ds {
		set |= 1 << position(ws, d.Cycle[d.Victim])
	}
	return set
}

func without(ws []Waiter, set uint32) (left []Waiter) {
	for i, w := range ws {
		if set&(1<<i) == 0 {
			left = append(left, w)
		}
	}
	return left
}

// A name is in one of these states for a waiter; other pairs mean the same as one
// of them (a wish that is held already).
const (
	nothing = iota
	wantsRead
	wantsWrite
	holdsRead
	upgrades
	holdsWrite
	states
)

// columns lists what n waiters may do with one name: one writer or any readers.
func columns(n int) [][]int {
	if n == 0 {
		return [][]int{{}}
	}
	var all [][]int
	for _, rest := range columns(n - 1) {
		for s := range states {
			if c := append(append([]int(nil), rest...), s); consistent(c) {
				all = append(all, c)
			}
		}
	}
	return all
}

func consistent(column []int) bool {
	readers, writers := 0, 0
	for _, s := range column {
		switch s {
		case holdsRead, upgrades:
			readers++
		case holdsWrite:
			writers++
		}
	}
	return writers == 0 || writers == 1 && readers == 0
}

// tally counts what a walk through wait-for graphs has met.
type tally struct{ graphs, cyclic, shapes int }

// walker goes through all graphs of n waiters and a number of names, up to the
// order of the names. The order of the waiters is their age, and matters.
type walker struct {
	t      *testing.T
	n      int
	cols   [][]int
	stride int // look at each so-manieth only
	count  int
	tally  tally
	shapes map[string]bool
	orders bool
	past   uint32 // whose wishes to read go past those who wait to write
}

func walkGraphs(t *testing.T, n, names, stride int, orders bool, past uint32) tally {
	t.Helper()
	w := &walker{t: t, n: n, cols: columns(n), stride: stride, shapes: map[string]bool{}, orders: orders, past: past}
	w.walk(nil, 0, names)
	w.tally.shapes = len(w.shapes)
	return w.tally
}

func (w *walker) walk(chosen []int, from, names int) {
	first, step := from, 1
	if names == 1 {
		first, step = from+w.stride-1-w.count%w.stride, w.stride
		w.count += len(w.cols) - from
	}
	for c := first; c < len(w.cols); c += step {
		next := append(slices.Clone(chosen), c)
		if names == 1 {
			w.visit(next)
		} else {
			w.walk(next, c, names-1)
		}
	}
}

var nameOf = []string{"a", "b", "c"}

// visit compares the edges of each graph with the oracle's, and all that depends
// on nothing but the edges once for each shape.
func (w *walker) visit(chosen []int) {
	ws, plain := w.waiters(chosen)
	if ws == nil {
		return
	}
	w.tally.graphs++
	vs := make([]*vertex, len(ws))
	for i := range ws {
		vs[i] = newVertex(ws[i])
	}
	edges, got := oracleEdges(ws), (&knot{graph: newGraph(vs)}).adjacency()
	shape := strconv.Itoa(int(plain))
	for i := range edges {
		if edges[i] != got[i] {
			require.Failf(w.t, "wrong edges", "%+v: %b, not %b", ws, got, edges)
		}
		shape += "," + strconv.Itoa(int(edges[i]))
	}
	cyclic := len(stuck(ws)) > 0
	if cyclic {
		w.tally.cyclic++
	}
	if w.shapes[shape] {
		return
	}
	w.shapes[shape] = true
	if checkVictims(w.t, ws, edges, plain) != cyclic {
		require.Failf(w.t, "stuck without a cycle, or the reverse", "%+v", ws)
	}
	checkWhy(w.t, ws, edges)
	if w.orders {
		checkOrders(w.t, ws)
	}
}

func checkWhy(t *testing.T, ws []Waiter, edges []uint32) {
	t.Helper()
	for i := range ws {
		for j := range ws {
			if (len(Why(ws[i], ws[j])) > 0) != (edges[i]&(1<<j) != 0) {
				require.Failf(t, "an edge without a reason, or the reverse", "%+v %d %d", ws, i, j)
			}
		}
	}
}

// waiters is nil if somebody wants nothing.
func (w *walker) waiters(chosen []int) ([]Waiter, uint32) {
	ws := make([]Waiter, w.n)
	plain := uint32(0)
	for i := range ws {
		id := strconv.Itoa(i)
		ws[i] = Waiter{ID: id, Node: "node-" + id, SinceMicros: int64(i + 1), Count: 1}
		for name, c := range chosen {
			ws[i].take(nameOf[name], w.cols[c][i], w.past&(1<<i) != 0)
		}
		if len(ws[i].Wants) == 0 {
			return nil, 0
		}
		if len(ws[i].Holds) == 0 {
			plain |= 1 << i
		}
	}
	return ws, plain
}

func (w *Waiter) take(name string, state int, past bool) {
	switch state {
	case holdsRead, upgrades, holdsWrite:
		w.Holds = append(w.Holds, Hold{Name: name, Write: state == holdsWrite, ID: "acq-" + w.ID})
	}
	switch state {
	case wantsRead, wantsWrite, upgrades:
		w.Wants = append(w.Wants, Want{Name: name, Write: state != wantsRead, Past: past && state == wantsRead})
	}
}

// everything is the run with -exhaustive: all graphs, up to the order of names.
var everything = []walk{
	{3, 3, 1, tally{graphs: 463_865, cyclic: 318_979, shapes: 512}},
	{4, 2, 1, tally{graphs: 125_181, cyclic: 89_583, shapes: 13_096}},
	{4, 3, 1, tally{graphs: 48_858_955, cyclic: 42_104_123, shapes: 58_424}},
}

type walk struct {
	waiters, names, stride int
	want                   tally
}

func TestEveryGraphOfFewWaitersAndNames(t *testing.T) {
	t.Parallel()
	todo := walks
	if *exhaustive {
		todo = everything
	}
	for _, c := range todo {
		got := walkGraphs(t, c.waiters, c.names, c.stride, c.waiters < 4, 0)
		require.Equal(t, c.want, got, "%d waiters, %d names", c.waiters, c.names)
	}
}

// The same, with each set of waiters whose wishes to read go past the writers that
// came later. It takes edges away, and none of those to holders.
func TestEveryGraphWithReadersThatGoPastWriters(t *testing.T) {
	t.Parallel()
	var cyclic []int
	for past := range uint32(8) {
		cyclic = append(cyclic, walkGraphs(t, 3, 2, 7, false, past).cyclic)
	}
	require.Equal(t, []int{427, 381, 382, 337, 383, 332, 340, 297}, cyclic)
}

// One that holds b, and came first, goes past the writer of a: nobody has to die for it.
func TestReaderThatGoesPastAWriterWaitsForHoldersOnly(t *testing.T) {
	t.Parallel()
	reader := wait("reader", 1, "w:b", "|", "r:a")
	writer := wait("writer", 2, "|", "w:a")
	holder := wait("holder", 3, "r:a", "|", "w:b")
	find := func(past bool) []Deadlock {
		reader.Wants[0].Past = past
		table := newTestTable(t, "node", Limits{})
		var search []Key
		for _, w := range []Waiter{writer, holder, reader} {
			search = append(search, table.Put(w)...)
		}
		return table.Find(search...)
	}
	require.Equal(t, []string{"holder"}, victimIDs(find(false)))
	require.Empty(t, find(true))
	require.Empty(t, Why(reader, writer))

	writes := wait("writes", 4, "w:a", "|", "w:b")
	require.NotEmpty(t, Why(reader, writes), "who holds the lock is in the way of everybody")
}

// A wait that turns out to be behind a writer after all is searched again, and told.
func TestReaderThatNoLongerGoesPastIsSearchedAgain(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "node", Limits{})
	reader := wait("reader", 1, "w:b", "|", "r:a")
	reader.Wants[0].Past = true
	table.Put(reader)
	table.Put(wait("writer", 2, "w:c", "|", "w:a"))
	table.Put(wait("holder", 3, "r:a", "|", "w:b"))
	require.Empty(t, table.Deadlocks())
	table.Delta()
	reader.Wants[0].Past = false
	require.Equal(t, []string{"holder"}, victimIDs(table.Find(table.Put(reader)...)))
	messages := table.Delta()
	require.Len(t, messages, 1)
	m, err := Decode(messages[0], Limits{})
	require.NoError(t, err)
	require.Len(t, m.Put, 1)
	require.False(t, m.Put[0].Wants[0].Past)
}
