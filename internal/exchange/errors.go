package exchange

import (
	"errors"
	"fmt"
)

// ErrNoWatch is returned for a commit on a connection that watches nothing,
// as after a reconnect: nothing was sent. An unguarded EXEC must not happen.
var ErrNoWatch = errors.New("nothing is watched on this connection")

// ErrClosed is returned by a port that has been closed.
var ErrClosed = errors.New("the port is closed")

// ConnError is a failure to reach the server or to hear from it.
type ConnError struct {
	// Sent is false only if certainly nothing was written. If it is true,
	// the commit may have been applied, or may be applied yet.
	Sent bool
	Err  error
}

func (e *ConnError) Error() string { return e.Err.Error() }

// NothingApplied says that the commit certainly had no effect and never will.
func (e *ConnError) NothingApplied() bool { return !e.Sent }

// Unwrap gives the cause.
func (e *ConnError) Unwrap() error { return e.Err }

// Kind is the class of a server's refusal.
type Kind uint8

// The classes of refusals that matter to callers.
const (
	Other       Kind = iota
	OOM              // maxmemory is reached
	ReadOnly         // a replica
	Loading          // reading its data
	Misconf          // can't persist, so it refuses writes
	Busy             // a script runs
	NoReplicas       // min-replicas-to-write
	NoAuth           // not authenticated, or wrongly
	NoPerm           // a right is missing
	MaxClients       // too many connections
	Unsupported      // unknown command, cluster redirection: will not get better
)

func (k Kind) String() string {
	return [...]string{"refused", "out of memory", "read-only replica", "loading", "can't persist", "busy",
		"too few replicas", "not authenticated", "not permitted", "too many clients", "unsupported"}[k]
}

// Applied is how much of the commit took effect when the server refused.
type Applied uint8

// What may have happened to a refused commit.
const (
	Nothing Applied = iota
	Maybe
	Partly // a right was taken away between queueing and EXEC
)

// ServerError is a refusal by the server.
type ServerError struct {
	Command string // the command that was refused
	Kind    Kind
	Applied Applied
	Err     error // the server's words
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("%s refused (%s): %v", e.Command, e.Kind, e.Err)
}

// Unwrap gives the server's words.
func (e *ServerError) Unwrap() error { return e.Err }

// NothingApplied says that the commit had no effect.
func (e *ServerError) NothingApplied() bool { return e.Applied == Nothing }

// Permanent says that trying again will not help until somebody changes the
// server's settings.
func (e *ServerError) Permanent() bool {
	return e.Kind == NoAuth || e.Kind == NoPerm || e.Kind == Unsupported
}
