package lockrules

import (
	"encoding/json"
	"slices"
)

// Version is the version of the records that this package writes and reads.
const Version = 1

// MaxPrevious is how many previous readers a record remembers that is kept for the
// audit, and FewPrevious any other: they are written and read with each grant and
// release, by everybody who shares the lock, and make up most of it.
const (
	MaxPrevious = 16
	FewPrevious = 8
)

// Millis is a moment of Redis' clock, or a span of it, in milliseconds. A type
// of its own, so that it can't be mixed with local time.
type Millis int64

// Instant is a moment of Redis' clock in microseconds, as TIME gives it.
type Instant int64

// Millis is the instant in the unit of the records.
func (i Instant) Millis() Millis { return Millis(i / 1000) }

// Mode is what a lock is wanted or held for.
type Mode uint8

// The modes of a lock.
const (
	Read  Mode = iota // shared
	Write             // exclusive
)

func (m Mode) String() string {
	if m == Write {
		return "write"
	}
	return "read"
}

// Outcome is how protected code ended.
type Outcome string

// The outcomes that a release records.
const (
	OK     Outcome = "ok"
	Error  Outcome = "error"
	Panic  Outcome = "panic"
	LostIt Outcome = "lost"
	// Undone is a grant that its caller never used, having left before it came:
	// its holding is forgotten.
	Undone Outcome = ""
)

// Record is the state of one lock. The zero value is not a record: see [Empty].
type Record struct {
	V            int       `json:"v"`
	LockName     string    `json:"lockName"`
	WriteOwner   *Holding  `json:"writeOwner"`
	ReadOwners   []Holding `json:"readOwners"`
	Waiting      []Mark    `json:"waiting"`
	KeepLockData bool      `json:"keepLockData"`
	FencingToken int64     `json:"fencingToken"`
	UpdatedAt    Millis    `json:"updatedAtEpochMillis"`
	// LastSuccess is the last write holding that ended with OK, of a kept lock.
	LastSuccess *Holding `json:"lastSuccess,omitempty"`

	// Extra holds fields that a newer writer of the same version has added.
	Extra map[string]json.RawMessage `json:"-"`
}

// Holding is one owner, current or previous.
type Holding struct {
	ID           string   `json:"id"` // the acquisition
	Owner        string   `json:"owner"`
	Node         string   `json:"node"`
	AcquiredAt   Millis   `json:"acquiredAtEpochMillis"`
	ExpiresAt    *Millis  `json:"expiresAtEpochMillis"` // nil: released
	LeaseMillis  Millis   `json:"leaseMillis"`
	FencingToken int64    `json:"fencingToken"`
	ReleasedAt   *Millis  `json:"releasedAtEpochMillis"`
	Outcome      *Outcome `json:"outcome"`
	Error        string   `json:"error,omitempty"`
	// Renewals counts up with each renewal, so that a record that came back
	// from an old snapshot is told from the one its holder last wrote.
	Renewals int64 `json:"renewals,omitempty"`

	Extra map[string]json.RawMessage `json:"-"`
}

// Mark says that somebody on a node waits for the lock.
type Mark struct {
	Node  string `json:"node"`
	Write bool   `json:"write"` // somebody there waits to write
	Since Millis `json:"sinceEpochMillis"`
	Until Millis `json:"untilEpochMillis"`
	// LastsMillis is how long the mark lasts from each refresh: what a lease
	// is to a holding. It bounds Until when Redis' clock goes back.
	LastsMillis Millis `json:"lastsMillis"`

	Extra map[string]json.RawMessage `json:"-"`
}

// Empty is the record of a lock that has none in Redis.
func Empty(name string) Record {
	return Record{V: Version, LockName: name, ReadOwners: []Holding{}, Waiting: []Mark{}}
}

// end is when the holding ends for whoever judges at now; 0 if it is released.
func (h *Holding) end(now Millis) Millis {
	if h.ExpiresAt == nil {
		return 0
	}
	return min(*h.ExpiresAt, now+h.LeaseMillis)
}

// Alive says whether the holding keeps others out at now.
func (h *Holding) Alive(now Millis) bool { return h != nil && now < h.end(now) }

// end is when the mark lapses for whoever judges at now.
func (m *Mark) end(now Millis) Millis { return min(m.Until, now+m.LastsMillis) }

// Alive says whether the mark still speaks for somebody at now.
func (m *Mark) Alive(now Millis) bool { return now < m.end(now) }

// find returns the holding with the id, and its mode.
func (r *Record) find(id string) (*Holding, Mode) {
	if r.WriteOwner != nil && r.WriteOwner.ID == id {
		return r.WriteOwner, Write
	}
	for i := range r.ReadOwners {
		if r.ReadOwners[i].ID == id {
			return &r.ReadOwners[i], Read
		}
	}
	return nil, Read
}

// Find returns a copy of the holding with the id, and its mode.
func (r *Record) Find(id string) (h Holding, mode Mode, ok bool) {
	p, mode := r.find(id)
	if p == nil {
		return Holding{}, mode, false
	}
	return *p, mode, true
}

// clone copies what the functions of this package change in place.
func (r *Record) clone() Record {
	c := *r
	if r.WriteOwner != nil {
		w := *r.WriteOwner
		c.WriteOwner = &w
	}
	c.ReadOwners = slices.Clone(r.ReadOwners)
	c.Waiting = slices.Clone(r.Waiting)
	return c
}

// previousMax is how many previous readers the record remembers.
func (r *Record) previousMax() int {
	if r.KeepLockData {
		return MaxPrevious
	}
	return FewPrevious
}

// tidy drops marks that have lapsed and previous readers beyond the last few. It
// works in place, on a clone.
func (r *Record) tidy(now Millis) {
	r.Waiting = slices.DeleteFunc(r.Waiting, func(m Mark) bool { return !m.Alive(now) })
	previous := 0
	for i := range r.ReadOwners {
		if !r.ReadOwners[i].Alive(now) {
			previous++
		}
	}
	r.ReadOwners = slices.DeleteFunc(r.ReadOwners, func(h Holding) bool {
		if h.Alive(now) || previous <= r.previousMax() {
			return false
		}
		previous--
		return true
	})
	r.UpdatedAt = now
}

// Settle writes down expiries that Redis' clock, having gone back, left too far
// in the future, so that they end within one lease and not never.
func Settle(rec Record, now Millis) (settled Record, changed bool) {
	if !rec.unsettled(now) {
		return rec, false
	}
	c := rec.clone()
	if w := c.WriteOwner; w != nil {
		w.settle(now)
	}
	for i := range c.ReadOwners {
		c.ReadOwners[i].settle(now)
	}
	for i := range c.Waiting {
		c.Waiting[i].Until = c.Waiting[i].end(now)
	}
	c.UpdatedAt = now
	return c, true
}

func (h *Holding) settle(now Millis) {
	if h.ExpiresAt != nil {
		end := h.end(now)
		h.ExpiresAt = &end
	}
}

func (r *Record) unsettled(now Millis) bool {
	ahead := func(h *Holding) bool { return h != nil && h.ExpiresAt != nil && *h.ExpiresAt > h.end(now) }
	if ahead(r.WriteOwner) {
		return true
	}
	for i := range r.ReadOwners {
		if ahead(&r.ReadOwners[i]) {
			return true
		}
	}
	for i := range r.Waiting {
		if r.Waiting[i].Until > r.Waiting[i].end(now) {
			return true
		}
	}
	return false
}

// Lasts is how long Redis is to keep the record after now: until the last
// lease and mark in it have run out, and then for released. Zero means for
// ever. It is garbage collection, never the judge of a lease.
func Lasts(rec Record, now, released Millis) Millis {
	if rec.KeepLockData {
		return 0
	}
	last := now
	if rec.WriteOwner != nil {
		last = max(last, rec.WriteOwner.end(now))
	}
	for i := range rec.ReadOwners {
		last = max(last, rec.ReadOwners[i].end(now))
	}
	for i := range rec.Waiting {
		last = max(last, rec.Waiting[i].end(now))
	}
	return last - now + released
}
