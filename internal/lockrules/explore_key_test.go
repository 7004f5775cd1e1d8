package lockrules

import (
	"fmt"
	"slices"
	"strings"
)

// key is the world as far as the rules can tell: the smallest of its
// descriptions over the orders of names, and of owners on the same node.
func (e *explorer) key(w *world) string {
	best := ""
	var buf []byte
	for _, names := range orderings(len(e.names)) {
		for _, owners := range e.ownerOrders() {
			buf = e.describe(buf[:0], w, names, owners)
			if best == "" || string(buf) < best {
				best = string(buf)
			}
		}
	}
	return best
}

func orderings(n int) [][]int {
	if n == 1 {
		return [][]int{{0}}
	}
	return [][]int{{0, 1}, {1, 0}}
}

func (e *explorer) ownerOrders() [][]int {
	if len(e.space.owners) == 3 {
		return [][]int{{0, 1, 2}, {1, 0, 2}} // the first two are of one node
	}
	return [][]int{{0, 1}}
}

func (e *explorer) describe(b []byte, w *world, names, owners []int) []byte {
	for _, o := range owners {
		for _, s := range w.owners[o] {
			b = append(b, byte('0'+s.parent+1))
			for _, n := range names {
				b = append(b, w.holdingByte(&s, n))
			}
		}
	}
	for _, n := range names {
		for _, node := range e.marks {
			b = w.appendMark(b, n, node)
		}
		b = append(b, w.heldOn(n)...)
	}
	return b
}

// holdingByte is what an acquisition has in a record: nothing wanted, missing
// (overwritten), or the mode and the ticks left.
func (w *world) holdingByte(s *slot, name int) byte {
	rec := &w.recs[name]
	wanted := slices.ContainsFunc(s.wants, func(x Want) bool { return x.Name == rec.LockName })
	if s.id == "" || !wanted {
		return '-'
	}
	h, mode := rec.find(s.id)
	if h == nil {
		return '?'
	}
	left := max(h.end(w.now)-w.now, 0)
	return byte('A' + 10*int(mode) + int(left))
}

func (w *world) appendMark(b []byte, name int, node string) []byte {
	for i := range w.recs[name].Waiting {
		m := &w.recs[name].Waiting[i]
		if m.Node == node && m.Alive(w.now) {
			left := byte('a' + m.end(w.now) - w.now + map[bool]Millis{true: 10}[m.Write])
			return append(b, left, byte('A'+w.now-m.Since))
		}
	}
	return append(b, '.')
}

// heldOn is what is released but alive.
func (w *world) heldOn(name int) []byte {
	var all []string
	add := func(h *Holding, mode Mode) {
		if h.Alive(w.now) && h.ReleasedAt != nil {
			all = append(all, fmt.Sprint(h.Node, mode, h.end(w.now)-w.now))
		}
	}
	add(w.recs[name].WriteOwner, Write)
	for i := range w.recs[name].ReadOwners {
		add(&w.recs[name].ReadOwners[i], Read)
	}
	slices.Sort(all)
	return []byte(strings.Join(all, ","))
}
