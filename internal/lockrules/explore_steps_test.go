package lockrules

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// everyStep tries all that can be done next.
func (e *explorer) everyStep(w *world) {
	for o := range w.owners {
		for i := range w.owners[o] {
			if w.owners[o][i].id == "" {
				continue
			}
			e.again(w, o, i)
			e.renew(w, o, i)
			e.release(w, o, i, false)
			if e.hold && w.owners[o][i].wants[0].Mode == Write {
				e.release(w, o, i, true)
			}
		}
		e.acquireAll(w, o)
	}
	for _, node := range e.marks {
		for i := range w.recs {
			e.mark(w, i, node, Waiters{Want: Nobody})
			for _, age := range e.ages {
				e.mark(w, i, node, Waiters{Want: SomeRead, Since: w.now - age})
				e.mark(w, i, node, Waiters{Want: SomeWrites, Since: w.now - age})
			}
		}
	}
	next := w.with(nil)
	next.now += tick
	e.reach(next, "a tick")
}

// acquireAll asks for every subset in every mode, as a new acquisition of the
// owner or nested in each of those that it has.
func (e *explorer) acquireAll(w *world, o int) {
	free := slices.IndexFunc(w.owners[o], func(s slot) bool { return s.id == "" })
	if free < 0 {
		return
	}
	parents := []int{}
	for i := range w.owners[o] {
		if w.owners[o][i].id != "" {
			parents = append(parents, i)
		}
	}
	if len(parents) == 0 {
		parents = append(parents, -1)
	}
	for _, parent := range parents {
		for _, wants := range e.subsets() {
			e.ids++
			req := Request{Asker: Asker{ID: fmt.Sprintf("a%d", e.ids), Owner: "o", Node: e.space.owners[o], Chain: w.chain(o, parent)},
				Wants: wants, LeaseMillis: leaseTime}
			if recs, ok := e.acquire(w, req); ok {
				next := w.with(recs)
				next.owners[o][free] = slot{id: req.ID, parent: parent, wants: acquired(recs, req)}
				if len(next.owners[o][free].wants) == 0 {
					continue // all of it was reused: nothing was acquired
				}
				e.reach(next, "%s (owner %d, in %v) gets %v", req.ID, o, req.Chain, wants)
			}
		}
	}
}

func (e *explorer) subsets() [][]Want {
	var all [][]Want
	for _, m := range []Mode{Read, Write} {
		for _, name := range e.names {
			all = append(all, []Want{{name, m}})
		}
		if len(e.names) == 2 {
			all = append(all, []Want{{e.names[0], m}, {e.names[1], Read}}, []Want{{e.names[0], m}, {e.names[1], Write}})
		}
	}
	return all
}

func acquired(recs []Record, req Request) []Want {
	var wants []Want
	for i := range recs {
		if h, _ := recs[i].find(req.ID); h != nil {
			wants = append(wants, req.Wants[i])
		}
	}
	return wants
}

// acquire asks, compares the answer with the reference, and asks in ways that
// must not make a difference.
func (e *explorer) acquire(w *world, req Request) (recs []Record, granted bool) {
	before := w.of(req.Wants)
	e.checkWaited(before, req, w.now)
	d := Acquire(before, req, instant(w.now), nil)
	why := e.refs.inTheWay(req, nil, w.now)
	if d.Granted != (len(why) == 0) || !maps.Equal(reasons(d.Blockers), why) {
		e.fail("%v: granted %v, blockers %v, by the reference %v", req, d.Granted, d.Blockers, why)
	}
	e.checkParked(before, req, w.now)
	e.checkMarks(before, req, w.now, d.Granted)
	if !d.Granted {
		if at := e.refs.retryAt(req, w.now); at != d.RetryAt {
			e.fail("%v: to be tried at %d, by the reference at %d", req, d.RetryAt, at)
		}
		return nil, false
	}
	want, token := e.refs.acquire(req, instant(w.now))
	e.same(want, w.with(d.Records).recs, w.now, "%v granted", req)
	if d.Token != token || d.ExpiresAt != w.now+req.LeaseMillis {
		e.fail("%v: token %d until %d, by the reference %d", req, d.Token, d.ExpiresAt, token)
	}
	e.checkLostReply(d, req, w.now)
	return d.Records, true
}

func equalReasons(blockers []Blocker, why map[string]Millis) bool {
	return maps.Equal(reasons(blockers), why)
}

// reasons is the blockers in the words of the reference.
func reasons(blockers []Blocker) map[string]Millis {
	why := map[string]Millis{}
	for _, b := range blockers {
		if b.Reason == WriterWaits {
			why[b.Name+" awaited by "+b.Node] = b.Until
		} else {
			why[b.Name+" held by "+b.ID] = b.Until
		}
	}
	return why
}

// checkParked asks once more, with a writer parked on the own node.
func (e *explorer) checkParked(recs []Record, req Request, now Millis) {
	for _, age := range waitedFor {
		since := now - age
		d := Acquire(recs, req, instant(now), func(name string) (Blocker, bool) {
			return Blocker{Name: name, Reason: WriterWaits, Mode: Write, Node: req.Node, Since: since, Until: parkedUntil}, true
		})
		if why := e.refs.inTheWay(req, &since, now); d.Granted != (len(why) == 0) || !maps.Equal(reasons(d.Blockers), why) {
			e.fail("%v beside a writer parked since %d: granted %v, blockers %v, by the reference %v", req, since, d.Granted, d.Blockers, why)
		}
	}
}

// checkMarks: a mark never keeps out its own node, nor a writer, nor one whose
// chain has the name; another's write mark does keep out a new reader.
func (e *explorer) checkMarks(recs []Record, req Request, now Millis, granted bool) {
	if len(e.marks) == 0 {
		return
	}
	without := make([]Record, len(recs))
	newReader, awaited := false, false
	for i := range recs {
		without[i] = recs[i].clone()
		owns := slices.ContainsFunc(slices.Collect(maps.Values(e.refs[recs[i].LockName].holds)), func(h refHold) bool { return h.own(req.Asker) })
		fresh := req.Wants[i].Mode == Read && !owns
		without[i].Waiting = slices.DeleteFunc(without[i].Waiting, func(m Mark) bool { return !fresh || m.Node == req.Node })
		newReader = newReader || fresh
		awaited = awaited || fresh && slices.ContainsFunc(without[i].Waiting, func(m Mark) bool { return m.Write && m.Alive(now) })
	}
	if Acquire(without, req, instant(now), nil).Granted != granted {
		e.fail("%v: a mark counted that must not", req)
	}
	if awaited && granted {
		e.fail("%v: a new reader got past a waiting writer", req)
	}
}

// checkLostReply runs a granted acquire again, at once and later: it is granted
// with the same token, and nothing else has changed but when it ends.
func (e *explorer) checkLostReply(d Decision, req Request, now Millis) {
	if len(acquired(d.Records, req)) < len(req.Wants) {
		return // partly reused, so its caller had no business to ask
	}
	for _, at := range []Millis{now, now + tick} {
		again := Acquire(d.Records, req, instant(at), nil)
		if !again.Granted || again.Token != d.Token {
			e.fail("%v: run again at +%d: granted %v, token %d, before %d", req, at-now, again.Granted, again.Token, d.Token)
		}
		want, _ := refOf(d.Records, at).acquire(req, instant(at))
		e.same(want, again.Records, at, "%v run again", req)
	}
}

// again runs an acquire that was granted a while ago: its reply was lost, and
// the outage may have been longer than the lease.
func (e *explorer) again(w *world, o, i int) {
	s := &w.owners[o][i]
	if len(s.wants) == 0 {
		return
	}
	req := Request{Asker: Asker{ID: s.id, Owner: "o", Node: e.space.owners[o], Chain: w.chain(o, s.parent)}, Wants: s.wants, LeaseMillis: leaseTime}
	before := w.of(s.wants)
	d := Acquire(before, req, instant(w.now), nil)
	why := e.refs.inTheWay(req, nil, w.now)
	if d.Granted != (len(why) == 0) {
		e.fail("%v again: granted %v, by the reference %v", req, d.Granted, why)
	}
	if !d.Granted {
		return
	}
	want, token := e.refs.acquire(req, instant(w.now))
	next := w.with(d.Records)
	e.same(want, next.recs, w.now, "%v again", req)
	if d.Token != token {
		e.fail("%v again: token %d, by the reference %d", req, d.Token, token)
	}
	if got := acquired(d.Records, req); len(got) < len(s.wants) {
		next.owners[o][i].wants = got
		if len(got) == 0 { // what it is nested in writes by now, so all of it is reused
			next.drop(o, i)
		}
	}
	e.reach(next, "%s runs again", s.id)
}

func (e *explorer) renew(w *world, o, i int) {
	s := &w.owners[o][i]
	var names []string
	for _, want := range s.wants {
		names = append(names, want.Name)
	}
	after, ok := Renew(w.of(s.wants), Renewal{ID: s.id, LeaseMillis: leaseTime, Seen: s.seen}, w.now)
	want, alive := e.refs.renew(s.id, names, leaseTime, w.now)
	if ok != alive {
		e.fail("%s renewed: %v, by the reference %v", s.id, ok, alive)
	}
	if !ok {
		if after != nil {
			e.fail("%s: records from a renewal that failed", s.id)
		}
		next := w.with(nil)
		next.drop(o, i)
		e.reach(next, "%s finds itself lost", s.id)
		return
	}
	next := w.with(after)
	e.same(want, next.recs, w.now, "%s renewed", s.id)
	h, _ := after[0].find(s.id)
	next.owners[o][i].seen = h.Renewals
	e.checkRenewal(w, next.recs, s.id)
	e.reach(next, "%s is renewed", s.id)
}

// checkRenewal: nothing came back to life, nothing ends sooner, and the same
// renewal can run again.
func (e *explorer) checkRenewal(w *world, after []Record, id string) {
	for name, l := range refOf(after, w.now) {
		for key, h := range l.holds {
			old, there := e.refs[name].holds[key]
			if !there || h.expires < old.expires {
				e.fail("%s renewed: %v, before %v", id, h, old)
			}
		}
	}
}

// release ends an acquisition in all its records, and once more, as after a
// lost reply.
func (e *explorer) release(w *world, o, i int, holdOn bool) {
	s := &w.owners[o][i]
	rel, label := Release{ID: s.id, Outcome: OK}, s.id+" is released"
	recs := w.of(s.wants)
	for j := range recs {
		h, _ := recs[j].find(s.id)
		if h != nil && holdOn {
			rel.HoldFor, label = w.now-h.AcquiredAt+tick, s.id+" is released and held on"
		}
		alive := h.Alive(w.now)
		after, met, opened := ReleaseOne(recs[j], rel, w.now)
		if opened != alive || (met == Done) != alive || (met == Missing) != (h == nil) {
			e.fail("%s: met %v, opened %v, alive %v", label, met, opened, alive)
		}
		again, met2, opened2 := ReleaseOne(after, rel, w.now)
		if met2 != met || opened2 || !reflect.DeepEqual(after, again) {
			e.fail("%s twice: met %v then %v, opened %v", label, met, met2, opened2)
		}
		recs[j] = after
	}
	next := w.with(recs)
	e.same(e.refs.release(s.id, rel.HoldFor, w.now), next.recs, w.now, "%s", label)
	e.checkWake(&next)
	next.drop(o, i)
	e.reach(next, "%s", label)
}

// drop frees a slot; what was nested in it is nested in what it was nested in.
func (w *world) drop(o, i int) {
	for j := range w.owners[o] {
		if s := &w.owners[o][j]; s.id != "" && s.parent == i {
			s.parent = w.owners[o][i].parent
		}
	}
	w.owners[o][i] = slot{}
}

func (e *explorer) mark(w *world, i int, node string, waiters Waiters) {
	rec := w.recs[i]
	after, changed, opened := SetMark(rec, node, waiters, w.now, markTime)
	want := e.refs.setMark(rec.LockName, node, waiters, w.now, markTime)
	next := w.with([]Record{after})
	e.same(want, next.recs, w.now, "%s marks %s: %v", node, rec.LockName, waiters)
	old, there := e.refs[rec.LockName].marks[node]
	m := want[rec.LockName].marks[node]
	if !changed && (there != (waiters.Want != Nobody) || old.write != m.write) {
		e.fail("%s marks %s: changed, but says that it has not", node, rec.LockName)
	}
	if old.write && (!m.write || old.since < m.since) && !opened {
		e.fail("%s marks %s: who stepped down for its writer isn't told", node, rec.LockName)
	}
	if _, changed, _ := SetMark(after, node, waiters, w.now, markTime); changed {
		e.fail("%s marks %s twice", node, rec.LockName)
	}
	e.checkWake(&next)
	e.reach(next, "%s marks %s: %v", node, rec.LockName, waiters)
}

func (e *explorer) checkWake(w *world) {
	if len(e.marks) == 0 {
		return
	}
	refs := refOf(w.recs, w.now)
	for i := range w.recs {
		for _, self := range []string{"", "n1", "n2"} {
			got := Wake(w.recs[i], self, w.now)
			slices.Sort(got)
			if want := refs.wake(w.recs[i].LockName, self, w.now); !slices.Equal(got, want) {
				e.fail("%s: wakes %v, by the reference %v", w.recs[i].LockName, got, want)
			}
			e.checkWakeFirst(&w.recs[i], self, got, w.now)
		}
	}
}

// same compares records after a step with what the reference makes of it.
func (e *explorer) same(want refLocks, recs []Record, now Millis, format string, args ...any) {
	if got := refOf(recs, now); !subset(want, got).equal(got) {
		e.fail("%s:\n got %v\nwant %v", fmt.Sprintf(format, args...), got, want)
	}
	for i := range recs {
		if recs[i].FencingToken < e.refs[recs[i].LockName].token {
			e.fail("%s: the token of %s fell", fmt.Sprintf(format, args...), recs[i].LockName)
		}
	}
}

// subset is the locks of want that got has.
func subset(want, got refLocks) refLocks {
	s := refLocks{}
	for name := range got {
		s[name] = want[name]
	}
	return s
}
