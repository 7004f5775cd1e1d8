package exchange

import "time"

// Writes is what one MULTI … EXEC applies: all of it or nothing.
type Writes struct {
	Sets      []Set
	Deletes   []string
	Publishes []Publish
}

// Empty says that there is nothing to apply.
func (w *Writes) Empty() bool {
	return w == nil || len(w.Sets)+len(w.Deletes)+len(w.Publishes) == 0
}

// Set writes a whole value. TTL is when Redis may collect the key as garbage;
// zero means never. It is set by the same command, so that there is no instant
// at which the key exists without its expiry.
type Set struct {
	Key   string
	Value []byte
	TTL   time.Duration
}

// Publish is a message that goes out if, and only if, the transaction commits.
type Publish struct {
	Channel string
	Message string
}

// Value is what a key held when it was read, after it had been watched.
type Value struct {
	Data   []byte // nil when the key does not exist
	Exists bool
	Err    error // the key's own error, such as WRONGTYPE; the other keys are unaffected
}

// Snapshot is what was read after the WATCH of its keys, in one round trip.
type Snapshot struct {
	Values []Value // in the order of the keys asked for
	Micros int64   // Redis TIME, microseconds since the epoch
	RunID  string  // of INFO server; changes with every start of the server
	Uptime int64   // uptime_in_seconds of INFO server; whole seconds by the server's wall clock, may be negative
}
