package lane

import (
	"context"
	"errors"
	"time"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// do queues the operation and waits for its answer, carrying if nobody does.
func (l *Lane) do(ctx context.Context, o *op) outcome {
	if err := ctx.Err(); err != nil && o.kind != release {
		return outcome{err: err}
	}
	if o.kind != release {
		o.ctx = ctx // a release is carried through whatever becomes of its caller
	}
	l.mu.Lock()
	if l.closed && o.kind == acquire || l.retired {
		l.mu.Unlock()
		return outcome{err: ErrClosed}
	}
	carry := false
	if o.patient {
		l.gatherLocked(o)
	} else {
		l.pending = append(l.pending, o)
		carry = l.claimLocked()
	}
	l.mu.Unlock()
	if carry {
		l.carry(o)
	}
	return l.await(ctx, o)
}

// claimLocked takes the baton for the calling goroutine, if it may carry.
func (l *Lane) claimLocked() bool {
	switch {
	case l.running:
		return false
	case l.slow || l.closed:
		l.kickBackground()
		return false
	}
	l.running = true
	return true
}

// await returns the operation's answer, or leaves it behind.
func (l *Lane) await(ctx context.Context, o *op) outcome {
	if out, ok := l.answered(o); ok {
		return out
	}
	timer := time.NewTimer(l.nextStop(o))
	defer timer.Stop()
	var refused <-chan struct{}
	if o.kind == acquire {
		refused = l.refused
	}
	for {
		l.tellParked(o)
		select {
		case <-o.signal:
			if l.cfg.Now() >= o.patience {
				l.outOfPatience(o) // an attempt that was under way has parked it after all
			}
		case <-ctx.Done():
			return l.leave(o, ctx.Err())
		case <-refused:
			return l.leave(o, ErrClosed)
		case <-timer.C:
			if !l.outOfPatience(o) && l.cfg.Now() >= o.expiry {
				return l.leave(o, nil)
			}
			timer.Reset(max(o.expiry-l.cfg.Now(), 0)) // it is just being tried; its attempt answers it
		}
		if out, ok := l.answered(o); ok {
			return out
		}
		if l.takeTurn(o) {
			l.carry(o)
			if out, ok := l.answered(o); ok {
				return out
			}
		}
	}
}

// nextStop is how long to wait before the caller looks at the clock: until the
// end of its patience if that comes before the expiry.
func (l *Lane) nextStop(o *op) time.Duration {
	now := l.cfg.Now()
	stop := o.expiry
	if o.kind == acquire && o.patience > now {
		stop = min(stop, o.patience)
	}
	return max(stop-now, 0)
}

// tellParked tells the caller, on its own goroutine, the first time that its
// operation is found parked.
func (l *Lane) tellParked(o *op) {
	if o.onPark == nil {
		return
	}
	l.mu.Lock()
	is, blockers := o.phase == parked, o.out.blockers
	l.mu.Unlock()
	if is {
		tell := o.onPark
		o.onPark = nil
		tell(blockers)
	}
}

func (l *Lane) answered(o *op) (outcome, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.phase == finished {
		l.passTurnLocked(o)
	}
	return o.out, o.phase == finished
}

// takeTurn says whether the caller has been handed the baton.
func (l *Lane) takeTurn(o *op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	turn := o.turn
	o.turn = false
	return turn
}

// outOfPatience ends a parked acquire whose time is over.
func (l *Lane) outOfPatience(o *op) (ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.phase != parked {
		return o.phase == finished
	}
	out := outcome{blockers: o.out.blockers}
	if l.outage != nil || l.silent() {
		// Who is in the way was read before Redis went away; "somebody has it"
		// would be a guess.
		out = outcome{err: l.unavailableLocked()}
	}
	o.finishLocked(out)
	l.leftLocked(o)
	return true
}

// silent says that an exchange has been under way for so long that Redis has to
// be taken for out of reach, although it may answer yet.
func (l *Lane) silent() bool {
	since := time.Duration(l.unanswered.Load())
	return since != 0 && l.cfg.Now()-since >= maxAge
}

// leave gives up on the answer. err is the caller's own reason; nil: Redis
// could not be reached in time.
func (l *Lane) leave(o *op, err error) outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.phase == finished && (err == nil || !o.out.granted) {
		l.passTurnLocked(o)
		return o.out
	}
	if err == nil {
		err = l.unavailableLocked()
	}
	if o.phase == finished {
		// Granted in the same moment as the caller was cancelled. Pretend it
		// wasn't: the caller will not run, so nobody would release it.
		l.undoLocked(o)
	}
	o.gone = true
	switch {
	case o.phase == parked:
		o.finishLocked(outcome{err: err})
		l.leftLocked(o)
	case o.phase == queued && o.kind == acquire:
		o.finishLocked(outcome{err: err})
		if o.unsure {
			l.undoLocked(o)
		}
	}
	l.passTurnLocked(o)
	return outcome{err: err}
}

// leftLocked has the index forget a parked operation and its mark looked at.
func (l *Lane) leftLocked(o *op) {
	l.leaving = append(l.leaving, o)
	l.kickBackground()
}

// passTurnLocked hands on a baton that a leaving caller was just given.
func (l *Lane) passTurnLocked(o *op) {
	if o.turn {
		o.turn = false
		l.handOnLocked()
	}
}

// handOnLocked gives the baton to the first caller that waits for an answer,
// else to the background goroutine.
func (l *Lane) handOnLocked() {
	if !l.slow && !l.closed {
		for _, o := range l.pending {
			if !o.gone && o.phase == queued {
				o.turn = true
				o.signalLocked()
				return
			}
		}
	}
	l.dropLocked()
	if l.workLocked() {
		l.kickBackground()
	}
}

func (l *Lane) unavailableLocked() error {
	err := l.outage
	if err == nil {
		err = errors.New("no answer in time")
	}
	return &Unavailable{Err: err}
}

// undoLocked releases, in the background, what a caller who has left was granted.
func (l *Lane) undoLocked(o *op) {
	u := l.undoOp(o)
	l.pending = append(l.pending, u)
	if !l.running {
		l.kickBackground()
	}
}

// undoOp is the release that takes the place of an acquire nobody waits for.
func (l *Lane) undoOp(o *op) *op {
	u := l.newOp(release, o.names)
	u.rel.ID = o.req.ID
	u.rel.Outcome = lockrules.Undone
	u.gone, u.force = true, true
	u.expiry = u.queuedAt + time.Duration(o.req.LeaseMillis)*time.Millisecond
	return u
}
