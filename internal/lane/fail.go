package lane

import (
	"errors"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// healthy notes an exchange that went through.
func (l *Lane) healthy(took time.Duration) {
	if took <= quickEnough {
		l.quick++
	} else {
		l.quick = 0
	}
}

// served notes that a batch has come to its answers. That its records could be
// read doesn't count: the server may refuse to write.
func (l *Lane) served() {
	l.fails = 0
	if !l.slowed {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outage = nil
	if l.quick >= quickInARow {
		l.slow, l.slowed = false, false
	}
}

// fail deals with a batch whose exchange failed. p is the plan whose commit
// was under way, if any: its outcome is unknown unless err says that nothing
// was applied.
func (l *Lane) fail(b *batch, p *plan, err error, background bool) {
	l.counts.failures.Add(1)
	unsure := p != nil && mayHaveBeenApplied(err)
	if unsure {
		p.unsure()
	}
	if p != nil && (!unsure || permanent(err)) {
		b = l.readsApart(b, background)
	}
	l.fails++
	l.quick = 0
	l.snap = nil
	l.noteOutage(err)
	switch {
	case permanent(err):
		l.refuse(b, err)
	default:
		l.requeue(b)
	}
}

// readsApart answers those who only want to read, when a commit was refused that
// they have nothing to do with: a server without memory can still be looked at. If
// that fails, for now, they are tried again: their answer is not that of the commit.
// It returns the rest of the batch.
func (l *Lane) readsApart(b *batch, background bool) *batch {
	reads, rest := &batch{formed: b.formed}, *b
	rest.ops = nil
	for _, o := range b.ops {
		if o.kind == read {
			reads.ops = append(reads.ops, o)
		} else {
			rest.ops = append(rest.ops, o)
		}
	}
	if len(reads.ops) == 0 {
		return b
	}
	l.snap = nil // what is read now is newer than they are, whatever else there is to write
	p, err := l.decided(reads, background)
	switch {
	case err != nil && permanent(err):
		l.refuse(reads, err)
	case err != nil:
		l.requeue(reads)
	default:
		l.answerReads(p)
	}
	return &rest
}

func (l *Lane) answerReads(p *plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range p.answers {
		p.answers[i].op.finishLocked(p.answers[i].out)
	}
}

func (l *Lane) noteOutage(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outage, l.slow, l.slowed = err, true, true
}

// What a port's errors may say of themselves.
type (
	saysApplied   interface{ NothingApplied() bool }
	saysPermanent interface{ Permanent() bool }
)

// mayHaveBeenApplied: an error that doesn't say so may mean anything.
func mayHaveBeenApplied(err error) bool {
	var e saysApplied
	return !errors.As(err, &e) || !e.NothingApplied()
}

func permanent(err error) bool {
	var e saysPermanent
	return errors.As(err, &e) && e.Permanent() || errors.Is(err, exchange.ErrClosed)
}

// unsure marks the operations that may have been applied without an answer, and
// has the records written again, whatever becomes of the operations: the commit
// may still sit in the buffer of a dead connection's socket.
func (p *plan) unsure() {
	for _, a := range p.answers {
		if !a.park {
			a.op.unsure = true
		}
	}
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	for _, name := range p.order {
		if p.recs[name].dirty {
			p.l.doubt[name] = struct{}{}
			p.l.touched[name] = struct{}{}
		}
	}
}

// sure notes what has been written since.
func (p *plan) sure() {
	for _, name := range p.order {
		if p.recs[name].dirty {
			delete(p.l.doubt, name)
		}
	}
}

// requeue puts a batch back, in front of what has come since. Its names are
// looked at again: a release that turns out to have been applied opens nothing
// a second time, but whoever waits on this node has still to be handed to.
func (l *Lane) requeue(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requeueLocked(b)
}

func (l *Lane) requeueLocked(b *batch) {
	var back []*op
	for _, o := range b.ops {
		switch {
		case o.gone && o.kind == acquire && o.unsure:
			back = append(back, l.undoOp(o))
			o.finishLocked(outcome{})
		case o.phase == running:
			o.phase = queued
			back = append(back, o)
		}
		if o.kind == release {
			l.touch(o.names)
		}
	}
	l.pending = append(back, l.pending...)
	l.touch(b.names)
	for _, o := range l.parked.inOrder() {
		if o.unsure {
			l.again = append(l.again, o)
		}
	}
	for _, o := range b.retry {
		if o.waiting && !o.unsure {
			l.again = append(l.again, o)
		}
	}
}

func (l *Lane) touch(names []string) {
	for _, name := range names {
		l.touched[name] = struct{}{}
	}
}

// refuse answers what will not get better by waiting. Releases go on trying in
// the background: the right may come back before the lease ends.
func (l *Lane) refuse(b *batch, err error) {
	l.mu.Lock()
	var later []*op
	for _, o := range b.ops {
		switch {
		case o.kind == release:
			later = append(later, o.behind())
		case o.kind == acquire && o.unsure:
			later = append(later, l.undoOp(o))
		}
		o.finishLocked(outcome{err: &Unavailable{Err: err, Permanent: true}})
	}
	l.pending = append(l.pending, later...)
	l.mu.Unlock()
	l.requeue(&batch{names: b.names, retry: b.retry})
}

// behind is the operation to go on with in the background, its caller having
// been answered.
func (o *op) behind() *op {
	c := *o
	c.signal, c.gone, c.phase, c.turn = make(chan struct{}, 1), true, queued, false
	return &c
}

// backOff waits before Redis is asked again after failures. The first retry is
// made at once: a connection that was closed while idle fails just once. The
// longest pause leaves a renewal, made at half of the lease, several attempts.
func (l *Lane) backOff() bool {
	if l.fails <= 1 {
		return !l.quitting()
	}
	wait := min(25*time.Millisecond<<min(l.fails, 10), time.Second, max(l.cfg.Lease/10, 20*time.Millisecond))
	wait = wait/2 + l.cfg.Jitter(wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.quit:
		return false
	}
}
