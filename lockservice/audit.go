package lockservice

import (
	"fmt"
	"strings"
	"time"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// HoldingState is how a holding stands, or how it ended.
type HoldingState string

// The states of a holding. A release that came from a newer version of this
// package may have others.
const (
	// HoldingRunning: it is held, and its code has not returned.
	HoldingRunning HoldingState = "running"
	// HoldingOK: the code returned without an error.
	HoldingOK = HoldingState(lockrules.OK)
	// HoldingError: the code returned an error.
	HoldingError = HoldingState(lockrules.Error)
	// HoldingPanic: the code panicked, or called runtime.Goexit.
	HoldingPanic = HoldingState(lockrules.Panic)
	// HoldingLost: the holder had lost the lock before its code returned, and
	// could still say so.
	HoldingLost = HoldingState(lockrules.LostIt)
	// HoldingCrashed: the lease ran out without a release. The process crashed,
	// was cut off from Redis, or its code still ran after the lease's end.
	HoldingCrashed HoldingState = "crashed"
)

// State is how the holding stands at a time of Redis' clock, such as
// [LockInfo.ReadAt]. A lock that is kept after its code has returned (atLeast of
// [RedisLockService.Execute]) has the state of how the code ended; see HeldAt.
func (h LockHolding) State(redisTime time.Time) HoldingState {
	switch {
	case h.ReleasedAtEpochMillis != nil:
		return HoldingState(h.Outcome)
	case h.HeldAt(redisTime):
		return HoldingRunning
	}
	return HoldingCrashed
}

// Duration is for how long the code has run by a time of Redis' clock: until it
// returned, or until now. If it crashed, it ran until some moment before its
// lease ended: then it is the time up to that end.
func (h LockHolding) Duration(redisTime time.Time) time.Duration {
	end := redisTime
	switch h.State(redisTime) {
	case HoldingRunning:
	case HoldingCrashed:
		if h.ExpiresAtEpochMillis != nil {
			end = h.ExpiresAt()
		}
	default:
		end = h.ReleasedAt()
	}
	return max(end.Sub(h.AcquiredAt()), 0)
}

// KeptUntil is when the lock is free, for whoever looks at a time of Redis'
// clock; zero if this holding keeps nobody out.
func (h LockHolding) KeptUntil(redisTime time.Time) time.Time {
	if !h.HeldAt(redisTime) {
		return time.Time{}
	}
	return h.ExpiresAt()
}

// Report says in a line how the holding stands at a time of Redis' clock: for logs
// and tools. Programs should read the fields.
func (h LockHolding) Report(redisTime time.Time) string {
	var b strings.Builder
	state := h.State(redisTime)
	fmt.Fprintf(&b, "%s by %q", state, h.Owner)
	if h.Error != "" {
		fmt.Fprintf(&b, " (%q)", h.Error)
	}
	fmt.Fprintf(&b, ", from %s for %v, token %d", h.AcquiredAt().UTC().Format(time.DateTime),
		h.Duration(redisTime), h.FencingToken)
	if until := h.KeptUntil(redisTime); !until.IsZero() {
		fmt.Fprintf(&b, ", kept until %s", until.UTC().Format(time.DateTime))
	}
	return b.String()
}
