package lane

import "github.com/redislockservice/redislockservice/internal/lockrules"

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
// writers first but for readers that have waited too long, as far as the record
// allows.
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
	p.tryElders(q)
	if writersWait := p.handToWriter(q, w); !writersWait {
		p.tryEach(q.readers)
	}
}

// tryElders lets in the readers that came no later than the first writer, if they
// have waited long enough to get past it: that the rules say.
func (p *plan) tryElders(q *queue) {
	if len(q.writers) == 0 {
		return // all are tried
	}
	first := p.since(q.writers[0])
	for i, o := range q.readers {
		switch {
		case p.since(o) > first:
			return
		case i == maxTries:
			p.missed = append(p.missed, q.readers[i:]...)
			return
		case !p.tryParked(o) && len(o.names) == 1:
			return // the others came later, and are kept out as well
		}
	}
}

// handToWriter lets in the first writer that can have the lock, and says
// whether readers have to go on waiting.
func (p *plan) handToWriter(q *queue, w *work) (writersWait bool) {
	ms, tries := p.now.Millis(), 0
	for i, o := range q.writers {
		if tries > 0 && len(o.req.Chain) == 0 && !o.unsure && (w.offer != nil || lockrules.HeldByAnybody(w.rec, ms)) {
			continue // as the first of them was blocked, or yields; only an upgrade may get past readers
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
