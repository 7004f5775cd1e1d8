package lockrules

import "slices"

// Release ends a holding.
type Release struct {
	ID      string
	Outcome Outcome
	Error   string // how the code failed, if its owner wants that kept
	// HoldFor, if positive, keeps the lock held until so long after it was
	// acquired, although its owner is done with it.
	HoldFor Millis
}

// Released is what a release met.
type Released uint8

// What a release meets in a record.
const (
	Done    Released = iota // it was held and is released now, or had been released before
	Missing                 // the record does not have the id
	Lapsed                  // the lease had run out; nothing was touched
)

// ReleaseOne ends the holding in one record. opened says that others may get in
// who could not before, or will sooner than the record had promised.
func ReleaseOne(rec Record, rel Release, now Millis) (after Record, met Released, opened bool) {
	h, _ := rec.find(rel.ID)
	switch {
	case h == nil:
		return rec, Missing, false
	case h.ReleasedAt != nil:
		return rec, Done, false
	case !h.Alive(now):
		return rec, Lapsed, false
	}
	c := rec.clone()
	h, mode := c.find(rel.ID)
	h.release(rel, now)
	switch {
	case rel.Outcome == Undone:
		c.forget(rel.ID)
	case mode == Read:
		c.moveToEnd(*h)
	case c.KeepLockData && rel.Outcome == OK:
		success := *h
		c.LastSuccess = &success
	}
	c.tidy(now)
	return c, Done, true
}

// moveToEnd puts a reader that leaves behind all others, so that tidy keeps
// those who left last: the newest for the audit, and the one that its release,
// when it runs again after a lost reply, is to find.
func (r *Record) moveToEnd(h Holding) {
	r.ReadOwners = slices.DeleteFunc(r.ReadOwners, func(o Holding) bool { return o.ID == h.ID })
	r.ReadOwners = append(r.ReadOwners, h)
}

// forget removes a holding, in place.
func (r *Record) forget(id string) {
	if r.WriteOwner != nil && r.WriteOwner.ID == id {
		r.WriteOwner = nil
	}
	r.ReadOwners = slices.DeleteFunc(r.ReadOwners, func(h Holding) bool { return h.ID == id })
}

func (h *Holding) release(rel Release, now Millis) {
	at, outcome := now, rel.Outcome
	h.ReleasedAt, h.Outcome, h.Error = &at, &outcome, rel.Error
	until := min(h.AcquiredAt+rel.HoldFor, h.end(now))
	if rel.HoldFor > 0 && now < until {
		h.ExpiresAt = &until
		return
	}
	h.ExpiresAt = nil
}

// Renewal extends the holdings of one acquisition, all or none.
type Renewal struct {
	ID          string
	LeaseMillis Millis
	// Seen is the renewal count that the holder knows to be written. One that
	// it only tried to write (its reply was lost) may be missing and doesn't count.
	Seen int64
}

// Renew extends the holding in every record, or says that the lock is lost:
// a record is missing, has another's id, has lapsed, or is older than what its
// holder last wrote (it came back from a snapshot). A lost lock is not touched.
func Renew(recs []Record, ren Renewal, now Millis) (after []Record, ok bool) {
	after = make([]Record, len(recs))
	for i := range recs {
		h, _ := recs[i].find(ren.ID)
		if h == nil || h.ReleasedAt != nil || !h.Alive(now) || h.Renewals < ren.Seen {
			return nil, false
		}
	}
	for i := range recs {
		c := recs[i].clone()
		h, _ := c.find(ren.ID)
		expires := max(h.end(now), now+ren.LeaseMillis)
		h.ExpiresAt, h.LeaseMillis = &expires, max(h.LeaseMillis, ren.LeaseMillis)
		h.Renewals = max(h.Renewals, ren.Seen) + 1
		c.tidy(now)
		after[i] = c
	}
	return after, true
}
