package deadlock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Limits are the caps that keep a node from being bloated by messages. A field
// of zero means its default.
type Limits struct {
	MessageBytes   int // of one message; default 16 KiB
	Nodes          int // remote nodes; default 1,024
	WaitersPerNode int // told waiters of one node; default 16,384
	NamesPerWaiter int // wishes and holds of one waiter, and its blockers; default 256
	TotalBytes     int // estimated memory of all remote waiters; default 64 MiB
}

func (l Limits) withDefaults() Limits {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&l.MessageBytes, 16<<10)
	set(&l.Nodes, 1024)
	set(&l.WaitersPerNode, 16<<10)
	set(&l.NamesPerWaiter, 256)
	set(&l.TotalBytes, 64<<20)
	return l
}

// maxParts is more than the longest list of a node can need: a part is at least
// half full before the next begins.
func (l Limits) maxParts() int { return l.WaitersPerNode }

// minMessageBytes leaves room for the longest header and one ordinary waiter.
const minMessageBytes = 2048

// Config is what a table is made with.
type Config struct {
	Node        string // of this process; messages under this name are ignored
	Incarnation int64  // greater than at any earlier start under the same node id
	LapseMillis int64  // a remote waiter that was not repeated for so long is dropped: three poll delays
	Limits      Limits
}

func (c Config) validate() error {
	var errs []error
	if !between(c.Node, 1, maxIDBytes) {
		errs = append(errs, fmt.Errorf("deadlock: node id must have 1 to %d bytes of UTF-8", maxIDBytes))
	}
	if c.Incarnation <= 0 {
		errs = append(errs, errors.New("deadlock: incarnation must be positive"))
	}
	if c.LapseMillis <= 0 {
		errs = append(errs, errors.New("deadlock: lapse time must be positive"))
	}
	l := c.Limits
	if l.MessageBytes < minMessageBytes || l.Nodes < 0 || l.WaitersPerNode < 0 || l.NamesPerWaiter < 0 || l.TotalBytes < 0 {
		errs = append(errs, fmt.Errorf("deadlock: limits must not be negative, and a message needs %d bytes", minMessageBytes))
	}
	return errors.Join(errs...)
}

// Stats counts what a table has refused, since it was made.
type Stats struct {
	Own         int // messages under the own node id: the echo of what was published
	Stale       int // old, repeated or overtaken messages
	OverNodes   int // messages of nodes above the cap
	OverWaiters int // remote waiters above a cap
	LocalOver   int // local waiters that break a cap, and are not told
	Lapsed      int // remote waiters that were not repeated in time
}

// Table is what one node knows of the waiters of all nodes. It has no lock: the
// caller serialises. Times are the caller's milliseconds; only their differences
// matter.
type Table struct {
	cfg    Config
	index  index // local and remote
	local  local
	remote map[string]*remote
	bytes  int // weight of all remote waiters
	stats  Stats
}

// NewTable returns an empty table.
func NewTable(cfg Config) (*Table, error) {
	cfg.Limits = cfg.Limits.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Table{cfg: cfg, index: newIndex(), local: newLocal(), remote: make(map[string]*remote)}, nil
}

// Stats returns the counters.
func (t *Table) Stats() Stats { return t.stats }

// Waiters returns every vertex of the graph, in no particular order: local and
// remote waiters, those that look alike once.
func (t *Table) Waiters() []Waiter {
	out := make([]Waiter, 0, t.index.size)
	for _, v := range t.vertices() {
		out = append(out, v.Waiter)
	}
	return out
}

func (t *Table) vertices() []*vertex {
	out := slices.Collect(maps.Values(t.local.shown))
	for _, r := range t.remote {
		for _, e := range r.entries {
			out = append(out, e.v)
		}
	}
	return out
}

func (t *Table) vertex(k Key) *vertex {
	if k.Node == t.cfg.Node {
		return t.local.shown[k.ID]
	}
	if r := t.remote[k.Node]; r != nil {
		if e := r.entries[k.ID]; e != nil {
			return e.v
		}
	}
	return nil
}

// Deadlocks searches the whole table; see Victims.
func (t *Table) Deadlocks() []Deadlock { return victims(t.vertices()) }

// manyChanges is where one search of everything is cheaper than one for each.
const manyChanges = 32

// Find searches from the changed waiters. For the cycles that go through them,
// and all that these are entangled with, it returns exactly what Deadlocks
// returns; it may return others too.
func (t *Table) Find(changed ...Key) []Deadlock {
	if len(changed) > manyChanges {
		return t.Deadlocks()
	}
	var found []Deadlock
	done := make(map[*vertex]bool)
	for _, key := range changed {
		v := t.vertex(key)
		if v == nil || done[v] {
			continue
		}
		r := t.index.reach(v)
		if !r.cycle {
			continue
		}
		g := newGraph(r.found)
		for _, knot := range g.knots(nil) {
			found = append(found, g.untieNew(knot, done)...)
		}
	}
	sortDeadlocks(found)
	return found
}

// Through is a cycle through the waiter that stands although those gone are left
// out, with that waiter for its victim: whoever is the victim of a knot stays it
// when a part of the knot turns out to be old news.
func (t *Table) Through(key Key, gone []Key) (Deadlock, bool) {
	v := t.vertex(key)
	if v == nil {
		return Deadlock{}, false
	}
	left := slices.DeleteFunc(t.index.reach(v).found, func(u *vertex) bool { return slices.Contains(gone, u.Key()) })
	for _, d := range victims(left) {
		for i := range d.Cycle {
			if d.Cycle[i].Key() == key {
				d.Victim = i
				return d, true
			}
		}
	}
	return Deadlock{}, false
}

// untieNew skips a knot that an earlier search has seen: every search sees each
// knot whole or not at all.
func (g *graph) untieNew(knot []int32, done map[*vertex]bool) []Deadlock {
	if done[g.vs[knot[0]]] {
		return nil
	}
	for _, i := range knot {
		done[g.vs[i]] = true
	}
	return g.untie(knot)
}
