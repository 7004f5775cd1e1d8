package deadlock

import (
	"container/heap"
	"maps"
	"slices"
)

// local is what waits in this process, as the other nodes are to see it.
//
// Waiters that hold nothing and wish the same are one vertex, here as elsewhere:
// all nodes must judge the same graph. The oldest of them stands for all. It
// stays the same while others join, and when it goes the next is younger, so a
// class that was the victim of a cycle stays the victim.
type local struct {
	members map[string]*member
	classes map[string]*class
	shown   map[string]*vertex  // the vertices, by id
	told    map[string]uint64   // digest of what the other nodes were told, by id
	dirty   map[string]struct{} // ids that may differ between shown and told
	size    int                 // bytes of all shown
	seq     int64
	quiet   int // repeats of an empty list in a row
}

type member struct {
	v     *vertex
	class *class // nil: it holds something
	place int    // in the heap
}

// class is a heap of plain waiters of the same wish, the oldest first.
type class struct {
	wish string
	list []*member
}

func (c *class) Len() int           { return len(c.list) }
func (c *class) Less(i, j int) bool { return older(c.list[i].v.Waiter, c.list[j].v.Waiter) < 0 }
func (c *class) Swap(i, j int) {
	c.list[i], c.list[j] = c.list[j], c.list[i]
	c.list[i].place, c.list[j].place = i, j
}

func (c *class) Push(x any) {
	m := x.(*member)
	m.place = len(c.list)
	c.list = append(c.list, m)
}

func (c *class) Pop() any {
	last := len(c.list) - 1
	m := c.list[last]
	c.list[last] = nil
	c.list = c.list[:last]
	return m
}

func newLocal() local {
	return local{
		members: make(map[string]*member), classes: make(map[string]*class),
		shown: make(map[string]*vertex), told: make(map[string]uint64), dirty: make(map[string]struct{}),
	}
}

// Put adds or updates a waiter of this process, and returns the waiters to
// search from. Node is set by the table; labels are cut to size. A waiter that
// cannot be in a cycle (it holds nothing and only reads) is not kept. One that
// breaks a cap is counted, and not kept either: a node must not judge by what
// the others cannot know. It may be put again later.
func (t *Table) Put(w Waiter) []Key {
	v := t.admit(w)
	old := t.local.members[w.ID]
	if v != nil && old != nil && old.v.digest == v.digest {
		t.refresh(old, v)
		return nil
	}
	var search []Key
	if old != nil {
		search = t.Remove(w.ID)
	}
	if v == nil {
		return search
	}
	return append(search, t.insert(v)...)
}

// admit returns the vertex to keep, or nil.
func (t *Table) admit(w Waiter) *vertex {
	w.Node, w.Count = t.cfg.Node, 1
	w.Owner, w.Site = clip(w.Owner, maxLabelBytes), clip(w.Site, maxLabelBytes)
	if w.checkBlockers(t.cfg.Limits) != nil {
		w.Blockers = nil
	}
	if w.check(t.cfg.Limits) != nil {
		t.stats.LocalOver++
		return nil
	}
	v := newVertex(w)
	if !v.matters() {
		return nil
	}
	if v.size = encodedSize(v.Waiter); v.size > t.room() {
		v.Blockers = nil
		v.size = encodedSize(v.Waiter)
	}
	if v.size > t.room() {
		t.stats.LocalOver++
		return nil
	}
	return v
}

// countBytes is what a count adds to the JSON of a waiter at most.
const countBytes = len(`,"count":1073741824`)

func encodedSize(w Waiter) int {
	raw, err := encodeWaiter(w)
	if err != nil {
		panic("deadlock: strings and numbers always encode: " + err.Error())
	}
	return len(raw) + len(",") + countBytes
}

// room is what the longest header leaves in a message.
func (t *Table) room() int { return t.cfg.Limits.MessageBytes - 256 - 6*len(t.cfg.Node) }

// refresh takes over what does not matter for the graph.
func (t *Table) refresh(m *member, v *vertex) {
	v.Count = m.v.Count
	if t.local.shown[v.ID] == m.v {
		t.local.size += v.size - m.v.size
	}
	m.v.Waiter, m.v.size = v.Waiter, v.size
}

func (t *Table) insert(v *vertex) []Key {
	l := &t.local
	var c *class
	if v.plain() {
		c = l.classes[v.wish()]
	}
	if c == nil && len(l.shown) >= t.cfg.Limits.WaitersPerNode {
		t.stats.LocalOver++
		return nil
	}
	m := &member{v: v}
	l.members[v.ID] = m
	if !v.plain() {
		return t.show(v)
	}
	if c == nil {
		c = &class{wish: v.wish()}
		l.classes[c.wish] = c
	}
	return t.join(m, c)
}

func (t *Table) join(m *member, c *class) []Key {
	var before *member
	if c.Len() > 0 {
		before = c.list[0]
	}
	m.class = c
	heap.Push(c, m)
	if c.list[0] == before {
		before.v.Count = c.Len()
		return nil
	}
	if before != nil {
		t.hide(before.v)
	}
	return t.show(c.list[0].v)
}

// Remove takes out a waiter of this process that waits no longer. Whoever now
// stands for the same wish is to be searched from.
func (t *Table) Remove(id string) []Key {
	m := t.local.members[id]
	if m == nil {
		return nil
	}
	delete(t.local.members, id)
	c := m.class
	if c == nil {
		t.hide(m.v)
		return nil
	}
	first := m.place == 0
	heap.Remove(c, m.place)
	if first {
		t.hide(m.v)
	}
	switch {
	case c.Len() == 0:
		delete(t.local.classes, c.wish)
		return nil
	case first:
		return t.show(c.list[0].v)
	default:
		c.list[0].v.Count = c.Len()
		return nil
	}
}

func (t *Table) show(v *vertex) []Key {
	v.Count = 1
	if m := t.local.members[v.ID]; m.class != nil {
		v.Count = m.class.Len()
	}
	t.local.shown[v.ID] = v
	t.local.dirty[v.ID] = struct{}{}
	t.local.size += v.size
	t.index.add(v)
	return []Key{v.Key()}
}

func (t *Table) hide(v *vertex) {
	v.Count = 1
	delete(t.local.shown, v.ID)
	t.local.dirty[v.ID] = struct{}{}
	t.local.size -= v.size
	t.index.remove(v)
}

// Delta returns the messages for what has changed since the others were last
// told, or nil. What came and went in between is not told, nor is a count alone.
func (t *Table) Delta() [][]byte {
	l := &t.local
	m := t.message(Delta)
	for _, id := range slices.Sorted(maps.Keys(l.dirty)) {
		v, told := l.shown[id], l.told[id]
		_, known := l.told[id]
		switch {
		case v == nil && known:
			delete(l.told, id)
			m.Removed = append(m.Removed, id)
		case v != nil && (!known || told != v.digest):
			l.told[id] = v.digest
			m.Put = append(m.Put, v.Waiter)
		}
	}
	clear(l.dirty)
	if len(m.Put)+len(m.Removed) == 0 {
		return nil
	}
	return t.send(m)
}

// Full returns the whole list: the answer to an Ask.
func (t *Table) Full() [][]byte {
	l := &t.local
	m := t.message(Full)
	clear(l.told)
	clear(l.dirty)
	for _, id := range slices.Sorted(maps.Keys(l.shown)) {
		v := l.shown[id]
		l.told[id] = v.digest
		m.Put = append(m.Put, v.Waiter)
	}
	return t.send(m)
}

// emptyRepeats: a node where nobody waits says so a few times, in case the
// removal was lost, and then is quiet.
const emptyRepeats = 3

// Repeat returns what is to be published once per poll delay: the whole list if
// it fits into one message, else that the list is still as it was (after what
// changed). It is nil while nobody waits here.
func (t *Table) Repeat() [][]byte {
	l := &t.local
	if len(l.shown) > 0 {
		l.quiet = 0
	} else if l.quiet++; l.quiet > emptyRepeats {
		return nil
	}
	if l.size <= t.room() {
		return t.Full()
	}
	changed := t.Delta()
	m := t.message(Alive)
	m.Waiters = len(l.told)
	for _, digest := range l.told {
		m.Sum += digest
	}
	return append(changed, t.send(m)...)
}

// Ask returns the message that makes a node, or with an empty argument every
// other node, send its Full.
func (t *Table) Ask(node string) []byte {
	m := t.message(Ask)
	m.To = node
	return t.encode(m)[0]
}

func (t *Table) message(kind Kind) Message {
	return Message{Node: t.cfg.Node, Incarnation: t.cfg.Incarnation, Kind: kind}
}

func (t *Table) send(m Message) [][]byte {
	t.local.seq++
	m.Seq = t.local.seq
	return t.encode(m)
}

func (t *Table) encode(m Message) [][]byte {
	out, err := Encode(m, t.cfg.Limits)
	if err != nil {
		panic("deadlock: every waiter of the table fits: " + err.Error())
	}
	return out
}
