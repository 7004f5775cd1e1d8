package lane

import "time"

// maxRenewals is how many renewals one transaction takes, ahead of all else. They
// are what can't wait: behind ten thousand callers who have come just now a lock
// would be lost. But thousands of them may be due at the same time, and a caller
// who comes then waits for the transaction under way: so it is to be a short one.
const maxRenewals = 64

// formLocked takes what is to be done next, up to the bounds of one transaction.
func (l *Lane) formLocked() *batch {
	now := l.cfg.Now()
	b := &batch{retry: l.again, formed: now}
	l.again = nil
	l.takeGatheredLocked(now)
	l.takeOpsLocked(b, now, func(o *op) bool { return o.kind == renew && len(b.ops) < maxRenewals })
	l.takeOpsLocked(b, now, func(o *op) bool { return o.kind != renew })
	b.names = l.takeNamesLocked(now)
	return b
}

// takeOpsLocked moves operations, of those that may come now, from the queue into the batch.
func (l *Lane) takeOpsLocked(b *batch, now time.Duration, may func(*op) bool) {
	rest := l.pending[:0]
	for _, o := range l.pending {
		switch {
		case l.dropsLocked(o, now):
		case may(o) && b.hasRoom(o):
			o.phase = running
			b.opNames += len(o.names)
			b.ops = append(b.ops, o)
		default:
			rest = append(rest, o)
		}
	}
	clear(l.pending[len(rest):])
	l.pending = rest
}

func (b *batch) hasRoom(o *op) bool {
	return len(b.ops) < maxOps && (len(b.ops) == 0 || b.opNames+len(o.names) <= maxNames)
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
	for _, name := range l.parked.takeDue(now, l.parked.debts.take(now, l.closed, nil)) {
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
