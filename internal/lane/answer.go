package lane

import (
	"time"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// answer gives the callers what was decided. It rests on a commit, or on data
// that was read after they had asked.
func (l *Lane) answer(p *plan) {
	if p.standing.Write != nil && !p.writes.Empty() {
		l.known = true
	}
	l.served()
	p.sure()
	l.mu.Lock()
	for i := range p.answers {
		l.answerLocked(p, &p.answers[i])
	}
	l.again = append(l.again, p.missed...)
	l.mu.Unlock()
	l.keepTurns(p)
	l.keepDebts(p)
	l.setDues(p)
	l.tellOf(p)
}

func (l *Lane) answerLocked(p *plan, a *answer) {
	o := a.op
	switch {
	case a.park && o.waiting:
		o.out.blockers = a.out.blockers
	case a.park:
		l.parkLocked(o, a, p)
	case o.gone || o.phase == finished:
		// Granted to somebody who has left meanwhile. Nobody would release it.
		l.goneLocked(a, a.out.granted)
		o.finishLocked(outcome{})
	case a.out.granted && o.waiting && l.cfg.Now() >= o.patience:
		// The reply came after the deadline, and before its caller looked at the
		// clock: the process was stopped, or the machine asleep.
		l.goneLocked(a, true)
		o.finishLocked(outcome{blockers: o.out.blockers})
	default:
		if a.out.granted {
			l.forgetTurns(o, p)
		}
		l.goneLocked(a, false)
		o.finishLocked(a.out)
	}
}

// goneLocked takes an answered operation out of the index. undo: nobody will use
// what it was granted. What it may have been granted by an earlier attempt,
// whose EXEC may even come yet, is undone as well.
func (l *Lane) goneLocked(a *answer, undo bool) {
	o := a.op
	if undo || o.kind == acquire && o.unsure && !a.out.granted {
		l.pending = append(l.pending, l.undoOp(o))
	}
	a.left = o.waiting
	l.parked.remove(o)
	if a.left && !a.out.granted {
		l.touch(o.names) // who had stepped down for it is to be tried
	}
}

func (l *Lane) parkLocked(o *op, a *answer, p *plan) {
	if o.gone || l.closed {
		l.touch(o.names) // its mark has just been written
		l.goneLocked(a, false)
		o.finishLocked(outcome{err: ErrClosed})
		a.park = false // nobody is to be told of it as waiting
		return
	}
	o.phase = parked
	o.out.blockers = a.out.blockers
	o.since = p.now
	if len(l.parked.all) == 0 {
		l.pollAt = l.cfg.Now() + l.pollDelay()
	}
	l.parked.add(o)
	o.signalLocked() // a caller who carries may stop
}

// setDues notes when the names that were looked at are to be tried next.
func (l *Lane) setDues(p *plan) {
	for name := range p.look {
		if w, q := p.recs[name], l.parked.names[name]; w != nil && q != nil {
			l.parked.setDue(name, p.dueOf(name, w, q))
		}
	}
}

// dueOf is when something that keeps those out who are parked for name ends by
// itself: what is held lapses, the hold-off or a grace is over, or the first reader
// has waited long enough to go past the writers.
func (p *plan) dueOf(name string, w *work, q *queue) (due time.Duration) {
	first := func(at time.Duration) {
		if at > 0 && (due == 0 || at < due) {
			due = at
		}
	}
	ms := p.now.Millis()
	next := lockrules.NextLapse(w.rec, ms)
	if p.standing.Until > ms {
		next = p.standing.Until
	}
	if next != 0 {
		first(p.s.local(next) + time.Millisecond)
	}
	if len(q.readers) > 0 && next != 0 {
		if at := lockrules.PassesAt(w.rec, q.readers[0].since.Millis(), ms); at != 0 {
			first(p.s.local(at) + time.Millisecond)
		}
	}
	first(p.l.graceEnds(name, &w.rec, p.t))
	return due
}

// tellOf reports hold-off and waiting, outside of the lane's mutex.
func (l *Lane) tellOf(p *plan) {
	if l.cfg.Events == nil {
		return
	}
	ms := p.now.Millis()
	if p.standing.Until > ms && l.heldTo <= ms {
		l.cfg.Events.HoldOff(p.standing.Reason, time.Duration(p.standing.Until-ms)*time.Millisecond)
	}
	l.heldTo = max(l.heldTo, p.standing.Until)
	for i := range p.answers {
		a := &p.answers[i]
		switch {
		case a.op.kind != acquire:
		case a.park:
			l.cfg.Events.Waits(Waiting{ID: a.op.req.ID, Since: a.op.since, Wants: a.op.req.Wants,
				Blockers: a.out.blockers, Tag: a.op.tag, Parked: Parked{l, a.op}})
		case a.left:
			l.cfg.Events.Gone(a.op.req.ID)
		}
	}
}
