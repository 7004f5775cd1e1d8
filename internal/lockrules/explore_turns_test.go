package lockrules

import "slices"

// checkTurns asks, for somebody of each node and each time of waiting, who goes
// first, and who does when that one has had its turn.
func (e *explorer) checkTurns(w *world) {
	if len(e.marks) == 0 {
		return
	}
	for i := range w.recs {
		for _, self := range []string{"", "n1", "n2"} {
			for _, age := range waitedFor {
				for _, but := range []string{"", "n1", "n2"} {
					e.checkTurn(w, &w.recs[i], self, age, but)
				}
			}
		}
	}
}

func (e *explorer) checkTurn(w *world, rec *Record, self string, age Millis, but string) {
	since := w.now - age
	m, yes := GoesFirst(*rec, self, since, w.now, func(m Mark) bool { return m.Node == but })
	want := e.refs.goesFirst(rec.LockName, self, but, since, w.now)
	if yes != (len(want) > 0) || yes && !slices.Contains(want, m.Node) {
		e.fail("%s: on %q, waiting for %d, lets %v go first, by the reference %v", rec.LockName, self, age, m, want)
	}
	if yes && e.eldest(rec.LockName, self, since) {
		e.fail("%s: on %q, waiting for %d: the eldest has to stand back", rec.LockName, self, age)
	}
}

// eldest says whether nobody of another node has waited for longer.
func (e *explorer) eldest(name, self string, since Millis) bool {
	for node, m := range e.refs[name].marks {
		if node != self && m.since < since {
			return false
		}
	}
	return true
}

// checkWaited asks as one that has waited for a while. What it is told agrees with
// the reference; if it has waited for longest of all, and too long, nobody who
// only waits is in its way; and it never gets less than one who has just come.
func (e *explorer) checkWaited(recs []Record, req Request, now Millis) {
	if len(e.marks) == 0 {
		return
	}
	fresh := Acquire(recs, req, instant(now), nil)
	for _, age := range waitedFor {
		req.Since = now - age
		d := Acquire(recs, req, instant(now), nil)
		if why := e.refs.inTheWay(req, nil, now); d.Granted != (len(why) == 0) || !equalReasons(d.Blockers, why) {
			e.fail("%v: granted %v, blockers %v, by the reference %v", req, d.Granted, d.Blockers, why)
		}
		if !d.Granted && d.RetryAt != e.refs.retryAt(req, now) {
			e.fail("%v: to be tried at %d, by the reference at %d", req, d.RetryAt, e.refs.retryAt(req, now))
		}
		if fresh.Granted && !d.Granted {
			e.fail("%v: waiting has taken it away", req)
		}
		e.checkEldest(d, req, age)
	}
}

func (e *explorer) checkEldest(d Decision, req Request, age Millis) {
	for _, want := range req.Wants {
		if age <= StarvesAfter || !e.eldest(want.Name, req.Node, req.Since) {
			continue
		}
		for _, b := range d.Blockers {
			if b.Name == want.Name && b.Reason == WriterWaits {
				e.fail("%v, the eldest, is kept out by %v who only waits", req, b)
			}
		}
	}
}

// checkWakeFirst: who is woken first is of those who gain, the eldest of them
// among them; whoever is left out is spoken of; two of whom one writes are not
// woken for a lock that nobody holds.
func (e *explorer) checkWakeFirst(rec *Record, self string, all []string, now Millis) {
	nodes, others := WakeFirst(*rec, self, now, func(Mark) bool { return false })
	if others != (len(nodes) < len(all)) || len(all) > 0 && len(nodes) == 0 {
		e.fail("%s: of %v wakes %v first, and says that there are others: %v", rec.LockName, all, nodes, others)
	}
	marks := refOf([]Record{*rec}, now)[rec.LockName].marks
	writes := false
	for _, node := range nodes {
		writes = writes || marks[node].write
		if !slices.Contains(all, node) {
			e.fail("%s: wakes %s, which doesn't gain", rec.LockName, node)
		}
	}
	if writes && len(nodes) > 1 && !HeldByAnybody(*rec, now) {
		e.fail("%s: wakes %v, who can't all get in", rec.LockName, nodes)
	}
	for _, node := range all {
		if !slices.ContainsFunc(nodes, func(n string) bool { return marks[n].since <= marks[node].since }) {
			e.fail("%s: wakes %v, and not %s, which is elder", rec.LockName, nodes, node)
		}
	}
}
