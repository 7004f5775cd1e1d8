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

// Waiters is what SetMark is told of a node's waiters.
type Waiters struct {
	Want  Waits
	Since Millis // since when the first of them waits
}

// SetMark makes the node's mark say what its waiters want. A mark is worth a
// write, so changed says, when it says something else than before or has used up
// a third of its time. That another of them is the first now is not: after says
// so all the same, for whoever writes the record anyway.
//
// opened says that the mark no longer keeps readers out who had stepped down for
// it, or fewer of them.
func SetMark(rec Record, node string, w Waiters, now, lasts Millis) (after Record, changed, opened bool) {
	i := slices.IndexFunc(rec.Waiting, func(m Mark) bool { return m.Node == node })
	switch {
	case i < 0 && w.Want == Nobody:
		return rec, false, false
	case i < 0:
		return rec.marked(append(slices.Clone(rec.Waiting), Mark{Node: node}.with(w, now, lasts)), now), true, false
	case w.Want == Nobody:
		return rec.marked(slices.Delete(slices.Clone(rec.Waiting), i, i+1), now), true, rec.Waiting[i].Write
	}
	old, next := rec.Waiting[i], rec.Waiting[i].with(w, now, lasts)
	changed = next.Write != old.Write || old.end(now)-now <= lasts-lasts/3
	opened = old.Write && (!next.Write || old.Since < next.Since)
	if !changed && next.Since == old.Since {
		return rec, false, false // the usual case, and it costs no copy
	}
	waiting := slices.Clone(rec.Waiting)
	waiting[i] = next
	return rec.marked(waiting, now), changed, opened
}

// marked is the record with those marks, as far as they are alive.
func (r *Record) marked(waiting []Mark, now Millis) Record {
	c := r.clone()
	c.Waiting = waiting
	c.tidy(now)
	return c
}

// with is the mark, saying from now what the waiters want. A wait from the future
// began before Redis' clock went back.
func (m Mark) with(w Waiters, now, lasts Millis) Mark {
	m.Write, m.Since, m.Until, m.LastsMillis = w.Want == SomeWrites, min(w.Since, now), now+lasts, lasts
	return m
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
// waits, only its turn counts: the readers parked there let it pass, or are next
// when its turn comes. Readers elsewhere gain also beside writers that came after
// them, and before they starve: they have to learn that it is only that they wait for.
func (r *Record) gains(m *Mark, now Millis) bool {
	if m.Write {
		return r.freeFor(m.Node, Write, now)
	}
	return r.freeFor(m.Node, Read, now) && !r.writerBefore(m, now)
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

// writerBefore says whether another node's writer is one that m's readers let pass.
func (r *Record) writerBefore(m *Mark, now Millis) bool {
	return slices.ContainsFunc(r.Waiting, func(o Mark) bool {
		return o.Write && o.Node != m.Node && o.Alive(now) && o.Since < m.Since
	})
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

// OthersWait says whether a node other than self waits.
func OthersWait(rec Record, self string, now Millis) bool {
	return slices.ContainsFunc(rec.Waiting, func(m Mark) bool { return m.Node != self && m.Alive(now) })
}
