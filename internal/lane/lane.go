package lane

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/keyspace"
	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/jsonhandler"
)

// Port is the way to Redis. One goroutine at a time uses it.
type Port interface {
	// Exchange sends, in one round trip: MULTI … EXEC of commit, if there is
	// any, then WATCH of keys, GET of each, TIME and INFO server, if there are
	// any. committed is false, without an error, if a watched key had changed;
	// the snapshot is good all the same.
	Exchange(ctx context.Context, commit *exchange.Writes, keys []string) (committed bool, snap exchange.Snapshot, err error)
	// Close gives the connection back. It may be called again, and while an
	// exchange is under way, which ends with an error then.
	Close()
}

// Config is what a lane needs. All fields but Jitter and Events are required.
type Config struct {
	Port Port
	Keys keyspace.Space
	JSON jsonhandler.Handler
	Node string

	Lease       time.Duration // of this service: for the hold-off
	PollDelay   time.Duration // how often parked operations are tried without a reason
	ReleasedTTL time.Duration // how long a record is kept that nobody holds
	OpTimeout   time.Duration // how long one operation may wait for Redis
	Gather      time.Duration // how long a renewal may wait for others; 0: not at all

	// Now is local time; it also passes while the machine sleeps.
	Now func() time.Duration
	// Jitter is a random span below max, which is positive. Nil: a real one.
	Jitter func(limit time.Duration) time.Duration
	// Events are told from the carrying goroutine and must not block. May be nil.
	Events Events
}

// Events is what a lane tells of itself.
type Events interface {
	// HoldOff says that nothing is granted for the time left.
	HoldOff(reason lockrules.HoldOff, left time.Duration)
	// Waits says that an acquire is parked, or is still.
	Waits(w Waiting)
	// Gone says that a parked acquire has ended, whatever way.
	Gone(id string)
}

// Waiting is an acquire that is parked.
type Waiting struct {
	ID       string
	Since    lockrules.Instant // since when; the same for the whole wait
	Wants    []lockrules.Want
	Blockers []lockrules.Blocker // as last seen
	Tag      any                 // of AcquireOptions
	Parked   Parked
}

// Parked is a handle on a parked acquire.
type Parked struct {
	l *Lane
	o *op
}

// Abort ends the wait with err, and says whether it did: an acquire that has
// been answered meanwhile is left alone.
func (p Parked) Abort(err error) bool {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	if p.o.phase != parked {
		return false
	}
	p.o.finishLocked(outcome{err: err})
	p.l.leftLocked(p.o)
	return true
}

// ErrClosed is the answer to whatever is asked of a closed lane.
var ErrClosed = errors.New("closed")

// Unavailable is the answer when Redis could not be reached, or refused, for
// as long as the operation was allowed to wait.
type Unavailable struct {
	Err       error
	Permanent bool // will not get better by itself
}

func (e *Unavailable) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Unavailable) Unwrap() error { return e.Err }

// Corrupt is the answer when a key holds something that is not a record.
type Corrupt struct {
	Key string
	Err error
}

func (e *Corrupt) Error() string { return "key " + quote(e.Key) + ": " + e.Err.Error() }

// Unwrap gives what is wrong with it.
func (e *Corrupt) Unwrap() error { return e.Err }

// Lane is one queue. Use [New].
type Lane struct {
	cfg       Config
	serverKey string

	mu         sync.Mutex // guards the fields below, and phase, turn, gone and out of every op
	pending    []*op
	gathered   []*op               // renewals that wait for others
	gatherTill time.Duration       // when they are queued; 0: there are none
	touched    map[string]struct{} // names to hand over and whose marks to look at
	woken      map[string]struct{} // names that another node says may be free
	wakeAll    bool                // messages may have been missed
	leaving    []*op               // parked operations whose callers have left
	again      []*op               // parked operations to be tried in the next batch
	running    bool                // somebody has the baton
	retired    bool                // Close has it, for good
	closed     bool
	slow       bool          // only the background goroutine carries
	outage     error         // of the last exchange, if it failed
	nextDue    time.Duration // when the background goroutine looks again; 0 is never

	// The fields below belong to whoever has the baton.

	snap    *snapshot
	decoded map[string]*entry // of names that were read or written a short while ago
	parked  index
	turns   turns
	doubt   map[string]struct{} // names whose records a commit of unknown outcome wrote
	fails   int                 // exchanges that failed in a row
	quick   int                 // exchanges that were quick in a row
	slowed  bool                // the carrier's copy of slow or outage being set
	pollAt  time.Duration       // when all parked operations are tried
	heldTo  lockrules.Millis    // the end of the hold-off that was told last
	known   bool                // a memory of the server has been seen
	lease   lockrules.Millis    // the largest lease of all services, as far as has been seen
	counts  counters

	unanswered atomic.Int64 // since when the exchange that is under way has been; 0: none is

	kick    chan struct{} // cap 1: work for the background goroutine
	freed   chan struct{} // cap 1: the baton is down
	refused chan struct{} // closed by Refuse, with mu held
	quit    chan struct{} // closed by Close
	idle    chan struct{} // closed when the background goroutine has ended
}

// Stats counts what the lane did. For tests and benchmarks.
type Stats struct {
	Exchanges int64
	Commits   int64
	Conflicts int64
	Failures  int64
}

// New starts a lane. The caller closes it.
func New(cfg Config) *Lane {
	if cfg.Jitter == nil {
		cfg.Jitter = rand.N[time.Duration]
	}
	cfg.JSON = guarded{cfg.JSON}
	l := &Lane{
		cfg:       cfg,
		serverKey: cfg.Keys.Server(),
		touched:   make(map[string]struct{}),
		woken:     make(map[string]struct{}),
		parked:    newIndex(),
		turns:     make(turns),
		decoded:   make(map[string]*entry),
		doubt:     make(map[string]struct{}),
		lease:     millis(cfg.Lease),
		kick:      make(chan struct{}, 1),
		freed:     make(chan struct{}, 1),
		refused:   make(chan struct{}),
		quit:      make(chan struct{}),
		idle:      make(chan struct{}),
	}
	go l.background()
	return l
}

// maxWoken bounds the names kept of wake-ups that came faster than they could
// be looked at: beyond it everything parked is tried.
const maxWoken = 10_000

// Wake says that the locks named may be free. It is a hint: names that nobody
// here waits for are passed over.
func (l *Lane) Wake(names []string) {
	l.mu.Lock()
	for _, name := range names {
		l.woken[name] = struct{}{}
	}
	if len(l.woken) > maxWoken {
		clear(l.woken)
		l.wakeAll = true
	}
	l.mu.Unlock()
	l.kickBackground()
}

// WakeAll says that messages may have been missed: whatever is parked is tried.
func (l *Lane) WakeAll() {
	l.mu.Lock()
	l.wakeAll = true
	l.mu.Unlock()
	l.kickBackground()
}

func (l *Lane) kickBackground() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// Statistics is what the lane has counted so far.
func (l *Lane) Statistics() Stats {
	return Stats{
		Exchanges: l.counts.exchanges.Load(),
		Commits:   l.counts.commits.Load(),
		Conflicts: l.counts.conflicts.Load(),
		Failures:  l.counts.failures.Load(),
	}
}

// counters may be read while somebody carries.
type counters struct {
	exchanges, commits, conflicts, failures atomic.Int64
}
