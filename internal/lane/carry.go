package lane

import (
	"context"
	"errors"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

const (
	// maxOps and maxNames bound one transaction.
	maxOps   = 256
	maxNames = 256
	// quickBudget is how long a caller who carries may be stuck in an exchange,
	// and so how late a cancelled caller may return. Beyond it the connection
	// is given up, and the background goroutine, which can wait longer, carries.
	quickBudget = 100 * time.Millisecond
	// quickEnough is how quick exchanges must be, and how many in a row, for
	// callers to carry again.
	quickEnough = 20 * time.Millisecond
	quickInARow = 4
	// conflictsBeforeSplit is after how many conflicts in a row a batch is cut
	// into parts that have no key in common.
	conflictsBeforeSplit = 3
	// conflictsBeforeOthers is after how many it is put behind whatever else
	// there is to do.
	conflictsBeforeOthers = 2 * conflictsBeforeSplit
)

// carry runs batches until there is nothing to do or, for a caller, its own
// operation needs no carrying any more. The calling goroutine has the baton
// and has given it up when carry returns.
func (l *Lane) carry(self *op) {
	ended := false
	defer func() {
		if !ended {
			l.abandon() // a JSON handler has panicked: the others must go on
		}
	}()
	for {
		b := l.take(self)
		if b == nil {
			ended = true
			return
		}
		l.run(b, self)
	}
}

// abandon puts the baton down in the middle of a batch. Its operations get no
// answer; their callers' time runs out.
func (l *Lane) abandon() {
	l.snap = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropLocked()
	l.kickBackground()
}

// take forms the next batch, or hands the baton on.
func (l *Lane) take(self *op) *batch {
	l.mu.Lock()
	gone := l.forgetLocked()
	b := l.takeLocked(self)
	l.mu.Unlock()
	if l.cfg.Events != nil {
		for _, id := range gone {
			l.cfg.Events.Gone(id)
		}
	}
	return b
}

func (l *Lane) takeLocked(self *op) *batch {
	if self != nil && (l.slow || l.closed || self.phase == finished || self.phase == parked || self.left()) {
		l.handOnLocked()
		return nil
	}
	if l.quitting() {
		l.dropLocked() // what is queued stays there, for Close to answer
		return nil
	}
	b := l.formLocked()
	if b.empty() {
		l.dropLocked()
		return nil
	}
	return b
}

func (l *Lane) quitting() bool {
	select {
	case <-l.quit:
		return true
	default:
		return false
	}
}

// dropLocked puts the baton down with nothing left to do.
func (l *Lane) dropLocked() {
	l.running = false
	if due := l.parked.nextDue(l.pollAt); due != l.nextDue {
		l.nextDue = due
		l.kickBackground()
	}
	l.signalFreedLocked()
}

// forgetLocked takes parked operations that have ended out of the index. If
// one may have been granted without an answer, it is undone; else it is enough
// to bring the marks up to date.
func (l *Lane) forgetLocked() (gone []string) {
	if l.closed {
		l.endParkedLocked()
	}
	for _, o := range l.leaving {
		if !o.waiting {
			continue
		}
		l.parked.remove(o)
		gone = append(gone, o.req.ID)
		if o.unsure {
			l.pending = append(l.pending, l.undoOp(o))
		}
		for _, name := range o.names {
			l.touched[name] = struct{}{}
		}
	}
	l.leaving = nil
	return gone
}

func (l *Lane) endParkedLocked() {
	for _, o := range l.parked.inOrder() {
		if o.phase == parked {
			o.finishLocked(outcome{err: ErrClosed})
		}
		l.leaving = append(l.leaving, o)
	}
}

// run decides and commits a batch until it is answered or Redis fails.
// self is the operation of the caller who carries; nil is the background.
func (l *Lane) run(b *batch, self *op) {
	background := self == nil
	if background && !l.backOff() {
		l.requeue(b)
		return
	}
	for conflicts := 0; ; conflicts++ {
		p, err := l.decided(b, background)
		if err != nil {
			l.fail(b, nil, err, background)
			return
		}
		if p.writes.Empty() {
			l.answer(p)
			return
		}
		next := l.nextNames(l.wantedSoon(b, p.names))
		if conflicts >= conflictsBeforeSplit {
			next = l.namesOf(b) // what is watched for others may be what conflicts
		}
		committed, err := l.exchange(&p.writes, next, p.known, background)
		switch {
		case errors.Is(err, exchange.ErrNoWatch):
			l.snap = nil // a new connection: read, decide again
		case err != nil:
			l.fail(b, p, err, background)
			return
		case committed:
			l.counts.commits.Add(1)
			l.answer(p)
			return
		default:
			l.counts.conflicts.Add(1)
			if b = l.afterConflict(b, conflicts); b == nil {
				return
			}
			if self.left() || l.quitting() {
				l.requeue(b) // the caller who carries wants to go, or Close to end
				return
			}
		}
	}
}

// decided is the plan for the batch, on data that its answers may rest on.
func (l *Lane) decided(b *batch, background bool) (*plan, error) {
	names := l.namesOf(b)
	ahead := l.snap.covers(names, l.cfg.Now())
	if !ahead {
		if _, err := l.exchange(nil, names, nil, background); err != nil {
			return nil, err
		}
	}
	p := l.decide(b, names)
	if p.writes.Empty() && ahead && l.snap.asked <= p.newest() {
		// No EXEC will tell whether what was read ahead still holds. The same
		// moment is not new enough: a clock may stand still for a while.
		if _, err := l.exchange(nil, names, nil, background); err != nil {
			return nil, err
		}
		p = l.decide(b, names)
	}
	return p, nil
}

// newest is how new the data must be that the plan rests on, if no commit
// validates it: read after each operation that it answers was queued, and after
// whatever made it look at what is parked.
//
// An operation that it parks needs nothing newer. Since there is nothing to
// write, the node's mark stands in the record that was read; whoever has let go
// since then has seen it and sends a wake-up, which is looked at with new data.
func (p *plan) newest() time.Duration {
	var t time.Duration
	for i := range p.answers {
		if a := &p.answers[i]; !a.park {
			t = max(t, a.op.queuedAt)
		}
	}
	if len(p.b.names)+len(p.b.retry) > 0 {
		t = max(t, p.b.formed)
	}
	return t
}

// exchange talks to Redis and replaces the snapshot.
func (l *Lane) exchange(commit *exchange.Writes, names []string, known map[string]*entry, background bool) (committed bool, err error) {
	keys := make([]string, 1, len(names)+1)
	keys[0] = l.serverKey
	for _, name := range names {
		keys = append(keys, l.keyOf(name))
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.budget(background))
	defer cancel()
	old := l.snap
	l.snap = nil
	l.counts.exchanges.Add(1)
	asked := l.cfg.Now()
	l.unanswered.Store(int64(asked))
	committed, x, err := l.cfg.Port.Exchange(ctx, commit, keys)
	l.unanswered.Store(0)
	if err != nil {
		return false, err
	}
	replied := l.cfg.Now()
	if committed {
		for name, e := range known {
			l.keepDecoded(name, e)
		}
	}
	l.snap = l.newSnapshot(names, x, asked, replied, old)
	if m := l.snap.server; m != nil {
		l.known, l.lease = true, max(l.lease, m.LeaseMillis)
	}
	l.healthy(replied - asked)
	return committed, nil
}

// budget is how long an exchange may take before its connection is given up. While
// Redis is slow it is twice as long: what was too slow for one attempt, on a machine
// that is short of time, would be for each. Two attempts fit into the half of a lease
// that is left when it is renewed, and three into what a call may wait.
func (l *Lane) budget(background bool) time.Duration {
	if !background {
		return min(quickBudget, l.cfg.OpTimeout)
	}
	budget := max(l.cfg.Lease/6, quickBudget)
	if l.slowed {
		budget = max(budget, min(2*budget, l.cfg.OpTimeout/3))
	}
	return min(l.cfg.OpTimeout, budget)
}
