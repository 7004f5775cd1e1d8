package lane

import (
	"time"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// maxTries bounds how many parked operations are tried for one name in one
// batch. Whoever is beyond it is tried in the next.
const maxTries = 64

// tryParked tries one parked operation, and says whether it is in.
func (p *plan) tryParked(o *op) (in bool) {
	if _, in := p.granted[o]; in || !o.waiting {
		return in
	}
	if !p.s.covers(o.names, p.t) {
		p.missed = append(p.missed, o)
		return false
	}
	if p.t >= o.patience {
		return false // its caller is about to leave; what is unsure is undone then
	}
	d, err := p.attempt(o)
	switch {
	case err != nil:
		p.answers = append(p.answers, answer{op: o, out: outcome{err: err}})
	case d.Granted:
		p.answers = append(p.answers, answer{op: o, out: p.grant(d)})
		p.letIn(o)
	default:
		p.answers = append(p.answers, answer{op: o, out: outcome{blockers: d.Blockers}, park: true})
	}
	return d.Granted
}

func (p *plan) letIn(o *op) {
	if p.granted == nil {
		p.granted = make(map[*op]struct{})
	}
	p.granted[o] = struct{}{}
	p.lookAt(o.names...)
}

// handOver lets in who waits on this node for name, in arrival order and
// writers first, as far as the record allows.
func (p *plan) handOver(name string) {
	q := p.l.parked.names[name]
	if q == nil {
		return
	}
	w, err := p.record(name)
	if err != nil {
		p.tryEach(q.writers)
		p.tryEach(q.readers)
		return
	}
	if writersWait := p.handToWriter(q, w); !writersWait {
		p.tryEach(q.readers)
	}
}

// handToWriter lets in the first writer that can have the lock, and says
// whether readers have to go on waiting.
func (p *plan) handToWriter(q *queue, w *work) (writersWait bool) {
	ms, tries := p.now.Millis(), 0
	for i, o := range q.writers {
		if tries > 0 && len(o.req.Chain) == 0 && !o.unsure && lockrules.HeldByAnybody(w.rec, ms) {
			continue // as the first of them was blocked; only an upgrade may get past readers
		}
		if tries++; tries > maxTries {
			p.missed = append(p.missed, q.writers[i:]...)
			break
		}
		// Nobody gets past a writer: whoever is nested in its chain and wants
		// this name reuses it and isn't parked.
		if p.tryParked(o) || w.rec.WriteOwner.Alive(ms) {
			break
		}
	}
	return len(q.writers) > 0
}

func (p *plan) tryEach(ops []*op) {
	for i, o := range ops {
		if i == maxTries {
			p.missed = append(p.missed, ops[i:]...)
			return
		}
		p.tryParked(o)
	}
}

// A node that holds a lock and has waiters of its own hands it over without
// asking anybody, and one that takes it again and again is always quicker than
// a node that has to be woken. So after maxStreak grants in a row, while another
// node waits that could get in, it lets go for the time of the grace. Should the
// other node be dead, that is all it costs.
const (
	maxStreak = 16
	grace     = 20 * time.Millisecond
)

// maxStreaks bounds the names whose streaks are counted.
const maxStreaks = 4096

type streak struct {
	grants int
	until  time.Duration // end of the grace; 0: not yet begun
}

// yields says whether the operation, which could be granted, lets another node
// go first. A nested call never does: its chain holds what others may need.
// Nor does a single attempt: it would have to say that the lock is taken.
func (p *plan) yields(o *op) (lockrules.Blocker, bool) {
	if len(o.req.Chain) > 0 || p.t >= o.patience || o.unsure {
		return lockrules.Blocker{}, false
	}
	for _, name := range o.names {
		s := p.l.streaks[name]
		if s == nil {
			continue
		}
		rec := &p.recs[name].rec
		if w := rec.WriteOwner; w != nil && w.Node != p.l.cfg.Node {
			delete(p.l.streaks, name) // the other one has been in
			continue
		}
		if s.grants < maxStreak {
			continue
		}
		if node, waits := p.firstOf(rec); waits && s.yield(p.t) {
			ms := p.now.Millis()
			return lockrules.Blocker{Name: name, Reason: lockrules.WriterWaits, Mode: lockrules.Write,
				Node: node, Since: ms, Until: ms + millis(s.until-p.t) + 1}, true
		}
	}
	return lockrules.Blocker{}, false
}

func (p *plan) firstOf(rec *lockrules.Record) (node string, waits bool) {
	nodes := lockrules.Wake(*rec, p.l.cfg.Node, p.now.Millis())
	if len(nodes) == 0 {
		return "", false
	}
	return nodes[0], true
}

func (s *streak) yield(now time.Duration) bool {
	if s.until == 0 {
		s.until = now + grace
	}
	if now < s.until {
		return true
	}
	s.grants, s.until = 0, 0
	return false
}

// countStreak notes a committed grant.
func (l *Lane) countStreak(o *op, p *plan) {
	for _, name := range o.names {
		if _, waits := p.firstWaiting(name); !waits {
			delete(l.streaks, name)
			continue
		}
		s := l.streaks[name]
		if s == nil {
			if len(l.streaks) >= maxStreaks {
				clear(l.streaks)
			}
			s = &streak{}
			l.streaks[name] = s
		}
		s.grants++
	}
}

// firstWaiting is another node that waits for name, whether or not it could get in.
func (p *plan) firstWaiting(name string) (node string, waits bool) {
	w := p.recs[name]
	for i := range w.rec.Waiting {
		if m := &w.rec.Waiting[i]; m.Node != p.l.cfg.Node && m.Alive(p.now.Millis()) {
			return m.Node, true
		}
	}
	return "", false
}
