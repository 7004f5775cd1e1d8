package lockrules

import (
	"maps"
	"math"
	"slices"
)

// The rules once more, as dumb as can be: maps of what is alive, and loops. It
// is written from the description of the rules and not from the code, and is
// slow and clear where the code is quick. It knows only what counts: previous
// owners, texts and unknown fields are none of its business.

// refLocks is what is alive, by name of the lock.
type refLocks map[string]refLock

type refLock struct {
	holds map[string]refHold // by id of the acquisition, a letter for the mode before it
	marks map[string]refMark // by node
	token int64
}

type refHold struct {
	id, node          string
	write, released   bool
	acquired, expires Millis
	lease             Millis
	token, renewals   int64
}

type refMark struct {
	write               bool
	since, until, lasts Millis
}

func (h refHold) key() string {
	if h.write {
		return "w" + h.id
	}
	return "r" + h.id
}

// refOf reads what is alive in the records.
func refOf(recs []Record, now Millis) refLocks {
	locks := refLocks{}
	for _, rec := range recs {
		l := refLock{holds: map[string]refHold{}, marks: map[string]refMark{}, token: rec.FencingToken}
		if rec.WriteOwner != nil {
			l.add(*rec.WriteOwner, true, now)
		}
		for _, h := range rec.ReadOwners {
			l.add(h, false, now)
		}
		for _, m := range rec.Waiting {
			until := min(m.Until, now+m.LastsMillis)
			if now < until {
				l.marks[m.Node] = refMark{write: m.Write, since: m.Since, until: until, lasts: m.LastsMillis}
			}
		}
		locks[rec.LockName] = l
	}
	return locks
}

func (l refLock) add(h Holding, write bool, now Millis) {
	if h.ExpiresAt == nil {
		return
	}
	expires := min(*h.ExpiresAt, now+h.LeaseMillis) // the clock went back
	if now >= expires {
		return
	}
	r := refHold{id: h.ID, node: h.Node, write: write, released: h.ReleasedAt != nil, acquired: h.AcquiredAt,
		expires: expires, lease: h.LeaseMillis, token: h.FencingToken, renewals: h.Renewals}
	l.holds[r.key()] = r
}

// at is what is still alive at a later moment if nobody does anything, but for
// the holdings of keep, whose owner renews them.
func (s refLocks) at(now Millis, keep []string) refLocks {
	later := refLocks{}
	for name, l := range s {
		c := l.copy()
		maps.DeleteFunc(c.holds, func(_ string, h refHold) bool { return h.expires <= now && !slices.Contains(keep, h.id) })
		maps.DeleteFunc(c.marks, func(_ string, m refMark) bool { return m.until <= now })
		later[name] = c
	}
	return later
}

func (l refLock) copy() refLock {
	return refLock{holds: maps.Clone(l.holds), marks: maps.Clone(l.marks), token: l.token}
}

func (s refLocks) copy() refLocks {
	c := refLocks{}
	for name, l := range s {
		c[name] = l.copy()
	}
	return c
}

func (s refLocks) equal(o refLocks) bool {
	return maps.EqualFunc(s, o, func(a, b refLock) bool {
		return a.token == b.token && maps.Equal(a.holds, b.holds) && maps.Equal(a.marks, b.marks)
	})
}

// own says whether a holding is the asker's or its chain's, and not given up.
func (h refHold) own(a Asker) bool {
	return !h.released && (h.id == a.ID || slices.Contains(a.Chain, h.id))
}

// refPatience is for how long who waits first is not asked.
const refPatience = 25

// inTheWay tells what blocks the request, each with the moment it lapses.
//
// Write: no other holding alive outside the caller's chain. Read: no other
// writer alive outside the chain, and no writer waiting on another node, or
// parked on this one, unless the chain holds the name already. A reader that has
// run out of patience doesn't mind the waiting writers that haven't been there
// before it.
func (s refLocks) inTheWay(req Request, parked *Millis, now Millis) map[string]Millis {
	why := map[string]Millis{}
	for _, w := range req.Wants {
		l := s[w.Name]
		holdsIt := false
		for _, h := range l.holds {
			holdsIt = holdsIt || h.own(req.Asker)
			if !h.own(req.Asker) && (w.Mode == Write || h.write) {
				why[w.Name+" held by "+h.id] = h.expires
			}
		}
		if w.Mode == Write || holdsIt {
			continue
		}
		await := func(node string, since, until Millis) {
			patience := req.Since + refPatience + 1
			switch {
			case req.Since == 0 || since < req.Since:
				why[w.Name+" awaited by "+node] = until
			case now < patience:
				why[w.Name+" awaited by "+node] = min(until, patience)
			}
		}
		for node, m := range l.marks {
			if m.write && node != req.Node {
				await(node, m.since, m.until)
			}
		}
		if parked != nil {
			await(req.Node, *parked, parkedUntil)
		}
	}
	return why
}

// parkedUntil is what the tests say of a writer that is parked.
const parkedUntil Millis = math.MaxInt32

// retryAt tries millisecond by millisecond until nothing is in the way.
func (s refLocks) retryAt(req Request, now Millis) Millis {
	own := append([]string{req.ID}, req.Chain...)
	for at := now; ; at++ {
		if len(s.at(at, own).inTheWay(req, nil, at)) == 0 {
			return at
		}
	}
}

// acquire gives all locks of the request, nothing being in the way.
func (s refLocks) acquire(req Request, now Instant) (after refLocks, token int64) {
	after = s.copy()
	token = int64(now)
	again := true
	for _, w := range req.Wants {
		token = max(token, s[w.Name].token+1)
		_, holding := s[w.Name].holds[refHold{id: req.ID, write: w.Mode == Write}.key()]
		again = again && holding
	}
	for _, w := range req.Wants {
		l := after[w.Name]
		h := refHold{id: req.ID, node: req.Node, write: w.Mode == Write, acquired: now.Millis(),
			expires: now.Millis() + req.LeaseMillis, lease: req.LeaseMillis, token: token}
		if old, holding := l.holds[h.key()]; holding {
			h.acquired, h.renewals, h.expires = old.acquired, old.renewals, max(h.expires, old.expires)
			if again {
				h.token, token = old.token, old.token
			}
		}
		if h.write && l.chainWrites(req) {
			continue
		}
		l.holds[h.key()] = h
		l.token = max(l.token, h.token)
		after[w.Name] = l
	}
	return after, token
}

// chainWrites: what the chain writes already is reused, not granted again.
func (l refLock) chainWrites(req Request) bool {
	for _, h := range l.holds {
		if h.write && !h.released && slices.Contains(req.Chain, h.id) {
			return true
		}
	}
	return false
}

// release ends the holding, at once or after holdFor from its grant.
func (s refLocks) release(id string, holdFor, now Millis) refLocks {
	after := s.copy()
	for _, l := range after {
		for key, h := range l.holds {
			if h.id != id || h.released {
				continue
			}
			h.released, h.expires = true, min(h.expires, h.acquired+holdFor)
			if h.expires <= now {
				delete(l.holds, key)
				continue
			}
			l.holds[key] = h
		}
	}
	return after
}

// renew extends the acquisition in all of the named locks, or in none.
func (s refLocks) renew(id string, names []string, lease, now Millis) (after refLocks, ok bool) {
	after = s.copy()
	for _, name := range names {
		found := false
		for key, h := range after[name].holds {
			if h.id == id && !h.released {
				found = true
				h.expires = max(h.expires, now+lease)
				h.renewals++
				after[name].holds[key] = h
			}
		}
		if !found {
			return s, false
		}
	}
	return after, true
}

// setMark says what the node's waiters want, and since when; a mark that says so
// already is left alone for the first third of its time.
func (s refLocks) setMark(name, node string, w Waiters, now, lasts Millis) refLocks {
	after := s.copy()
	old, there := after[name].marks[node]
	if w.Want == Nobody {
		delete(after[name].marks, node)
		return after
	}
	used := now - (old.until - lasts)
	if there && old.since == w.Since && old.write == (w.Want == SomeWrites) && 3*used < lasts {
		return after
	}
	after[name].marks[node] = refMark{write: w.Want == SomeWrites, since: w.Since, until: now + lasts, lasts: lasts}
	return after
}

// wake names the nodes of which a waiter could be granted the lock, were those
// gone who have released already: the best placed of its possible waiters. A
// reader whose chain holds the lock, and whoever is nested in its writer, has
// it by reuse and does not wait. A reader that only has to wait until its patience
// has run out is told as well.
func (s refLocks) wake(name, self string, now Millis) []string {
	l := s[name].copy()
	maps.DeleteFunc(l.holds, func(_ string, h refHold) bool { return h.released })
	var nodes []string
	for node, m := range l.marks {
		if node == self {
			continue
		}
		waiter := Request{Asker: Asker{ID: "a waiter", Node: node, Since: m.since}, Wants: []Want{{Name: name, Mode: Read}}}
		if m.write {
			waiter.Wants[0].Mode = Write
			for _, h := range l.holds {
				if h.node == node && !h.write {
					waiter.Chain = append(waiter.Chain, h.id)
				}
			}
		}
		if len((refLocks{name: l}).inTheWay(waiter, nil, max(now, m.since+refPatience+1))) == 0 {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// goesFirst is the node that has waited longest of those that self has to let go
// first; empty if there is none. Of two that have waited as long it is either. The
// node but has had its turn.
func (s refLocks) goesFirst(name, self, but string, since, now Millis) (nodes []string) {
	var eldest Millis
	for _, node := range s.wake(name, self, now) {
		m := s[name].marks[node]
		if node == but || now-m.since <= refPatience || since-m.since <= refPatience {
			continue
		}
		switch {
		case len(nodes) == 0 || m.since < eldest:
			nodes, eldest = []string{node}, m.since
		case m.since == eldest:
			nodes = append(nodes, node)
		}
	}
	return nodes
}
