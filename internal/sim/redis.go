package sim

import (
	"fmt"
	"sync"
	"time"
)

// aged is how long the server of NewRedis has been up.
const aged = 24 * time.Hour

// Redis is one server. Use [NewRedis].
type Redis struct {
	mu       sync.Mutex // guards the fields below, and those of other types that say so
	gate     Gate
	keys     map[string]entry
	versions map[string]uint64 // counts the touches of each key; outlives the key
	offset   time.Duration     // the server's clock against local time
	run      int               // counts starts
	runID    string            // of this run
	losses   int               // see Losses
	started  int64             // server's clock at the start, microseconds
	down     bool
	sessions map[*session]struct{}
	refusals map[string]refusal // by command
	nodes    []*node
	channels map[string][]*subscription
	facts    map[Fact]int
	log      []Applied
	logging  bool
	busy     int           // goroutines of the model that run
	idle     chan struct{} // non-nil if Settle waits; closed when busy becomes 0
}

// entry is what a key holds.
type entry struct {
	value     []byte
	wrongType bool  // not a string
	expires   int64 // milliseconds of the server's clock; 0: never
}

// NewRedis is a server that is empty and has been up for a day.
func NewRedis() *Redis {
	r := &Redis{
		gate:     Latency(0),
		keys:     make(map[string]entry),
		versions: make(map[string]uint64),
		sessions: make(map[*session]struct{}),
		refusals: make(map[string]refusal),
		channels: make(map[string][]*subscription),
		facts:    make(map[Fact]int),
		run:      1,
		runID:    runID(1),
	}
	r.started = r.microsLocked() - aged.Microseconds()
	return r
}

// SetGate has all further steps pass through g.
func (r *Redis) SetGate(g Gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = g
}

// pass asks the gate. It may block.
func (r *Redis) pass(s Step) Fault {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	return gate.Pass(s)
}

// SetUptime sets for how long the server has been up.
func (r *Redis) SetUptime(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = r.microsLocked() - d.Microseconds()
}

// microsLocked is TIME.
func (r *Redis) microsLocked() int64 { return time.Now().Add(r.offset).UnixMicro() }

// uptimeLocked is uptime_in_seconds: a difference of whole seconds of a clock
// that may have been set, so it may be negative.
func (r *Redis) uptimeLocked() int64 {
	return floorSeconds(r.microsLocked()) - floorSeconds(r.started)
}

func floorSeconds(micros int64) int64 { return time.UnixMicro(micros).Unix() }

func runID(run int) string { return fmt.Sprintf("%040x", run) }

// touchLocked makes every WATCH of the key fail.
func (r *Redis) touchLocked(key string) { r.versions[key]++ }

// lookLocked is a key as a command finds it: what has expired is gone, and its
// going is a touch. Redis keeps a key for the whole of its last millisecond.
func (r *Redis) lookLocked(key string) (entry, bool) {
	e, ok := r.keys[key]
	if ok && e.expires != 0 && r.microsLocked()/1000 > e.expires {
		delete(r.keys, key)
		r.touchLocked(key)
		r.facts[KeyExpired]++
		return entry{}, false
	}
	return e, ok
}

func (r *Redis) setLocked(key string, value []byte, ttl time.Duration) {
	e := entry{value: append([]byte{}, value...)}
	if ttl > 0 {
		e.expires = r.microsLocked()/1000 + millisUp(ttl)
	}
	r.keys[key] = e
	r.touchLocked(key)
}

// millisUp rounds up: PX 0 would be an error.
func millisUp(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// deleteLocked says whether there was anything to delete: else it is no touch.
func (r *Redis) deleteLocked(key string) bool {
	_, ok := r.lookLocked(key)
	if ok {
		delete(r.keys, key)
		r.touchLocked(key)
	}
	return ok
}

// begin counts a goroutine of the model in; end counts it out.
func (r *Redis) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy++
}

func (r *Redis) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy--; r.busy == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// Settle waits until nothing is under way any more: no request, reply or message.
func (r *Redis) Settle() {
	r.mu.Lock()
	if r.busy == 0 {
		r.mu.Unlock()
		return
	}
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	r.mu.Unlock()
	<-idle
}
