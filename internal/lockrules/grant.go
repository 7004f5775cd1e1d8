package lockrules

import "slices"

// Want is one lock of a request.
type Want struct {
	Name string
	Mode Mode
}

// Asker is who asks: one acquisition.
type Asker struct {
	ID    string
	Owner string
	Node  string
	// Chain holds the ids of the acquisitions that the call is nested in.
	Chain []string
	// Since is when it began to wait; 0: it has not waited.
	Since Millis
}

// own says whether a holding belongs to the asker or to its chain.
func (a *Asker) own(id string) bool { return id == a.ID || slices.Contains(a.Chain, id) }

// Request asks for locks, all or none.
type Request struct {
	Asker
	// Wants has each name once. What the chain writes already is reused: it
	// needs no grant, is better left out, and isn't written into its record.
	Wants       []Want
	LeaseMillis Millis
	Keep        bool // keep the record after use
}

// Reason is in which way a blocker blocks.
type Reason uint8

// The reasons for which a lock isn't to be had.
const (
	Held        Reason = iota // somebody else holds it
	WriterWaits               // somebody waits to write, so no new reader gets in
	NotYetUp                  // the server has restarted or lost data; nobody gets anything yet
)

// Blocker is one thing in the way of a request.
type Blocker struct {
	Name   string
	Reason Reason
	Mode   Mode
	ID     string // of the acquisition; empty if a node's mark blocks
	Owner  string
	Node   string
	Since  Millis
	Until  Millis // when it lapses unless it is renewed
}

// LocalWriter tells of somebody parked on the asker's own node, of another
// chain, who waits to write name. The node's own mark is not asked: what is
// parked is the truth, a mark may be older.
type LocalWriter func(name string) (b Blocker, waiting bool)

// Decision is the answer to a request.
type Decision struct {
	Granted   bool
	Records   []Record // if granted: all records of the request, changed
	Token     int64    // if granted
	ExpiresAt Millis   // if granted
	// Acquired is since when the first of the records says that it is held, if
	// granted: before now if this request had been granted, and its reply was lost.
	Acquired Millis

	Blockers []Blocker // if not granted, never empty
	RetryAt  Millis    // if not granted: the first moment at which it may be, unless somebody lets go before
}

// Acquire decides a request. recs are the records of the wants, in their order.
func Acquire(recs []Record, req Request, now Instant, local LocalWriter) Decision {
	ms := now.Millis()
	var blockers []Blocker
	for i, w := range req.Wants {
		blockers = appendBlockers(blockers, &recs[i], w.Mode, &req.Asker, ms, local)
	}
	if len(blockers) > 0 {
		return Decision{Blockers: blockers, RetryAt: retryAt(blockers)}
	}
	return grant(recs, req, now)
}

// retryAt is when the last of the blockers has lapsed: before that, only a
// release helps, and a release wakes whoever waits.
func retryAt(blockers []Blocker) Millis {
	var at Millis
	for i := range blockers {
		at = max(at, blockers[i].Until)
	}
	return at
}

func appendBlockers(to []Blocker, rec *Record, want Mode, who *Asker, now Millis, local LocalWriter) []Blocker {
	ownsIt := false
	check := func(h *Holding, mode Mode) {
		switch {
		case !h.Alive(now):
		case who.own(h.ID) && h.ReleasedAt == nil: // released but held on (HoldFor) is nobody's
			ownsIt = true
		case mode == Write || want == Write:
			to = append(to, heldBy(rec.LockName, h, mode, now))
		}
	}
	check(rec.WriteOwner, Write)
	for i := range rec.ReadOwners {
		check(&rec.ReadOwners[i], Read)
	}
	if want == Read && !ownsIt {
		to = appendWaitingWriters(to, rec, who, now, local)
	}
	return to
}

// appendWaitingWriters adds the writers that a new reader has to let pass.
// One that starves lets only those pass who came before it.
func appendWaitingWriters(to []Blocker, rec *Record, who *Asker, now Millis, local LocalWriter) []Blocker {
	for i := range rec.Waiting {
		m := &rec.Waiting[i]
		if m.Write && m.Node != who.Node && m.Alive(now) && !who.passes(m.Since, now) {
			to = append(to, Blocker{Name: rec.LockName, Reason: WriterWaits, Mode: Write,
				Node: m.Node, Since: m.Since, Until: who.passesAt(m.Since, m.end(now))})
		}
	}
	if local != nil {
		if b, waits := local(rec.LockName); waits && !who.passes(b.Since, now) {
			b.Until = who.passesAt(b.Since, b.Until)
			to = append(to, b)
		}
	}
	return to
}

func heldBy(name string, h *Holding, mode Mode, now Millis) Blocker {
	return Blocker{Name: name, Reason: Held, Mode: mode, ID: h.ID, Owner: h.Owner, Node: h.Node,
		Since: h.AcquiredAt, Until: h.end(now)}
}

// grant gives all locks of the request. The same request may have been granted
// before, its reply having been lost: then the token stays as it was minted.
func grant(recs []Record, req Request, now Instant) Decision {
	ms := now.Millis()
	token, again := grantedBefore(recs, &req, ms)
	if !again {
		token = int64(now)
		for i := range recs {
			token = max(token, recs[i].FencingToken+1)
		}
	}
	expires := ms + req.LeaseMillis
	granted := make([]Record, len(recs))
	for i := range recs {
		granted[i] = recs[i].grantOne(&req, req.Wants[i].Mode, token, expires, ms)
	}
	acquired := ms
	if h, _ := granted[0].find(req.ID); h != nil {
		acquired = h.AcquiredAt
	}
	return Decision{Granted: true, Records: granted, Token: token, ExpiresAt: expires, Acquired: acquired}
}

// grantedBefore finds the request's id alive in all its records.
func grantedBefore(recs []Record, req *Request, now Millis) (token int64, all bool) {
	for i := range recs {
		h, mode := recs[i].find(req.ID)
		if h == nil || mode != req.Wants[i].Mode || !h.Alive(now) {
			return 0, false
		}
		token = h.FencingToken
	}
	return token, len(recs) > 0
}

func (r *Record) grantOne(req *Request, mode Mode, token int64, expires, now Millis) Record {
	if mode == Write && r.WriteOwner.Alive(now) && r.WriteOwner.ID != req.ID {
		return *r // the chain writes already: reuse, its holding is not to be overwritten
	}
	c := r.clone()
	h := Holding{ID: req.ID, Owner: req.Owner, Node: req.Node, AcquiredAt: now, ExpiresAt: &expires,
		LeaseMillis: req.LeaseMillis, FencingToken: token}
	if old, _ := c.find(req.ID); old != nil && old.Alive(now) {
		h.AcquiredAt, h.Renewals = old.AcquiredAt, old.Renewals
		if end := old.end(now); end > expires {
			h.ExpiresAt = &end
		}
	}
	c.KeepLockData = req.Keep || c.KeepLockData && c.heldByOthers(req.ID, now)
	if mode == Write {
		c.WriteOwner = &h
	} else {
		c.ReadOwners = slices.DeleteFunc(c.ReadOwners, func(o Holding) bool { return o.ID == req.ID })
		c.ReadOwners = append(c.ReadOwners, h)
	}
	c.FencingToken = max(c.FencingToken, token)
	c.tidy(now)
	return c
}

func (r *Record) heldByOthers(id string, now Millis) bool {
	if r.WriteOwner.Alive(now) && r.WriteOwner.ID != id {
		return true
	}
	return slices.ContainsFunc(r.ReadOwners, func(h Holding) bool { return h.ID != id && h.Alive(now) })
}
