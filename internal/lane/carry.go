package lane

import (
	"context"
	"errors"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/lockrules"
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
		l.run(b, self == nil)
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
	if self != nil && (l.slow || l.closed || self.phase == finished || self.phase == parked) {
		l.handOnLocked()
		return nil
	}
	b := l.formLocked()
	if b.empty() || l.quitting() {
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

// formLocked takes what is to be done next, up to the bounds of one transaction.
func (l *Lane) formLocked() *batch {
	now := l.cfg.Now()
	b := &batch{retry: l.again, formed: now}
	l.again = nil
	rest := l.pending[:0]
	names := 0
	for _, o := range l.pending {
		switch {
		case l.dropsLocked(o, now):
		case len(b.ops) < maxOps && (len(b.ops) == 0 || names+len(o.names) <= maxNames):
			o.phase = running
			names += len(o.names)
			b.ops = append(b.ops, o)
		default:
			rest = append(rest, o)
		}
	}
	clear(l.pending[len(rest):])
	l.pending = rest
	b.names = l.takeNamesLocked(now)
	return b
}

// dropsLocked says that nobody needs the queued operation any more.
func (l *Lane) dropsLocked(o *op, now time.Duration) bool {
	switch {
	case o.phase == finished:
		return true
	case !o.gone:
		return false
	case o.kind == release:
		return now >= o.expiry
	}
	o.finishLocked(outcome{})
	return true
}

// takeNamesLocked collects the names that something is to be done about: they
// were woken or touched, something in the way of their waiters has lapsed, or
// it is time for the poll.
func (l *Lane) takeNamesLocked(now time.Duration) []string {
	if l.wakeAll || len(l.parked.all) > 0 && now >= l.pollAt {
		l.wakeAll = false
		l.pollAt = now + l.pollDelay()
		for name := range l.parked.names {
			l.touched[name] = struct{}{}
		}
	}
	for name := range l.woken {
		if l.parked.names[name] != nil {
			l.touched[name] = struct{}{}
		}
	}
	clear(l.woken)
	for _, name := range l.parked.takeDue(now, nil) {
		l.touched[name] = struct{}{}
	}
	if len(l.touched) == 0 {
		return nil
	}
	names := sortedKeys(l.touched)
	if len(names) > maxNames {
		names = names[:maxNames]
	}
	for _, name := range names {
		delete(l.touched, name)
	}
	return names
}

// pollDelay is jittered, so that nodes don't poll in step.
func (l *Lane) pollDelay() time.Duration {
	return l.cfg.PollDelay - l.cfg.Jitter(l.cfg.PollDelay/10+1)
}

// run decides and commits a batch until it is answered or Redis fails.
func (l *Lane) run(b *batch, background bool) {
	if background && !l.backOff() {
		l.requeue(b, nil)
		return
	}
	for conflicts := 0; ; conflicts++ {
		p, err := l.decided(b, background)
		if err != nil {
			l.fail(b, nil, err)
			return
		}
		if p.writes.Empty() {
			l.answer(p)
			return
		}
		committed, err := l.exchange(&p.writes, l.nextNames(b), p.known, background)
		switch {
		case errors.Is(err, exchange.ErrNoWatch):
			l.snap = nil // a new connection: read, decide again
		case err != nil:
			l.fail(b, p, err)
			return
		case committed:
			l.counts.commits.Add(1)
			l.answer(p)
			return
		default:
			l.counts.conflicts.Add(1)
			b = l.afterConflict(b, conflicts)
		}
	}
}

// decided is the plan for the batch, on data that its answers may rest on.
func (l *Lane) decided(b *batch, background bool) (*plan, error) {
	names := l.namesOf(b)
	if !l.snap.covers(names, l.cfg.Now()) {
		if _, err := l.exchange(nil, names, nil, background); err != nil {
			return nil, err
		}
	}
	p := l.decide(b)
	if p.err == nil && p.writes.Empty() && l.snap.asked < p.newest() {
		// No EXEC will tell whether what was read ahead still holds.
		if _, err := l.exchange(nil, names, nil, background); err != nil {
			return nil, err
		}
		p = l.decide(b)
	}
	return p, p.err
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
		keys = append(keys, l.cfg.Keys.Lock(name))
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.budget(background))
	defer cancel()
	old := l.snap
	l.snap = nil
	l.counts.exchanges.Add(1)
	asked := l.cfg.Now()
	committed, x, err := l.cfg.Port.Exchange(ctx, commit, keys)
	if err != nil {
		return false, err
	}
	replied := l.cfg.Now()
	if !committed {
		known = nil
	}
	l.snap = l.newSnapshot(names, x, asked, replied, known, old)
	l.known = l.known || l.snap.server != nil
	l.healthy(replied - asked)
	return committed, nil
}

func (l *Lane) budget(background bool) time.Duration {
	if !background {
		return min(quickBudget, l.cfg.OpTimeout)
	}
	return min(l.cfg.OpTimeout, max(l.cfg.Lease/6, quickBudget))
}

// namesOf are the records that the batch needs.
func (l *Lane) namesOf(b *batch) []string {
	set := newNameSet()
	for _, o := range b.ops {
		set.add(o.names)
	}
	set.add(b.names)
	for _, o := range b.retry {
		set.add(o.names)
	}
	for _, name := range set.names[:len(set.names):len(set.names)] {
		l.addCandidates(set, name)
	}
	return set.names
}

// candidatesRead is for how many of those parked for a name, that may be
// handed it, all other records are read as well.
const candidatesRead = 4

func (l *Lane) addCandidates(set *nameSet, name string) {
	q := l.parked.names[name]
	if q == nil {
		return
	}
	for _, ops := range [...][]*op{q.writers, q.readers} {
		for i, o := range ops {
			if i == candidatesRead {
				break
			}
			set.add(o.names)
		}
	}
}

// nextNames are the records to read along with the batch's commit: its own,
// since they are the likeliest next, and those of what has been queued by now.
func (l *Lane) nextNames(b *batch) []string {
	set := newNameSet()
	set.add(l.namesOf(b))
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, o := range l.pending {
		if i == maxOps || len(set.names)+len(o.names) > 2*maxNames {
			break
		}
		set.add(o.names)
	}
	return set.names
}

// nameSet keeps names in the order in which they came.
type nameSet struct {
	names []string
	seen  map[string]struct{}
}

func newNameSet() *nameSet { return &nameSet{} }

func (s *nameSet) add(names []string) {
	for _, name := range names {
		if s.has(name) {
			continue
		}
		s.names = append(s.names, name)
		if s.seen != nil {
			s.seen[name] = struct{}{}
		}
	}
}

// has looks through a short list, and builds a map only for a long one.
func (s *nameSet) has(name string) bool {
	if s.seen == nil {
		if len(s.names) < 8 {
			for _, n := range s.names {
				if n == name {
					return true
				}
			}
			return false
		}
		s.seen = make(map[string]struct{}, 2*len(s.names))
		for _, n := range s.names {
			s.seen[n] = struct{}{}
		}
	}
	_, ok := s.seen[name]
	return ok
}

// afterConflict says what to try next: the same at once, later after a moment,
// and after some more only a part of it, so that one much wanted name doesn't
// hold up the others.
func (l *Lane) afterConflict(b *batch, conflicts int) *batch {
	if conflicts == 0 {
		return b
	}
	wait := l.cfg.Jitter(time.Millisecond << min(conflicts, 4))
	select {
	case <-time.After(wait):
	case <-l.quit:
	}
	if conflicts < conflictsBeforeSplit {
		return b
	}
	part, rest := l.split(b)
	if !rest.empty() {
		l.requeue(rest, nil)
	}
	return part
}

// split cuts off the operations that share names, directly or over others,
// with the batch's first.
func (l *Lane) split(b *batch) (part, rest *batch) {
	part, rest = &batch{noMemory: b.noMemory, formed: b.formed}, &batch{formed: b.formed}
	set := newNameSet()
	for grown := true; grown; {
		before := len(set.names)
		for _, o := range append(b.ops[:len(b.ops):len(b.ops)], b.retry...) {
			if len(set.names) == 0 || shares(set, o.names) {
				set.add(o.names)
			}
		}
		if len(set.names) == 0 && len(b.names) > 0 {
			set.add(b.names[:1])
		}
		grown = len(set.names) > before
	}
	for _, o := range b.ops {
		if shares(set, o.names) {
			part.ops = append(part.ops, o)
		} else {
			rest.ops = append(rest.ops, o)
		}
	}
	for _, o := range b.retry {
		if shares(set, o.names) {
			part.retry = append(part.retry, o)
		} else {
			rest.retry = append(rest.retry, o)
		}
	}
	for _, name := range b.names {
		if set.has(name) {
			part.names = append(part.names, name)
		} else {
			rest.names = append(rest.names, name)
		}
	}
	return part, rest
}

func shares(set *nameSet, names []string) bool {
	for _, name := range names {
		if set.has(name) {
			return true
		}
	}
	return false
}

// answer gives the callers what was decided. It rests on a commit, or on data
// that was read after they had asked.
func (l *Lane) answer(p *plan) {
	if p.standing.Write != nil && !p.writes.Empty() {
		l.known = true
	}
	l.mu.Lock()
	for i := range p.answers {
		l.answerLocked(p, &p.answers[i])
	}
	l.again = append(l.again, p.missed...)
	l.mu.Unlock()
	l.setDues(p)
	l.tellOf(p)
}

func (l *Lane) answerLocked(p *plan, a *answer) {
	o := a.op
	if a.again {
		l.pending = append(l.pending, o.behind())
	}
	switch {
	case a.park && o.waiting:
		o.out.blockers = a.out.blockers
	case a.park:
		l.parkLocked(o, a, p)
	case o.gone || o.phase == finished:
		// Granted to somebody who has left meanwhile. Nobody would release it.
		a.left = o.waiting
		l.parked.remove(o)
		if a.out.granted {
			l.pending = append(l.pending, l.undoOp(o))
		}
		o.finishLocked(outcome{})
	default:
		if a.out.granted {
			l.countStreak(o, p)
		}
		a.left = o.waiting
		l.parked.remove(o)
		o.finishLocked(a.out)
	}
}

func (l *Lane) parkLocked(o *op, a *answer, p *plan) {
	if o.gone || l.closed {
		for _, name := range o.names {
			l.touched[name] = struct{}{} // its mark has just been written
		}
		o.finishLocked(outcome{err: ErrClosed})
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
	ms := p.now.Millis()
	for name := range p.look {
		w := p.recs[name]
		if w == nil || l.parked.names[name] == nil {
			continue
		}
		next := lockrules.NextLapse(w.rec, ms)
		if p.standing.Until > ms {
			next = p.standing.Until
		}
		var due time.Duration
		if next != 0 {
			due = p.s.local(next) + time.Millisecond
		}
		if s := l.streaks[name]; s != nil && s.until != 0 && (due == 0 || s.until < due) {
			due = s.until
		}
		l.parked.setDue(name, due)
	}
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
