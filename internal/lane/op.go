package lane

import (
	"context"
	"time"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

type kind uint8

const (
	acquire kind = iota
	release
	renew
	read
)

type phase uint8

const (
	queued   phase = iota // in Lane.pending
	running               // in the carrier's batch
	parked                // waiting for somebody to let go
	finished              // answered
)

// op is one operation on its way.
type op struct {
	kind     kind
	names    []string
	req      lockrules.Request // acquire
	rel      lockrules.Release // release
	ren      lockrules.Renewal // renew
	runID    string            // renew: the server that granted
	patient  bool              // renew: it may wait for others to share a transaction
	queuedAt time.Duration
	patience time.Duration   // acquire: nothing is granted after this, but by the first attempt
	expiry   time.Duration   // when it is no longer tried while Redis is out of reach
	signal   chan struct{}   // cap 1: phase or turn has changed
	ctx      context.Context // the caller's
	onPark   func([]lockrules.Blocker)

	// Guarded by Lane.mu.
	phase phase
	turn  bool // its caller has been given the baton
	gone  bool // nobody waits for the answer any more
	out   outcome

	// Owned by the carrier while running, else by Lane.mu's holder.
	unsure  bool // an EXEC with its writes may have been applied, or may be yet
	force   bool // release: write the keys even if unchanged
	waiting bool // in the index of parked operations
	seq     uint64
	since   lockrules.Instant
	tag     any
}

// left says that the caller is done with waiting, and should not carry either.
func (o *op) left() bool { return o != nil && o.ctx != nil && o.ctx.Err() != nil }

// outcome is the answer to an operation; which fields are set depends on its kind.
type outcome struct {
	err      error
	grant    Grant
	granted  bool
	blockers []lockrules.Blocker
	met      lockrules.Released
	renewed  Renewed
	lost     string
	read     Reading
}

// finishLocked answers the operation. The caller holds Lane.mu.
func (o *op) finishLocked(out outcome) {
	if o.phase == finished {
		return
	}
	o.phase, o.out = finished, out
	o.signalLocked()
}

func (o *op) signalLocked() {
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

// Grant is a granted acquire.
type Grant struct {
	Token     int64
	At        lockrules.Millis // Redis time of the grant
	Acquired  lockrules.Millis // since when the record says that it is held: At, or before
	ExpiresAt lockrules.Millis
	// Asked is the local time, at or before the moment that At stands for: the
	// holder's trust starts here.
	Asked time.Duration
	RunID string
}

// Renewed is a renewal that went through.
type Renewed struct {
	Asked    time.Duration // as in Grant
	Renewals int64         // for the next renewal's Seen
}

// Reading is what was read of records.
type Reading struct {
	Records map[string]lockrules.Record // only those that exist
	Errs    []error                     // *Corrupt for each that isn't a record
	At      lockrules.Instant
	RunID   string
	ReadyAt lockrules.Millis // nothing is granted before
	Reason  lockrules.HoldOff
}

// AcquireOptions bound an acquire in time.
type AcquireOptions struct {
	Timeout time.Duration // how long to wait for others to let go; 0: a single attempt
	Tag     any           // given back with Events.Waits
	// OnPark is called once, on the calling goroutine, if it has to wait. May be nil.
	OnPark func(blockers []lockrules.Blocker)
}

// Acquire asks for all locks of the request and waits for them. It returns
// granted; or neither granted nor an error, with those in the way; or an error:
// ctx's own, [ErrClosed], *[Unavailable] or *[Corrupt].
func (l *Lane) Acquire(ctx context.Context, req lockrules.Request, opt AcquireOptions) (g Grant, granted bool, blockers []lockrules.Blocker, err error) {
	o := l.newOp(acquire, wantNames(req.Wants))
	o.req, o.tag, o.onPark = req, opt.Tag, opt.OnPark
	o.patience = o.queuedAt + opt.Timeout
	o.expiry = max(o.patience, o.queuedAt+l.cfg.OpTimeout)
	out := l.do(ctx, o)
	return out.grant, out.granted, out.blockers, out.err
}

func wantNames(wants []lockrules.Want) []string {
	names := make([]string, len(wants))
	for i, w := range wants {
		names[i] = w.Name
	}
	return names
}

// Release ends an acquisition's holdings of the names. If ctx ends first, it
// goes on in the background until so long after now.
func (l *Lane) Release(ctx context.Context, names []string, rel lockrules.Release, goOn time.Duration) (lockrules.Released, error) {
	o := l.newOp(release, names)
	o.rel = rel
	o.expiry = o.queuedAt + goOn
	out := l.do(ctx, o)
	return out.met, out.err
}

// Renew extends an acquisition that was granted by the server runID. lost is
// not empty if it is lost: it says why. The attempt is bounded by ctx. A patient
// one waits a while, as configured, to share its transaction with others.
func (l *Lane) Renew(ctx context.Context, names []string, ren lockrules.Renewal, runID string, patient bool) (r Renewed, lost string, err error) {
	o := l.newOp(renew, names)
	o.ren, o.runID = ren, runID
	o.patient = patient && l.cfg.Gather > 0
	o.expiry = o.queuedAt + l.cfg.Gather + l.cfg.OpTimeout
	out := l.do(ctx, o)
	return out.renewed, out.lost, out.err
}

// Read reads the records of the names as they are now, in one snapshot.
func (l *Lane) Read(ctx context.Context, names []string) (Reading, error) {
	o := l.newOp(read, names)
	o.expiry = o.queuedAt + l.cfg.OpTimeout
	out := l.do(ctx, o)
	return out.read, out.err
}

func (l *Lane) newOp(k kind, names []string) *op {
	return &op{kind: k, names: names, queuedAt: l.cfg.Now(), signal: make(chan struct{}, 1)}
}
