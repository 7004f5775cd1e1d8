package lane

import (
	"time"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// A node that holds a lock and has waiters of its own hands it over without
// asking anybody, and one that takes it again and again is always quicker than
// a node that has to be woken. So the node whose waiter is the eldest is offered
// a turn, when that starves: this one lets go, wakes it and nobody else, and
// stands back for the grace.
//
// The other node may be dead, paused or deaf. Then the grace is all that it
// costs: this node waits for the lock itself, has a timer for the end of the
// grace, and makes no offer again to a wait that has not taken one, but after a rest.
// The others are not woken by an offer, so they rely on this node: should it die
// in the grace as well, on their poll.
const (
	grace = 20 * time.Millisecond
	// rest is for how long a wait that hasn't taken its turn is passed over. It
	// may have been deaf for a moment, or its call waits for another name too while
	// those behind it on its node do not.
	rest = 50 * grace
)

// maxTurns bounds the names, and the nodes of each, whose turns are remembered.
// Beyond it they are forgotten, which costs a grace more.
const (
	maxTurns     = 4096
	maxTurnNodes = 64
)

// turns is what was offered, by name and node. It belongs to whoever has the baton.
type turns map[string]map[string]turn

// turn is what a node was offered.
type turn struct {
	since lockrules.Millis // of the wait that it was offered to
	at    lockrules.Millis
	until time.Duration // end of the grace
}

// taken says whether the node has been in since. It shows in the record, held or
// released, but for a reader whom many others have followed.
func (t *turn) taken(node string, rec *lockrules.Record) bool {
	took := func(h *lockrules.Holding) bool { return h.Node == node && h.AcquiredAt >= t.at }
	if rec.WriteOwner != nil && took(rec.WriteOwner) {
		return true
	}
	for i := range rec.ReadOwners {
		if took(&rec.ReadOwners[i]) {
			return true
		}
	}
	return false
}

// offer is a turn that a plan makes or keeps up.
type offer struct {
	turn
	node string
	made bool // by this plan
}

// yields says whether the operation, which could be granted, lets another node
// go first. A nested call never does: its chain holds what others may need.
// Nor does a single attempt: it would have to say that the lock is taken.
func (p *plan) yields(o *op) (lockrules.Blocker, bool) {
	if len(o.req.Chain) > 0 || p.t >= o.patience || o.unsure {
		return lockrules.Blocker{}, false
	}
	for _, want := range o.req.Wants {
		if want.Mode == lockrules.Read {
			continue // whoever waits to write keeps it out anyway, and readers share
		}
		if f := p.offerFor(want.Name, p.since(o)); f != nil {
			ms := p.now.Millis()
			return lockrules.Blocker{Name: want.Name, Reason: lockrules.WriterWaits, Mode: lockrules.Write,
				Node: f.node, Since: f.since, Until: ms + millis(f.until-p.t) + 1}, true
		}
	}
	return lockrules.Blocker{}, false
}

// offerFor is the turn of another node that comes before somebody here who has
// waited since then; nil if there is none.
func (p *plan) offerFor(name string, since lockrules.Millis) *offer {
	w := p.recs[name]
	m, yes := lockrules.GoesFirst(w.rec, p.l.cfg.Node, since, p.now.Millis(), func(m lockrules.Mark) bool {
		return p.hadTurn(name, &m)
	})
	if !yes {
		return nil
	}
	if w.offer != nil && w.offer.node == m.Node {
		return w.offer
	}
	if t := p.l.turns[name][m.Node]; t.since == m.Since && p.t < t.until {
		w.offer = &offer{turn: t, node: m.Node}
	} else {
		w.offer = &offer{turn: turn{since: m.Since, at: p.now.Millis(), until: p.t + grace}, node: m.Node, made: true}
	}
	return w.offer
}

// hadTurn says that the wait behind the mark isn't offered a turn now. One that
// took its turn, and still looks as old, is of a node of the previous version.
func (p *plan) hadTurn(name string, m *lockrules.Mark) bool {
	t, known := p.l.turns[name][m.Node]
	switch {
	case !known || t.since != m.Since:
		return false
	case t.taken(m.Node, &p.recs[name].rec):
		return p.now.Millis() < t.at+lockrules.StarvesAfter
	}
	return t.until <= p.t && p.t < t.until+rest
}

// keepTurns remembers the offers of a plan that was committed, but for those that
// came to nothing: an elder one of this node was let in after all.
func (l *Lane) keepTurns(p *plan) {
	for _, name := range p.order {
		w := p.recs[name]
		if w.offer == nil || !w.offer.made || !w.offered(p) {
			continue
		}
		l.rememberTurn(name, w.offer.node, w.offer.turn)
	}
}

func (l *Lane) rememberTurn(name, node string, t turn) {
	nodes := l.turns[name]
	if nodes == nil || len(nodes) >= maxTurnNodes {
		if len(l.turns) >= maxTurns {
			clear(l.turns)
		}
		nodes = make(map[string]turn)
		l.turns[name] = nodes
	}
	nodes[node] = t
}

// tell has an offer told along with what else is written of the name. One that is
// made by a look that writes nothing isn't told: whoever opened the lock has done so.
func (w *work) tell() {
	if w.offer != nil && w.offer.made && w.dirty {
		w.opened = true
	}
}

// offered says that the offer of the plan stands at its end.
func (w *work) offered(p *plan) bool {
	return w.offer != nil && !w.rec.WriteOwner.Alive(p.now.Millis())
}

// forgetTurns forgets what was offered for names that no other node waits for.
func (l *Lane) forgetTurns(o *op, p *plan) {
	for _, name := range o.names {
		if l.turns[name] != nil && !lockrules.OthersWait(p.recs[name].rec, l.cfg.Node, p.now.Millis()) {
			delete(l.turns, name)
		}
	}
}

// graceEnds is when the last turn that is offered for name is over; 0 if none is.
// One that has been taken is no reason to try at its end.
func (l *Lane) graceEnds(name string, rec *lockrules.Record, now time.Duration) (end time.Duration) {
	for node, t := range l.turns[name] {
		if t.until > now && !t.taken(node, rec) {
			end = max(end, t.until)
		}
	}
	return end
}
