package lane

import "time"

// afterConflict says what to try next: the same at once, later after a moment,
// and after some more only a part of it, or something else first (nil), so that
// one much wanted name doesn't hold up the others.
func (l *Lane) afterConflict(b *batch, conflicts int) *batch {
	if conflicts == 0 {
		return b
	}
	wait := l.cfg.Jitter(time.Millisecond << min(conflicts, 4))
	select {
	case <-time.After(wait):
	case <-l.quit:
	}
	l.snap = nil // read again: what was read before the pause has had time to change
	if conflicts < conflictsBeforeSplit {
		return b
	}
	part, rest := l.split(b)
	switch {
	case !rest.empty():
		l.requeue(rest)
	case conflicts >= conflictsBeforeOthers && l.putLast(part):
		return nil
	}
	return part
}

// putLast queues a batch behind everything else, if there is anything.
func (l *Lane) putLast(b *batch) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending)+len(l.touched)+len(l.leaving)+len(l.again) == 0 {
		return false
	}
	others := l.pending
	l.pending = nil
	l.requeueLocked(b)
	l.pending = append(others, l.pending...)
	return true
}

// split cuts off the operations that share names, directly or over others,
// with the batch's first.
func (l *Lane) split(b *batch) (part, rest *batch) {
	part, rest = &batch{formed: b.formed}, &batch{formed: b.formed}
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
