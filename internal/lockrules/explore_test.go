package lockrules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A breadth-first search over all states that a few owners can bring a few
// locks into. In each state every operation is tried, compared with the
// reference and checked against the invariants of doc.go.
//
// A space is finite because states are told apart only by what the rules can
// see: times relative to now, acquisitions by their place in their owner's
// chain and not by id, names and owners of a node in any order (see key). Token
// values are left out: no rule reads one but to mint a higher, and both
// promises about them are checked on each step.

// What the search counts with. A lease is two ticks and a mark one; three
// milliseconds to the tick, so that a mark has a third to use up.
const (
	tick      Millis = 3
	leaseTime        = 2 * tick
	markTime         = tick
)

// A space is what the search may do.
type space struct {
	name   string
	owners []string // the node of each owner; those of one node stand together
	names  []string
	depth  []int    // acquisitions that an owner has at most: the first, and what is nested in it
	marks  []string // the nodes that may have marks
	ages   []Millis // for how long those may have waited of whom a mark tells
	hold   bool     // releases of what is held to write may keep it a tick longer
	large  bool     // only with -exhaustive
	states int      // pinned: a search that shrinks has stopped to look
}

var (
	twoNodes   = []string{"n1", "n2"}
	threeOwner = []string{"n1", "n1", "n2"}
	oneName    = []string{"x"}
	twoNames   = []string{"x", "y"}
)

// How long waits are: just begun; a little too long; and too long by as much again,
// so that another who waits too long has to stand back.
var (
	justBegun = []Millis{0}
	twoAges   = threeAges[:2]
	threeAges = []Millis{0, StarvesAfter + 1, 2 * (StarvesAfter + 1)}
	// waitedFor is for how long those have who ask: both sides of each line.
	waitedFor = []Millis{0, StarvesAfter, StarvesAfter + 1, 2*StarvesAfter + 1, 2 * (StarvesAfter + 1)}
)

var spaces = []space{
	{name: "three owners, two names", owners: threeOwner, names: twoNames, depth: []int{1, 1, 1}, states: 3631},
	{name: "three owners, one name, marks", owners: threeOwner, names: oneName, depth: []int{1, 1, 1}, marks: twoNodes, ages: threeAges, hold: true, states: 7791},
	{name: "one of two owners nests, one name, marks", owners: twoNodes, names: oneName, depth: []int{2, 1}, marks: twoNodes, ages: twoAges, states: 11550},
	{name: "siblings in a chain, one name", owners: twoNodes, names: oneName, depth: []int{3, 1}, states: 14201},
	{name: "two owners, one name, nested, marks", owners: twoNodes, names: oneName, depth: []int{2, 2}, marks: twoNodes, ages: justBegun, hold: true, large: true, states: 38367},
	{name: "three owners, one name, nested", owners: threeOwner, names: oneName, depth: []int{2, 2, 2}, large: true, states: 90129},
	{name: "three owners, two names, marks", owners: threeOwner, names: twoNames, depth: []int{1, 1, 1}, marks: twoNodes, ages: justBegun, large: true, states: 287127},
	{name: "two owners, two names, nested", owners: twoNodes, names: twoNames, depth: []int{2, 2}, large: true, states: 491989},
}

func TestEveryStateKeepsTheInvariantsAndTheReference(t *testing.T) {
	t.Parallel()
	for _, sp := range spaces {
		if sp.large && !*exhaustive {
			continue
		}
		t.Run(sp.name, func(t *testing.T) {
			if !sp.large { // the large ones one after the other: they take gigabytes
				t.Parallel()
			}
			e := &explorer{t: t, space: sp, seen: map[string]int{}}
			e.run()
			e.t.Logf("%d states, %d steps", len(e.worlds), e.steps)
			states := len(e.worlds)
			require.Equal(t, sp.states, states, "the number of states has changed: do you know why?")
		})
	}
}

// explorer walks a space.
type explorer struct {
	t *testing.T
	space
	worlds []world
	seen   map[string]int // key of a world -> its place in worlds
	ids    int
	steps  int

	at   int      // the world that is being looked at
	refs refLocks // the same world, as the reference sees it
}

// world is one state: the records, and what the owners know of their own.
type world struct {
	now    Millis
	recs   []Record // in the order of space.names
	owners [][]slot // by owner, as many as space.depth says
	from   int      // the world it was first reached from
	by     string   // and how
}

// slot is one acquisition that its owner has not yet released nor given up.
type slot struct {
	id     string // empty: free
	parent int    // slot of the same owner that it is nested in; -1: none
	wants  []Want
	seen   int64 // renewals
}

func (e *explorer) run() {
	w := world{now: start, from: -1}
	for _, name := range e.names {
		w.recs = append(w.recs, Empty(name))
	}
	for _, depth := range e.depth {
		w.owners = append(w.owners, make([]slot, depth))
	}
	e.reach(w, "")
	for e.at = 0; e.at < len(e.worlds); e.at++ {
		w := e.worlds[e.at]
		before := deepCopy(w.recs)
		e.refs = refOf(w.recs, w.now)
		e.checkState(&w)
		e.everyStep(&w)
		if !reflect.DeepEqual(before, w.recs) {
			e.fail("the records passed in were changed")
		}
	}
	for i := range e.worlds { // a later step may have changed what it shared with an earlier world
		require.Equal(e.t, i, e.seen[e.key(&e.worlds[i])], "an older state was changed")
	}
}

// reach notes a world, if it is new.
func (e *explorer) reach(w world, by string, args ...any) {
	e.steps++
	key := e.key(&w)
	if _, old := e.seen[key]; old {
		return
	}
	w.from, w.by = e.at, fmt.Sprintf(by, args...)
	e.seen[key] = len(e.worlds)
	e.worlds = append(e.worlds, w)
}

// fail tells how the world was reached.
func (e *explorer) fail(format string, args ...any) {
	e.t.Helper()
	var way []string
	for i := e.at; i > 0; i = e.worlds[i].from {
		way = append(way, e.worlds[i].by)
	}
	slices.Reverse(way)
	e.t.Fatalf("%s\nafter: %s", fmt.Sprintf(format, args...), strings.Join(way, "; "))
}

// with is the world with other records and owners that may be changed.
func (w *world) with(recs []Record) world {
	c := world{now: w.now, recs: slices.Clone(w.recs), owners: make([][]slot, len(w.owners))}
	for i := range recs {
		c.recs[c.place(recs[i].LockName)] = recs[i]
	}
	for i := range w.owners {
		c.owners[i] = slices.Clone(w.owners[i])
	}
	return c
}

func (w *world) place(name string) int {
	return slices.IndexFunc(w.recs, func(r Record) bool { return r.LockName == name })
}

// of is the records of the wants, in their order.
func (w *world) of(wants []Want) []Record {
	recs := make([]Record, len(wants))
	for i := range wants {
		recs[i] = w.recs[w.place(wants[i].Name)]
	}
	return recs
}

// chain is the ids that a slot is nested in.
func (w *world) chain(owner, parent int) []string {
	var ids []string
	for p := parent; p >= 0; p = w.owners[owner][p].parent {
		ids = append(ids, w.owners[owner][p].id)
	}
	return ids
}

func deepCopy(recs []Record) []Record {
	c := make([]Record, len(recs))
	for i := range recs {
		c[i] = recs[i].clone()
		deepen(c[i].WriteOwner)
		for j := range c[i].ReadOwners {
			deepen(&c[i].ReadOwners[j])
		}
	}
	return c
}

func deepen(h *Holding) {
	if h == nil {
		return
	}
	h.ExpiresAt, h.ReleasedAt, h.Outcome = clonePtr(h.ExpiresAt), clonePtr(h.ReleasedAt), clonePtr(h.Outcome)
}

func clonePtr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return ptr(*p)
}
