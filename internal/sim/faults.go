package sim

import (
	"maps"
	"slices"
	"time"
)

// Dump is the data of a server at one moment.
type Dump struct{ keys map[string]entry }

// What a server may have when it starts, besides an older [Dump].
var (
	Nothing    = &Dump{}
	Everything = &Dump{} // what it had when it crashed
)

// Snapshot is what is saved now.
func (r *Redis) Snapshot() *Dump {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &Dump{keys: maps.Clone(r.keys)}
}

// Crash ends the server: its connections die, new ones are refused.
func (r *Redis) Crash() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crashLocked()
}

func (r *Redis) crashLocked() {
	r.facts[Crashed]++
	r.down = true
	r.cutAllLocked()
}

// Start starts a server that has crashed: another run, up since now.
func (r *Redis) Start(keep *Dump) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startLocked(keep)
}

func (r *Redis) startLocked(keep *Dump) {
	switch keep {
	case Nothing:
		r.facts[StartedEmpty]++
	case Everything:
		r.facts[StartedFull]++
	default:
		r.facts[StartedOld]++
	}
	r.loadLocked(keep)
	r.anotherRunLocked()
	r.started = r.microsLocked()
	r.down = false
	r.resubscribeLocked()
}

// anotherRunLocked: who was granted something by the run before has lost it.
func (r *Redis) anotherRunLocked() {
	r.run++
	r.runID = runID(r.run)
	r.losses++
}

// Losses counts after what nothing may be granted for a lease: another run of
// the server, or all data gone.
func (r *Redis) Losses() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.losses
}

// loadLocked replaces the data. No WATCH can be left by then.
func (r *Redis) loadLocked(keep *Dump) {
	if keep != Everything {
		r.keys = make(map[string]entry)
		maps.Copy(r.keys, keep.keys)
	}
}

// Restart is Crash and Start without anything in between.
func (r *Redis) Restart(keep *Dump) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crashLocked()
	r.startLocked(keep)
}

// Failover has another server take the place of this one: another run_id, up
// for as long as this one, with what had been replicated. Connections die.
func (r *Redis) Failover(keep *Dump) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts[FailedOver]++
	r.cutAllLocked()
	r.loadLocked(keep)
	r.anotherRunLocked()
	r.down = false
	r.resubscribeLocked()
}

// FlushAll empties the server. The WATCH of a missing key doesn't notice.
func (r *Redis) FlushAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts[Flushed]++
	r.losses++
	for key := range r.keys {
		r.touchLocked(key)
	}
	clear(r.keys)
}

// Evict removes a key for want of memory.
func (r *Redis) Evict(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleteLocked(key) {
		r.facts[KeyEvicted]++
	}
}

// StepClock sets the server's clock forward, or back.
func (r *Redis) StepClock(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offset += d
	if d < 0 {
		r.facts[ClockBack]++
	} else {
		r.facts[ClockForward]++
	}
}

// CutAll kills all connections, also those of subscriptions.
func (r *Redis) CutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cutAllLocked()
	r.resubscribeLocked()
}

func (r *Redis) cutAllLocked() {
	for s := range r.sessions {
		r.cutLocked(s)
	}
	for _, n := range r.nodes {
		r.cutSubscriptionLocked(n)
	}
}

// Put is somebody else's SET.
func (r *Redis) Put(key string, value []byte, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setLocked(key, value, ttl)
}

// PutOther has the key hold something that is not a string.
func (r *Redis) PutOther(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key] = entry{wrongType: true}
	r.touchLocked(key)
}

// Touch is somebody else's PEXPIRE.
func (r *Redis) Touch(key string, ttl time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.lookLocked(key); ok {
		e.expires = r.microsLocked()/1000 + millisUp(ttl)
		r.keys[key] = e
		r.touchLocked(key)
	}
}

// Delete is somebody else's DEL.
func (r *Redis) Delete(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deleteLocked(key)
}

// Get is what a key holds.
func (r *Redis) Get(key string) (value []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.lookLocked(key)
	return slices.Clone(e.value), ok
}

// TTL is how long a key has left; 0 if it has no expiry or is missing.
func (r *Redis) TTL(key string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.lookLocked(key)
	if !ok || e.expires == 0 {
		return 0
	}
	return time.Duration(e.expires-r.microsLocked()/1000) * time.Millisecond
}

// Keys are the names of all keys, sorted.
func (r *Redis) Keys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, key := range slices.Sorted(maps.Keys(r.keys)) {
		if _, ok := r.lookLocked(key); ok {
			names = append(names, key)
		}
	}
	return names
}

// Micros is the server's clock.
func (r *Redis) Micros() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.microsLocked()
}

// RunID is that of the present run.
func (r *Redis) RunID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runID
}
