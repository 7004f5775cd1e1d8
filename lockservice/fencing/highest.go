package fencing

import "sync/atomic"

// Highest is the rule in plain Go: the highest token that one resource has
// seen. It is for the process that owns a storage without transactions, such as
// a file, a device or a map. The zero value has seen none.
//
// Check by itself is atomic, the check with the write after it is not: a holder
// that passes, is paused, and writes after a newer one, has still overwritten
// it. So both belong under the lock by which the storage orders its writes:
//
//	mu.Lock()
//	defer mu.Unlock()
//	if err := highest.Check(token); err != nil {
//		return err
//	}
//	return write()
//
// It forgets with the process. An owner that starts again passes the highest
// token that it has stored to Check once, before it serves others.
type Highest struct {
	seen atomic.Int64
}

// Check returns nil if token is at least the highest token seen, and makes it
// the highest. Otherwise the error is a [*StaleTokenError]. A token that is not
// positive is [ErrInvalidArgument].
func (h *Highest) Check(token int64) error {
	if err := validToken(token); err != nil {
		return err
	}
	for {
		seen := h.seen.Load()
		if token < seen {
			return &StaleTokenError{Token: token, Highest: seen}
		}
		// Another check may have raised it since Load: look again.
		if h.seen.CompareAndSwap(seen, token) {
			return nil
		}
	}
}

// Token returns the highest token seen, or 0.
func (h *Highest) Token() int64 { return h.seen.Load() }
