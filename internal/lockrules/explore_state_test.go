package lockrules

import "slices"

// checkState checks what holds in each state, whatever led to it.
func (e *explorer) checkState(w *world) {
	for i := range w.recs {
		rec := &w.recs[i]
		e.checkOneWriterOrReaders(w, rec)
		last, next := w.now, Millis(0)
		ends := func(end Millis, keepsOut bool) {
			last = max(last, end)
			if keepsOut && (next == 0 || end < next) {
				next = end
			}
		}
		for _, h := range e.refs[rec.LockName].holds {
			ends(h.expires, true)
			if h.token > rec.FencingToken {
				e.fail("%s: a holding has a higher token than its record", rec.LockName)
			}
		}
		for _, m := range e.refs[rec.LockName].marks {
			ends(m.until, m.write)
		}
		if got := Lasts(*rec, w.now, 7); got != last-w.now+7 {
			e.fail("%s: lasts %d, not %d", rec.LockName, got, last-w.now+7)
		}
		if got := NextLapse(*rec, w.now); got != next {
			e.fail("%s: next lapse %d, not %d", rec.LockName, got, next)
		}
		if HeldByAnybody(*rec, w.now) != (len(e.refs[rec.LockName].holds) > 0) {
			e.fail("%s: held by anybody", rec.LockName)
		}
		if _, changed := Settle(*rec, w.now); changed {
			e.fail("%s: settled although the clock never went back", rec.LockName)
		}
	}
	e.checkAllOrNone(w)
	e.checkTurns(w)
}

// checkOneWriterOrReaders: two holdings of which one writes are of one chain,
// unless one is released and only held on: nobody works under that.
func (e *explorer) checkOneWriterOrReaders(w *world, rec *Record) {
	holds := e.refs[rec.LockName].holds
	for _, a := range holds {
		for _, b := range holds {
			if a.id != b.id && a.write && !a.released && !b.released && !slices.Contains(w.chainOf(a.id), b.id) && !slices.Contains(w.chainOf(b.id), a.id) {
				e.fail("%s: %v beside %v", rec.LockName, a, b)
			}
		}
	}
}

func (w *world) chainOf(id string) []string {
	for o := range w.owners {
		for _, s := range w.owners[o] {
			if s.id == id {
				return w.chain(o, s.parent)
			}
		}
	}
	return nil
}

// checkAllOrNone: an acquisition lives in all of its records or in none, with
// one token and one end.
func (e *explorer) checkAllOrNone(w *world) {
	for o := range w.owners {
		for _, s := range w.owners[o] {
			var first refHold
			for i, want := range s.wants {
				h := e.refs[want.Name].holds[refHold{id: s.id, write: want.Mode == Write}.key()]
				h.write = false
				if i == 0 {
					first = h
				}
				if h != first {
					e.fail("%s of %v: %v in one record, %v in another", s.id, s.wants, first, h)
				}
			}
		}
	}
}
