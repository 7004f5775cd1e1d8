package deadlock

import "slices"

// remote is what is known of another node.
//
// Order of messages. Each message of a node carries a rising number. A waiter
// remembers the number of the message that told it, and a removed one leaves its
// number in gone, so an older message changes neither. A complete Full is a new
// start: whatever is older than it, and not in it, goes, and floor rises to it,
// below which every message is history.
type remote struct {
	incarnation int64
	floor, high int64 // history ends here; greatest number seen
	entries     map[string]*entry
	sum         uint64           // of the entries' digests
	gone        map[string]int64 // all above floor
	full        fullParts
	heard       int64 // any message above the floor
	confirmed   int64 // an Alive that matched: counts for every entry
	crowded     bool  // a cap has cut the list: asking again is no use
}

type entry struct {
	v          *vertex
	seq, heard int64
}

// fullParts gathers the parts of the newest Full.
type fullParts struct {
	seq   int64
	parts int
	got   []uint64 // a bit for each part
	count int
}

func newFullParts(m Message) fullParts {
	return fullParts{seq: m.Seq, parts: m.Parts, got: make([]uint64, (m.Parts+63)/64)}
}

// add notes one part, and tells whether it was the last one missing.
func (f *fullParts) add(part int) bool {
	word, bit := part/64, uint64(1)<<(part%64)
	if f.got[word]&bit != 0 {
		return false
	}
	f.got[word] |= bit
	f.count++
	return f.count == f.parts
}

const (
	// maxGone bounds the removals remembered between two Fulls. Above it the
	// floor rises: what was overtaken in between is lost until the next repeat.
	maxGone = 256
	// forgetLapses: the numbers of a silent node outlive its waiters, so that a
	// straggler does not bring them back.
	forgetLapses = 4
)

// Applied is what a message has changed, and what is to be done about it.
type Applied struct {
	Search []Key  // waiters for Find
	Answer bool   // somebody asks: publish Full, once, after a random pause
	Ask    string // a node whose list is not known as it is: publish Ask for it
}

// Apply takes in a decoded message of any node. Messages of this node do nothing.
func (t *Table) Apply(m Message, nowMillis int64) Applied {
	if m.Node == t.cfg.Node {
		t.stats.Own++
		return Applied{}
	}
	if m.Kind == Ask {
		return Applied{Answer: m.To == "" || m.To == t.cfg.Node}
	}
	r := t.node(m)
	if r == nil {
		return Applied{}
	}
	if m.Seq <= r.floor || m.Kind == Alive && m.Seq < r.high {
		t.stats.Stale++
		return Applied{}
	}
	r.high, r.heard = max(r.high, m.Seq), nowMillis
	switch m.Kind {
	case Full:
		return Applied{Search: t.applyFull(r, m, nowMillis)}
	case Delta:
		return Applied{Search: t.applyDelta(r, m, nowMillis)}
	default:
		return t.applyAlive(r, m, nowMillis)
	}
}

// node finds or makes the state of the sender; nil: the message does not count.
func (t *Table) node(m Message) *remote {
	r := t.remote[m.Node]
	switch {
	case r == nil && len(t.remote) >= t.cfg.Limits.Nodes:
		t.stats.OverNodes++
		return nil
	case r != nil && m.Incarnation < r.incarnation:
		t.stats.Stale++
		return nil
	case r != nil && m.Incarnation == r.incarnation:
		return r
	case r != nil:
		t.clear(r) // the node has started anew: its old waiters died with it
	}
	r = &remote{incarnation: m.Incarnation, entries: make(map[string]*entry), gone: make(map[string]int64)}
	t.remote[m.Node] = r
	return r
}

func (t *Table) clear(r *remote) {
	for _, e := range r.entries {
		t.drop(r, e)
	}
}

func (t *Table) applyFull(r *remote, m Message, now int64) []Key {
	if m.Seq > r.full.seq {
		r.full = newFullParts(m)
		r.crowded = false
	}
	search := t.putAll(r, m, now)
	if m.Seq == r.full.seq && m.Parts == r.full.parts && r.full.add(m.Part) {
		t.completeFull(r)
	}
	return search
}

func (t *Table) completeFull(r *remote) {
	for _, e := range r.entries {
		if e.seq < r.full.seq {
			t.drop(r, e)
		}
	}
	r.raiseFloor(r.full.seq)
}

func (r *remote) raiseFloor(seq int64) {
	r.floor = max(r.floor, seq)
	for id, at := range r.gone {
		if at <= r.floor {
			delete(r.gone, id)
		}
	}
	if r.full.seq <= r.floor {
		r.full.got = nil // never reached again: such parts are below the floor
	}
}

func (t *Table) applyDelta(r *remote, m Message, now int64) []Key {
	for _, id := range m.Removed {
		e := r.entries[id]
		if e != nil && e.seq >= m.Seq {
			continue // told again since
		}
		if e != nil {
			t.drop(r, e)
		}
		r.gone[id] = max(r.gone[id], m.Seq)
	}
	search := t.putAll(r, m, now)
	if len(r.gone) > maxGone {
		r.raiseFloor(m.Seq)
	}
	return search
}

func (t *Table) applyAlive(r *remote, m Message, now int64) Applied {
	if len(r.entries) == m.Waiters && r.sum == m.Sum {
		r.confirmed = now
		r.raiseFloor(m.Seq)
		return Applied{}
	}
	if r.crowded {
		return Applied{}
	}
	return Applied{Ask: m.Node}
}

func (t *Table) putAll(r *remote, m Message, now int64) []Key {
	var search []Key
	for _, w := range m.Put {
		if t.putRemote(r, w, m.Seq, now) {
			search = append(search, w.Key())
		}
	}
	return search
}

// putRemote tells whether the graph has changed.
func (t *Table) putRemote(r *remote, w Waiter, seq, now int64) bool {
	old := r.entries[w.ID]
	if old != nil && old.seq >= seq || r.gone[w.ID] >= seq {
		return false
	}
	v := newVertex(w)
	if old != nil && old.v.digest == v.digest {
		old.seq, old.heard = seq, now
		t.bytes += v.weight() - old.v.weight()
		old.v.Waiter = w // count, blockers and labels
		return false
	}
	if old != nil {
		t.drop(r, old)
	}
	if !v.matters() || len(r.entries) >= t.cfg.Limits.WaitersPerNode || t.bytes+v.weight() > t.cfg.Limits.TotalBytes {
		t.stats.OverWaiters++
		r.crowded = true
		return false
	}
	r.entries[w.ID] = &entry{v: v, seq: seq, heard: now}
	r.sum += v.digest
	t.bytes += v.weight()
	t.index.add(v)
	return true
}

func (t *Table) drop(r *remote, e *entry) {
	delete(r.entries, e.v.ID)
	r.sum -= e.v.digest
	t.bytes -= e.v.weight()
	t.index.remove(e.v)
}

// Expire drops remote waiters that were not repeated within the lapse time, and
// forgets nodes that have long been silent. It returns how many waiters went.
func (t *Table) Expire(nowMillis int64) int {
	before := t.stats.Lapsed
	for node, r := range t.remote {
		// A clock that went back must not keep anybody for ever.
		r.heard, r.confirmed = min(r.heard, nowMillis), min(r.confirmed, nowMillis)
		for _, e := range r.entries {
			e.heard = min(e.heard, nowMillis)
			if nowMillis-max(e.heard, r.confirmed) >= t.cfg.LapseMillis {
				t.drop(r, e)
				t.stats.Lapsed++
			}
		}
		if len(r.entries) == 0 && nowMillis-r.heard >= forgetLapses*t.cfg.LapseMillis {
			delete(t.remote, node)
		}
	}
	return t.stats.Lapsed - before
}

// Nodes returns the remote nodes that are known, sorted.
func (t *Table) Nodes() []string {
	nodes := make([]string, 0, len(t.remote))
	for node := range t.remote {
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	return nodes
}
