package lane

import (
	"fmt"
	"slices"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// release ends holdings, and hands what is free now to the next on this node
// in the same transaction.
func (p *plan) release(o *op) {
	out := outcome{met: lockrules.Done}
	for _, name := range o.names {
		met, err := p.releaseOne(o, name)
		switch {
		case err != nil:
			out.err = err
		case met != lockrules.Done && !o.unsure:
			// After an unsure run it may have been released by that run, and
			// the place taken by the next: then "not mine any more" is done.
			out.met = max(out.met, met)
		}
	}
	p.answers = append(p.answers, answer{op: o, out: out})
	for _, name := range o.names {
		if w := p.recs[name]; w != nil && w.opened {
			p.lookAt(name)
			p.handOver(name)
		}
	}
}

func (p *plan) releaseOne(o *op, name string) (lockrules.Released, error) {
	w, err := p.record(name)
	if err != nil {
		return lockrules.Missing, err
	}
	after, met, opened := lockrules.ReleaseOne(w.rec, o.rel, p.now.Millis())
	if opened || o.force {
		w.rec, w.dirty = after, true
	}
	// A record that has vanished may have been written anew by those who wait.
	w.opened = w.opened || opened || met == lockrules.Missing
	return met, nil
}

func (p *plan) renew(o *op) {
	a := answer{op: o}
	recs, err := p.records(o.names)
	switch {
	case p.s.srvErr != nil:
		a.out.err = p.s.srvErr
	case err != nil:
		a.out.lost = err.Error()
	case p.s.seen.RunID != o.runID:
		a.out.lost = "the server has restarted, or is another one"
	default:
		after, ok := lockrules.Renew(recs, o.ren, p.now.Millis())
		if !ok {
			a.out.lost = whyLost(recs, o.ren, p.now.Millis())
			break
		}
		p.put(after)
		h, _, _ := after[0].Find(o.ren.ID)
		a.out.renewed = Renewed{Asked: p.asked, Renewals: h.Renewals}
	}
	p.answers = append(p.answers, a)
}

func whyLost(recs []lockrules.Record, ren lockrules.Renewal, now lockrules.Millis) string {
	for i := range recs {
		h, _, found := recs[i].Find(ren.ID)
		name := quote(recs[i].LockName)
		switch {
		case !found && recs[i].WriteOwner.Alive(now):
			return fmt.Sprintf("the lock %s has been taken by %s", name, quote(recs[i].WriteOwner.Owner))
		case !found:
			return fmt.Sprintf("the record of the lock %s is gone or another's", name)
		case h.ReleasedAt != nil:
			return fmt.Sprintf("the lock %s has been released", name)
		case !h.Alive(now):
			return fmt.Sprintf("the lease of the lock %s has run out", name)
		case h.Renewals < ren.Seen:
			return fmt.Sprintf("the record of the lock %s is older than its holder's last renewal", name)
		}
	}
	return "the lock is lost"
}

func (p *plan) read(o *op) {
	r := Reading{Records: make(map[string]lockrules.Record), At: p.now, RunID: p.s.seen.RunID, ReadyAt: p.standing.Until, Reason: p.standing.Reason}
	if p.s.srvErr != nil {
		r.Errs = append(r.Errs, p.s.srvErr)
	}
	for _, name := range o.names {
		w, err := p.record(name)
		switch {
		case err != nil:
			r.Errs = append(r.Errs, err)
		case w.exists || w.dirty:
			r.Records[name] = w.rec
		}
	}
	p.answers = append(p.answers, answer{op: o, out: outcome{read: r}})
}

// lookAt has the node's marks of the names brought up to date.
func (p *plan) lookAt(names ...string) {
	if p.look == nil {
		p.look = make(map[string]struct{})
	}
	for _, name := range names {
		p.look[name] = struct{}{}
	}
}

// mark makes this node's marks say what is parked here once the plan is committed.
func (p *plan) mark() {
	lasts := millis(markLasts * p.l.cfg.PollDelay)
	for _, name := range sortedKeys(p.look) {
		w, err := p.record(name)
		if err != nil {
			continue
		}
		after, changed, opened := lockrules.SetMark(w.rec, p.l.cfg.Node, p.waiters(name), p.now.Millis(), lasts)
		if changed || w.dirty { // who is the first is written along with something else only
			w.rec, w.dirty, w.opened = after, true, w.opened || opened
		}
		w.tell()
	}
}

// markLasts is how many poll delays a mark lasts from each refresh.
const markLasts = 3

func sortedKeys(set map[string]struct{}) []string {
	keys := make([]string, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// waiters is who will be parked here for name: what they want, and since when
// the first of them waits.
func (p *plan) waiters(name string) lockrules.Waiters {
	ws := lockrules.Waiters{Want: lockrules.Nobody, Since: p.now.Millis()}
	add := func(want lockrules.Waits, since lockrules.Millis) {
		ws.Want, ws.Since = max(ws.Want, want), min(ws.Since, since)
	}
	if q := p.l.parked.names[name]; q != nil {
		if o := p.firstLeft(q.writers); o != nil {
			add(lockrules.SomeWrites, p.since(o))
		}
		if o := p.firstLeft(q.readers); o != nil {
			add(lockrules.SomeRead, p.since(o))
		}
	}
	for _, o := range p.arrived {
		switch {
		case o.wants(name, lockrules.Write):
			add(lockrules.SomeWrites, p.since(o))
		case o.wants(name, lockrules.Read):
			add(lockrules.SomeRead, p.since(o))
		}
	}
	return ws
}

func (p *plan) firstLeft(ops []*op) *op {
	for _, o := range ops {
		if _, in := p.granted[o]; !in {
			return o
		}
	}
	return nil
}

// write turns the working state into what is to be written and published. It
// returns false if the JSON handler can't write a record: that is noted in the
// snapshot, so that the next plan leaves it alone and others don't suffer.
func (p *plan) write() (ok bool) {
	p.known = make(map[string]*entry, len(p.order))
	for _, name := range p.order {
		if w := p.recs[name]; w.dirty {
			if err := p.set(name, w); err != nil {
				p.s.entries[name] = &entry{err: cannotWrite(err)}
				return false
			}
		}
	}
	if s := p.standing.Write; s != nil && p.s.srvErr == nil {
		data, err := encodeServer(p.l.cfg.JSON, s)
		if err != nil {
			p.s.srvErr = cannotWrite(err)
			return false
		}
		p.writes.Sets = append(p.writes.Sets, exchange.Set{Key: p.l.serverKey, Value: data})
	}
	p.publish()
	return true
}

func (p *plan) set(name string, w *work) error {
	data, err := encodeRecord(p.l.cfg.JSON, &w.rec)
	if err != nil {
		return err
	}
	ttl := lockrules.Lasts(w.rec, p.now.Millis(), millis(p.l.cfg.ReleasedTTL))
	p.writes.Sets = append(p.writes.Sets, exchange.Set{Key: p.l.keyOf(name), Value: data,
		TTL: time.Duration(ttl) * time.Millisecond})
	p.known[name] = &entry{key: p.l.keyOf(name), rec: w.rec, raw: data}
	return nil
}

// publish tells the nodes that wait for what is open now. The message is a
// hint, sent by the same transaction, so nobody hears of a release that did
// not happen.
func (p *plan) publish() {
	wake := make(map[string][]string)
	var nodes []string
	for _, name := range p.order {
		w := p.recs[name]
		if !w.opened {
			continue
		}
		for _, node := range p.wakes(name, w) {
			if wake[node] == nil {
				nodes = append(nodes, node)
			}
			wake[node] = append(wake[node], name)
		}
	}
	for _, node := range nodes {
		msg, err := EncodeWake(wake[node])
		if err == nil {
			p.writes.Publishes = append(p.writes.Publishes, exchange.Publish{Channel: p.l.cfg.Keys.Wake(node), Message: msg})
		}
	}
}
