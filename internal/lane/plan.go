package lane

import (
	"slices"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// batch is what one transaction is to do.
type batch struct {
	ops     []*op
	opNames int      // how many names the operations have, counted each time
	names   []string // to hand over, and whose marks to look at
	retry   []*op    // parked operations to be tried whatever their names' queues say
	formed  time.Duration
}

func (b *batch) empty() bool { return len(b.ops)+len(b.names)+len(b.retry) == 0 }

// work is one record while a batch is decided.
type work struct {
	rec    lockrules.Record
	dirty  bool
	opened bool // others may get in
	exists bool
	offer  *offer // another node is let go first
	all    bool   // all who gain are to be told
	debt   *debt  // others gain who are not told
}

// answer is what an operation gets if the plan is committed.
type answer struct {
	op   *op
	out  outcome
	park bool
	// left: the operation was parked and is not any more. Set when answered.
	left bool
}

// plan is a decided batch: nothing of it counts before the commit.
type plan struct {
	l        *Lane
	b        *batch
	s        *snapshot
	t        time.Duration // local time of the decision
	now      lockrules.Instant
	asked    time.Duration // the trust of whoever is granted starts here
	standing lockrules.Standing
	names    []string // whose records were read for the batch
	recs     map[string]*work
	works    []work   // room for what recs points to
	order    []string // names in recs, in the order of their first use
	answers  []answer
	granted  map[*op]struct{} // parked operations that got in
	arrived  []*op            // operations to be parked
	look     map[string]struct{}
	missed   []*op // parked operations that may get in, but whose records weren't read
	writes   exchange.Writes
	known    map[string]*entry // what the records will be once committed
	owes     bool              // some work has a debt
}

// decide runs the batch over the snapshot, without what can't be written.
func (l *Lane) decide(b *batch, names []string) *plan {
	for {
		if p := l.decideOnce(b, names); p.write() {
			return p
		}
	}
}

func (l *Lane) decideOnce(b *batch, names []string) *plan {
	p := &plan{l: l, b: b, s: l.snap, t: l.cfg.Now(), names: names, recs: make(map[string]*work, len(names)),
		works: make([]work, 0, len(names)), order: make([]string, 0, len(names)), answers: make([]answer, 0, len(b.ops))}
	p.now, p.asked = p.s.at(p.t)
	ms := p.now.Millis()
	p.standing = lockrules.CheckServer(p.s.server, l.known, p.s.seen, l.lease, ms)
	for _, o := range b.retry {
		p.tryParked(o)
	}
	for _, o := range b.ops {
		p.run(o)
	}
	for _, name := range b.names {
		p.lookAt(name)
		p.handOver(name)
		p.pay(name)
	}
	p.tryArrived()
	p.mark()
	return p
}

func millis(d time.Duration) lockrules.Millis { return lockrules.Millis(d.Milliseconds()) }

func (p *plan) run(o *op) {
	switch o.kind {
	case acquire:
		p.acquire(o)
	case release:
		p.release(o)
	case renew:
		p.renew(o)
	case read:
		p.read(o)
	}
}

// record is the working state of a name's record.
func (p *plan) record(name string) (*work, error) {
	if w := p.recs[name]; w != nil {
		return w, nil
	}
	e := p.s.entries[name]
	if e.err != nil {
		return nil, e.err
	}
	w := p.newWork()
	w.exists = e.raw != nil
	w.rec, w.dirty = lockrules.Settle(e.rec, p.now.Millis())
	if _, doubt := p.l.doubt[name]; doubt {
		w.dirty = true // so that the WATCH fails of a commit that may come yet
	}
	p.recs[name] = w
	p.order = append(p.order, name)
	return w, nil
}

// newWork takes room that was made for all at once. Beyond it, what is parked
// asks for records that were read for others.
func (p *plan) newWork() *work {
	if len(p.works) == cap(p.works) {
		return &work{}
	}
	p.works = append(p.works, work{})
	return &p.works[len(p.works)-1]
}

func (p *plan) records(names []string) ([]lockrules.Record, error) {
	recs := make([]lockrules.Record, len(names))
	for i, name := range names {
		w, err := p.record(name)
		if err != nil {
			return nil, err
		}
		recs[i] = w.rec
	}
	return recs, nil
}

func (p *plan) put(recs []lockrules.Record) {
	for i := range recs {
		w := p.recs[recs[i].LockName]
		w.rec, w.dirty = recs[i], true
	}
}

func (p *plan) acquire(o *op) {
	d, err := p.attempt(o)
	switch {
	case err != nil:
		p.answers = append(p.answers, answer{op: o, out: outcome{err: err}})
	case d.Granted:
		p.answers = append(p.answers, answer{op: o, out: p.grant(d)})
	case p.t >= o.patience:
		p.answers = append(p.answers, answer{op: o, out: outcome{blockers: d.Blockers}})
	default:
		p.arrived = append(p.arrived, o)
		p.lookAt(o.names...)
		p.answers = append(p.answers, answer{op: o, out: outcome{blockers: d.Blockers}, park: true})
	}
}

// tryArrived tries once more those who could not be granted when it was their
// turn in the batch, but may be by what a later operation of it let go. They are
// not in the index yet, so no hand-over has seen them.
func (p *plan) tryArrived() {
	left := p.arrived[:0]
	for _, o := range p.arrived {
		if !p.anyOpened(o.names) || !p.grantArrived(o) {
			left = append(left, o)
		}
	}
	p.arrived = left
}

func (p *plan) anyOpened(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		w := p.recs[name]
		return w != nil && w.opened
	})
}

func (p *plan) grantArrived(o *op) bool {
	d, err := p.attempt(o)
	if err != nil || !d.Granted {
		return false
	}
	i := slices.IndexFunc(p.answers, func(a answer) bool { return a.op == o })
	p.answers[i] = answer{op: o, out: p.grant(d)}
	return true
}

func (p *plan) grant(d lockrules.Decision) outcome {
	p.put(d.Records)
	return outcome{granted: true, grant: Grant{Token: d.Token, At: p.now.Millis(), Acquired: d.Acquired, ExpiresAt: d.ExpiresAt,
		Asked: p.asked, RunID: p.s.seen.RunID}}
}

// attempt decides an acquire as things stand in this plan.
func (p *plan) attempt(o *op) (lockrules.Decision, error) {
	if p.s.srvErr != nil {
		return lockrules.Decision{}, p.s.srvErr // whether a hold-off is on is not known
	}
	recs, err := p.records(o.names)
	if err != nil {
		return lockrules.Decision{}, err
	}
	ms := p.now.Millis()
	if p.standing.Until > ms {
		b := lockrules.Blocker{Name: o.names[0], Reason: lockrules.NotYetUp, Since: ms, Until: p.standing.Until}
		return lockrules.Decision{Blockers: []lockrules.Blocker{b}, RetryAt: b.Until}, nil
	}
	req := o.req
	req.Since = p.since(o)
	d := lockrules.Acquire(recs, req, p.now, func(name string) (lockrules.Blocker, bool) { return p.localWriter(o, name) })
	if d.Granted {
		if b, yields := p.yields(o); yields {
			p.lookAt(o.names...) // the end of the grace is a due of the name yielded
			return lockrules.Decision{Blockers: []lockrules.Blocker{b}, RetryAt: b.Until}, nil
		}
	}
	return d, nil
}

// since is when the operation began to wait: now, if it hasn't yet.
func (p *plan) since(o *op) lockrules.Millis {
	if !o.waiting {
		return p.now.Millis()
	}
	return o.since.Millis()
}

// localWriter finds somebody of this node who waits to write name.
func (p *plan) localWriter(asking *op, name string) (lockrules.Blocker, bool) {
	if q := p.l.parked.names[name]; q != nil {
		for _, o := range q.writers {
			if _, in := p.granted[o]; !in && o != asking {
				return p.waitingWriter(o, name), true
			}
		}
	}
	for _, o := range p.arrived {
		if o != asking && o.wants(name, lockrules.Write) {
			return p.waitingWriter(o, name), true
		}
	}
	return lockrules.Blocker{}, false
}

func (p *plan) waitingWriter(o *op, name string) lockrules.Blocker {
	return lockrules.Blocker{Name: name, Reason: lockrules.WriterWaits, Mode: lockrules.Write, ID: o.req.ID,
		Owner: o.req.Owner, Node: o.req.Node, Since: p.since(o), Until: p.now.Millis() + millis(p.l.cfg.PollDelay)}
}

func (o *op) wants(name string, mode lockrules.Mode) bool {
	for _, w := range o.req.Wants {
		if w.Name == name {
			return w.Mode == mode
		}
	}
	return false
}
