package lockservice

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redislockservice/redislockservice/internal/keyspace"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// LockInfo is the record of one lock, as it is in Redis. Its JSON has the field
// names of the record. All times are of Redis' clock.
type LockInfo struct {
	LockName             string        `json:"lockName"`
	WriteOwner           *LockHolding  `json:"writeOwner"`
	ReadOwners           []LockHolding `json:"readOwners"`
	Waiting              []Waiter      `json:"waiting"`
	KeepLockData         bool          `json:"keepLockData"`
	FencingToken         int64         `json:"fencingToken"`
	UpdatedAtEpochMillis int64         `json:"updatedAtEpochMillis"`
	// LastSuccess is the last write holding whose code returned without an
	// error, if the record is kept.
	LastSuccess *LockHolding `json:"lastSuccess,omitempty"`
	// ReadAtEpochMillis is Redis' time when the record was read. It is not part
	// of the record.
	ReadAtEpochMillis int64 `json:"readAtEpochMillis"`
}

// LockHolding is an owner: the current one while ExpiresAtEpochMillis is set
// and not past, the previous one otherwise.
type LockHolding struct {
	ID                    string `json:"id"` // of the acquisition
	Owner                 string `json:"owner"`
	Node                  string `json:"node"`
	AcquiredAtEpochMillis int64  `json:"acquiredAtEpochMillis"`
	ExpiresAtEpochMillis  *int64 `json:"expiresAtEpochMillis"`
	LeaseMillis           int64  `json:"leaseMillis"`
	FencingToken          int64  `json:"fencingToken"`
	ReleasedAtEpochMillis *int64 `json:"releasedAtEpochMillis"`
	// Outcome is how the code ended: "ok", "error", "panic" (also
	// runtime.Goexit) or "lost"; empty while it runs, and for ever if its
	// process died. See State.
	Outcome string `json:"outcome"`
	// Error is the beginning of the code's error text, with [WithKeepError].
	Error string `json:"error,omitempty"`
}

// Waiter is a node on which somebody waits for the lock.
type Waiter struct {
	Node             string `json:"node"`
	Write            bool   `json:"write"` // somebody there waits to write
	SinceEpochMillis int64  `json:"sinceEpochMillis"`
	UntilEpochMillis int64  `json:"untilEpochMillis"` // when the mark lapses unless it is refreshed
}

// GetLockInfo returns the records of the locks, in the order of the names; a
// name without a record in Redis is left out. A key that holds something else
// gives an error that matches [ErrCorruptRecord], together with what could be
// read of the others. Names are checked ([ErrInvalidArgument]); further errors
// are [ErrClosed], [ErrUnavailable] and ctx's own.
func (s *RedisLockService) GetLockInfo(ctx context.Context, names []string) ([]LockInfo, error) {
	if len(names) == 0 {
		return nil, invalid("no lock names are given")
	}
	var errs []error
	for _, name := range names {
		if err := keyspace.CheckName(name); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, invalid("%w", err)
	}
	var infos []LockInfo
	for part := range slices.Chunk(unique(names), namesPerRead) {
		read, err := s.readInfos(ctx, part)
		infos = append(infos, read...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	return infos, errors.Join(errs...)
}

// namesPerRead bounds one read, so that a long list doesn't hold up the locks.
const namesPerRead = 128

func unique(names []string) []string {
	seen := make(map[string]bool, len(names))
	var once []string
	for _, name := range names {
		if !seen[name] {
			seen[name] = true
			once = append(once, name)
		}
	}
	return once
}

func (s *RedisLockService) readInfos(ctx context.Context, names []string) ([]LockInfo, error) {
	if s.isClosing() {
		return nil, ErrClosed
	}
	r, err := s.lane.Read(ctx, names)
	if err != nil {
		return nil, fromLane(err)
	}
	var infos []LockInfo
	for _, name := range names {
		if rec, ok := r.Records[name]; ok {
			infos = append(infos, infoOf(&rec, int64(r.At.Millis())))
		}
	}
	var errs []error
	for _, err := range r.Errs {
		errs = append(errs, fromLane(err))
	}
	return infos, errors.Join(errs...)
}

func infoOf(rec *lockrules.Record, readAt int64) LockInfo {
	info := LockInfo{LockName: rec.LockName, ReadOwners: []LockHolding{}, Waiting: []Waiter{},
		KeepLockData: rec.KeepLockData, FencingToken: rec.FencingToken, UpdatedAtEpochMillis: int64(rec.UpdatedAt),
		ReadAtEpochMillis: readAt, WriteOwner: holdingOf(rec.WriteOwner), LastSuccess: holdingOf(rec.LastSuccess)}
	for i := range rec.ReadOwners {
		info.ReadOwners = append(info.ReadOwners, *holdingOf(&rec.ReadOwners[i]))
	}
	for _, m := range rec.Waiting {
		info.Waiting = append(info.Waiting, Waiter{Node: m.Node, Write: m.Write,
			SinceEpochMillis: int64(m.Since), UntilEpochMillis: int64(m.Until)})
	}
	return info
}

func holdingOf(h *lockrules.Holding) *LockHolding {
	if h == nil {
		return nil
	}
	out := &LockHolding{ID: h.ID, Owner: h.Owner, Node: h.Node, AcquiredAtEpochMillis: int64(h.AcquiredAt),
		LeaseMillis: int64(h.LeaseMillis), FencingToken: h.FencingToken, Error: h.Error}
	if h.ExpiresAt != nil {
		v := int64(*h.ExpiresAt)
		out.ExpiresAtEpochMillis = &v
	}
	if h.ReleasedAt != nil {
		v := int64(*h.ReleasedAt)
		out.ReleasedAtEpochMillis = &v
	}
	if h.Outcome != nil {
		out.Outcome = string(*h.Outcome)
	}
	return out
}

// UpdatedAt is when the record was written.
func (i LockInfo) UpdatedAt() time.Time { return time.UnixMilli(i.UpdatedAtEpochMillis) }

// ReadAt is Redis' time when the record was read, for HeldAt and LapsedAt.
func (i LockInfo) ReadAt() time.Time { return time.UnixMilli(i.ReadAtEpochMillis) }

// AcquiredAt is when the lock was granted.
func (h LockHolding) AcquiredAt() time.Time { return time.UnixMilli(h.AcquiredAtEpochMillis) }

// ExpiresAt is when the lease ends; zero if the lock was released.
func (h LockHolding) ExpiresAt() time.Time { return timeOf(h.ExpiresAtEpochMillis) }

// ReleasedAt is when the lock was released; zero if it was not.
func (h LockHolding) ReleasedAt() time.Time { return timeOf(h.ReleasedAtEpochMillis) }

func timeOf(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms)
}

// HeldAt says whether the lock is held at a time of Redis' clock.
func (h LockHolding) HeldAt(redisTime time.Time) bool {
	return h.ExpiresAtEpochMillis != nil && redisTime.Before(h.ExpiresAt())
}

// LapsedAt says whether the lease had run out, without a release, by a time of
// Redis' clock: the owner crashed, or was cut off.
func (h LockHolding) LapsedAt(redisTime time.Time) bool {
	return h.ExpiresAtEpochMillis != nil && h.ReleasedAtEpochMillis == nil && !redisTime.Before(h.ExpiresAt())
}

func toValidUTF8(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
