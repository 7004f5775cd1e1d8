package lockservice

import (
	"fmt"
	"time"

	"github.com/redislockservice/redislockservice/deadlock"
)

// DeadlockError is the error of the call that gives up so that the others of a
// deadlock can go on: exactly one call of each cycle. It matches [ErrDeadlock].
// As it propagates, the locks of the calls around are released, as with any error.
type DeadlockError struct {
	// Cycle is who waits for whom: each for the next, the last for the first.
	Cycle []DeadlockParty
	// Victim is the index in Cycle of the call that got this error.
	Victim int

	story string
}

// DeadlockParty is one waiting call of a deadlock.
type DeadlockParty struct {
	Owner        string
	Node         string
	WaitingSince time.Time // by Redis' clock
	Holds        []Lock    // of its whole chain
	Wants        []Lock
	Site         string // where in the code it waits, if known
}

func newDeadlockError(d deadlock.Deadlock) *DeadlockError {
	e := &DeadlockError{Victim: d.Victim, story: d.Story()}
	for i := range d.Cycle {
		w := &d.Cycle[i]
		p := DeadlockParty{Owner: w.Owner, Node: w.Node, WaitingSince: time.UnixMicro(w.SinceMicros), Site: w.Site}
		for _, h := range w.Holds {
			p.Holds = append(p.Holds, lockOf(h.Name, h.Write))
		}
		for _, want := range w.Wants {
			p.Wants = append(p.Wants, lockOf(want.Name, want.Write))
		}
		e.Cycle = append(e.Cycle, p)
	}
	return e
}

func lockOf(name string, write bool) Lock {
	if write {
		return WriteLock(name)
	}
	return ReadLock(name)
}

// Error tells the cycle, a party a line.
func (e *DeadlockError) Error() string { return fmt.Sprintf("%v: %s", ErrDeadlock, e.story) }

// Is makes the error match ErrDeadlock.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }
