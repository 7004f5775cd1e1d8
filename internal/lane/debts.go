package lane

import (
	"time"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// Whoever lets go wakes the node whose waiter is the eldest, since only one can get
// in, and owes the others that somebody comes: it looks again after a moment, and wakes
// all if the lock is still free. Woken all at once, each would look, and all but one
// for nothing. If a node dies with such a debt, and the one it woke is dead too, the
// others rely on their poll.

// answerWithin is how long whoever was woken alone may take to come. Less than a
// grace: here nobody stands back, and to wake too many costs no more than it always did.
const answerWithin = 5 * time.Millisecond

// maxDebts bounds the debts; beyond it all are woken at once.
const maxDebts = 1024

// debt is that only one node was told of a lock.
type debt struct {
	node  string
	since lockrules.Millis
	due   time.Duration
}

// debts are those of all names. They belong to whoever has the baton, and are
// changed with Lane.mu held.
type debts struct {
	all map[string]debt
	due time.Duration // not later than the first due; 0: none that hasn't been taken

	closing bool // all are due, and no more are made
}

func newDebts() debts { return debts{all: make(map[string]debt)} }

func (d *debts) add(name string, owed debt) {
	d.all[name] = owed
	if d.due == 0 || owed.due < d.due {
		d.due = owed.due
	}
}

// take gives the names whose debts are due, or all. They stay until they are paid.
func (d *debts) take(now time.Duration, all bool, to []string) []string {
	d.closing = all
	if !all && (d.due == 0 || now < d.due) {
		return to
	}
	d.due = 0
	for name, owed := range d.all {
		switch {
		case all || owed.due <= now:
			to = append(to, name)
		case d.due == 0 || owed.due < d.due:
			d.due = owed.due
		}
	}
	return to
}

// isDue says that the others have to be told now: who closes doesn't come back.
func (d *debt) isDue(p *plan) bool { return d.due <= p.t || p.l.parked.debts.closing }

// pay tells all who gain of a lock that the one who was told has not taken.
func (p *plan) pay(name string) {
	owed, owes := p.l.parked.debts.all[name]
	if !owes || !owed.isDue(p) {
		return
	}
	if w, err := p.record(name); err == nil && !lockrules.HeldByAnybody(w.rec, p.now.Millis()) {
		w.opened, w.all = true, true
	}
}

// keepDebts notes what a committed plan owes, and what it has paid: the lock is
// held, and who holds it will wake who waits; or all have been told.
func (l *Lane) keepDebts(p *plan) {
	if len(l.parked.debts.all) == 0 && !p.owes {
		return // as with most locks
	}
	l.mu.Lock() // Close counts them
	defer l.mu.Unlock()
	for _, name := range p.b.names { // also of a record that can't be read
		if owed, owes := l.parked.debts.all[name]; owes && owed.isDue(p) {
			delete(l.parked.debts.all, name)
			if w := p.recs[name]; w != nil && w.all {
				l.rememberTurn(name, owed.node, turn{since: owed.since, at: p.now.Millis(), until: p.t})
			}
		}
	}
	for _, name := range p.order {
		switch w := p.recs[name]; {
		case w.debt != nil:
			l.parked.debts.add(name, *w.debt)
		case lockrules.HeldByAnybody(w.rec, p.now.Millis()):
			delete(l.parked.debts.all, name)
		}
	}
}

// wakes is whom to tell of an open lock: the one who is let go first, the one who
// is likely to be next, or all who gain.
func (p *plan) wakes(name string, w *work) []string {
	ms := p.now.Millis()
	switch {
	case w.offered(p):
		return []string{w.offer.node}
	case w.all || p.l.parked.debts.closing || len(p.l.parked.debts.all) >= maxDebts:
		return lockrules.Wake(w.rec, p.l.cfg.Node, ms)
	}
	nodes, others := lockrules.WakeFirst(w.rec, p.l.cfg.Node, ms, func(m lockrules.Mark) bool { return p.hadTurn(name, &m) })
	if others {
		p.owes = true
		w.debt = &debt{node: nodes[0], since: w.sinceOf(nodes[0]), due: p.t + answerWithin}
	}
	return nodes
}

func (w *work) sinceOf(node string) lockrules.Millis {
	for i := range w.rec.Waiting {
		if w.rec.Waiting[i].Node == node {
			return w.rec.Waiting[i].Since
		}
	}
	return 0
}
