package lockrules

import "slices"

// Waits is what the waiters of one node want of a lock, taken together.
type Waits uint8

// What the waiters of a node want.
const (
	Nobody     Waits = iota // nobody there waits
	SomeRead                // somebody waits, nobody to write
	SomeWrites              // somebody waits to write
)

// SetMark makes the node's mark say what its waiters want. A mark is written
// when it says something else than before, or has used up a third of its time.
// opened says that it no longer keeps readers out who had stepped down for it.
func SetMark(rec Record, node string, waits Waits, now, lasts Millis) (after Record, changed, opened bool) {
	i := slices.IndexFunc(rec.Waiting, func(m Mark) bool { return m.Node == node })
	switch {
	case i < 0 && waits == Nobody:
		return rec, false, false
	case i < 0:
		c := rec.clone()
		c.tidy(now)
		c.Waiting = append(c.Waiting, Mark{Node: node, Write: waits == SomeWrites,
			Since: now, Until: now + lasts, LastsMillis: lasts})
		return c, true, false
	}
	old := &rec.Waiting[i]
	opened = old.Write && waits != SomeWrites
	if waits != Nobody && old.Write == (waits == SomeWrites) && old.end(now)-now > lasts-lasts/3 {
		return rec, false, false
	}
	c := rec.clone()
	if waits == Nobody {
		c.Waiting = slices.Delete(c.Waiting, i, i+1)
	} else {
		m := &c.Waiting[i]
		m.Write, m.Until, m.LastsMillis = waits == SomeWrites, now+lasts, lasts
	}
	c.tidy(now)
	return c, true, opened
}

// Wake names the nodes, other than self, that wait for the lock and have
// something to gain by trying at once. A node that can't get in as the record
// stands is left asleep: whoever is in its way will wake it.
func Wake(rec Record, self string, now Millis) []string {
	var nodes []string
	for i := range rec.Waiting {
		m := &rec.Waiting[i]
		if m.Node == self || !m.Alive(now) {
			continue
		}
		if rec.gains(m, now) {
			nodes = append(nodes, m.Node)
		}
	}
	return nodes
}

// gains says whether a waiter of the mark's node may get in. Where a writer
// waits, only its turn counts: the readers parked there let it pass.
func (r *Record) gains(m *Mark, now Millis) bool {
	if m.Write {
		return r.freeFor(m.Node, Write, now)
	}
	return r.freeFor(m.Node, Read, now) && !r.otherWriterWaits(m.Node, now)
}

// freeFor says whether somebody on the node may get in. What the node itself
// reads doesn't count: it may belong to the chain of the one who waits to write.
// A writer always counts: whoever is nested in it has no need to wait.
func (r *Record) freeFor(node string, want Mode, now Millis) bool {
	if r.WriteOwner.willWake(now) {
		return false
	}
	return want == Read || !slices.ContainsFunc(r.ReadOwners, func(h Holding) bool {
		return h.Node != node && h.willWake(now)
	})
}

// willWake says whether the holding is in the way and its release will wake
// others. One that is released, and held for a while yet, is in the way but
// wakes nobody any more: those who wait must learn now when it will end.
func (h *Holding) willWake(now Millis) bool { return h.Alive(now) && h.ReleasedAt == nil }

func (r *Record) otherWriterWaits(node string, now Millis) bool {
	return slices.ContainsFunc(r.Waiting, func(m Mark) bool { return m.Write && m.Node != node && m.Alive(now) })
}

// NextLapse is the first moment after now at which something in the record
// that keeps somebody out lapses by itself; 0 if there is nothing of the kind.
func NextLapse(rec Record, now Millis) Millis {
	var next Millis
	at := func(end Millis) {
		if end > now && (next == 0 || end < next) {
			next = end
		}
	}
	if rec.WriteOwner != nil {
		at(rec.WriteOwner.end(now))
	}
	for i := range rec.ReadOwners {
		at(rec.ReadOwners[i].end(now))
	}
	for i := range rec.Waiting {
		if rec.Waiting[i].Write {
			at(rec.Waiting[i].end(now))
		}
	}
	return next
}

// HeldByAnybody says whether the record keeps a live holding.
func HeldByAnybody(rec Record, now Millis) bool { return rec.heldByOthers("", now) }
