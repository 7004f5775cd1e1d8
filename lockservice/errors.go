package lockservice

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

var (
	// ErrNotAcquired is matched by the error of Acquire when the locks were not
	// to be had in time, and by every error of a call that ended without them
	// because its context did. The details are in [NotAcquiredError].
	ErrNotAcquired = errors.New("lockservice: lock not acquired")

	// ErrLockLost is the cause with which the context of protected code is
	// cancelled when one of its locks is lost, and is matched by the error of a
	// call whose lock was lost before it was released.
	ErrLockLost = errors.New("lockservice: lock lost")

	// ErrDeadlock is matched by the error of the call that gives up so that the
	// others of a deadlock can go on. The details are in [DeadlockError].
	ErrDeadlock = errors.New("lockservice: deadlock")

	// ErrClosed is returned by every call on a closed service, and to whoever
	// waits while it is closed.
	ErrClosed = errors.New("lockservice: service is closed")

	// ErrUnavailable is matched when Redis was out of reach, or refused, for
	// longer than the call was allowed to wait. It wraps the cause. Whether a
	// lock was free is not known then.
	ErrUnavailable = errors.New("lockservice: redis is unavailable")

	// ErrCorruptRecord is matched when a key of the service holds something that
	// is not a record of a version known here. It is never overwritten. The key
	// is in [CorruptRecordError].
	ErrCorruptRecord = errors.New("lockservice: corrupt record")

	// ErrInvalidArgument is matched when an argument or option makes no sense.
	// Redis has not been touched then.
	ErrInvalidArgument = errors.New("lockservice: invalid argument")

	// ErrUnsuitableServer is matched when New finds a server on which locks
	// would not be safe. The text names everything that is wrong.
	ErrUnsuitableServer = errors.New("lockservice: unsuitable server")
)

// NotAcquiredError says who was in the way. It matches [ErrNotAcquired], and
// the error of the caller's context if that ended the wait.
type NotAcquiredError struct {
	Blockers []Blocker // as last seen; empty if there was no answer yet
	Cause    error     // the context's error and cause, or nil
}

// Blocker is one holder or waiter that was in the way.
type Blocker struct {
	LockName string
	Owner    string // empty if only the node is known
	Node     string
	Write    bool // holds, or waits, to write
	Waiting  bool // doesn't hold it, but waits to write; new readers let it pass
	HoldOff  bool // nobody: the server has restarted or lost data a short while ago
	Since    time.Time
	Until    time.Time // by Redis' clock, unless it is renewed
}

func (b Blocker) String() string {
	const layout = "15:04:05.000"
	until := b.Until.UTC().Format(layout)
	switch {
	case b.HoldOff:
		return fmt.Sprintf("%q: no lock is granted until %s, since the server has restarted or lost data", b.LockName, until)
	case b.Waiting:
		return fmt.Sprintf("%q: %s waits to write since %s", b.LockName, b.who(), b.Since.UTC().Format(layout))
	}
	mode := "read"
	if b.Write {
		mode = "write"
	}
	return fmt.Sprintf("%q: held for %s by %s since %s until %s", b.LockName, mode, b.who(), b.Since.UTC().Format(layout), until)
}

func (b Blocker) who() string {
	if b.Owner == "" {
		return fmt.Sprintf("node %q", b.Node)
	}
	return fmt.Sprintf("%q", b.Owner)
}

// maxNamed is how many blockers an error text names.
const maxNamed = 5

func (e *NotAcquiredError) Error() string {
	var b strings.Builder
	b.WriteString(ErrNotAcquired.Error())
	for i, who := range e.Blockers {
		if i == maxNamed {
			fmt.Fprintf(&b, "; and %d more", len(e.Blockers)-i)
			break
		}
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		b.WriteString(who.String())
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

// Unwrap makes the error match ErrNotAcquired and its cause.
func (e *NotAcquiredError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrNotAcquired}
	}
	return []error{ErrNotAcquired, e.Cause}
}

// CorruptRecordError names a key that holds something that is not a record.
// It matches [ErrCorruptRecord].
type CorruptRecordError struct {
	Key string
	Err error // what is wrong with it
}

func (e *CorruptRecordError) Error() string {
	return fmt.Sprintf("%v at key %q: %v (it was left as it is; delete it if nobody needs it)", ErrCorruptRecord, e.Key, e.Err)
}

// Unwrap makes the error match ErrCorruptRecord and its cause.
func (e *CorruptRecordError) Unwrap() []error { return []error{ErrCorruptRecord, e.Err} }

// invalid makes an ErrInvalidArgument.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalidArgument, fmt.Errorf(format, args...))
}

// lostError says how a lock was lost. It matches ErrLockLost, and ErrClosed if
// it was cut off by Close.
type lostError struct {
	reason string
	cause  error // may be nil
}

func (e *lostError) Error() string { return ErrLockLost.Error() + ": " + e.reason }

func (e *lostError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrLockLost}
	}
	return []error{ErrLockLost, e.cause}
}

// hidden is a cause that is shown but not matched: a time-out inside the
// client must not be taken for the end of the caller's own context.
type hidden struct{ err error }

func (h hidden) Error() string { return h.err.Error() }

func (h hidden) As(target any) bool {
	if isContextError(h.err) {
		return false
	}
	return errors.As(h.err, target)
}

func (h hidden) Is(target error) bool {
	return !isContextTarget(target) && errors.Is(h.err, target)
}

// fromLane turns the lane's errors into those of the API.
func fromLane(err error) error {
	var corrupt *lane.Corrupt
	var unavailable *lane.Unavailable
	switch {
	case err == nil:
		return nil
	case errors.Is(err, lane.ErrClosed):
		return ErrClosed
	case errors.As(err, &corrupt):
		return &CorruptRecordError{Key: corrupt.Key, Err: corrupt.Err}
	case errors.As(err, &unavailable):
		return fmt.Errorf("%w: %w", ErrUnavailable, hidden{unavailable.Err})
	}
	return err
}

func blockersOf(in []lockrules.Blocker) []Blocker {
	out := make([]Blocker, len(in))
	for i, b := range in {
		out[i] = Blocker{LockName: b.Name, Owner: b.Owner, Node: b.Node, Write: b.Mode == lockrules.Write,
			Waiting: b.Reason == lockrules.WriterWaits, HoldOff: b.Reason == lockrules.NotYetUp,
			Since: time.UnixMilli(int64(b.Since)), Until: time.UnixMilli(int64(b.Until))}
	}
	return out
}
