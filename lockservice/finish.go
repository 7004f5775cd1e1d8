package lockservice

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// finish ends the acquisition, whatever became of it. Calls at the same time
// return when the first has ended.
func (a *Acquisition) finish(ctx context.Context, outcome lockrules.Outcome, errText string) {
	a.once.Do(func() { a.result = a.letGo(ctx, outcome, errText) })
}

// letGo stops the keeper, waits for it, and then releases: a renewal that is
// under way must not come after the release. The context of the work ends first,
// so that what still runs on it is told before others get in.
func (a *Acquisition) letGo(ctx context.Context, outcome lockrules.Outcome, errText string) error {
	state := a.leaveHeld()
	if state != stateHeld {
		a.cancel(a.endCause(state)) // whoever has ended it may not have come to that yet
	}
	a.cancel(context.Canceled)
	a.stopKeeper()
	defer a.svc.dismiss(a)
	switch {
	case state == stateClosed:
		return a.lossError() // left to lapse: its code may have been running on
	case len(a.wants) == 0:
		return nil
	case state == stateLost:
		outcome, errText = lockrules.LostIt, ""
	}
	met := a.release(ctx, lockrules.Release{ID: a.id, Outcome: outcome, Error: errText,
		HoldFor: lockrules.Millis(a.job.holdFor.Milliseconds())})
	if state == stateHeld && met != lockrules.Done {
		a.lostByRelease()
	}
	if a.state.Load() == stateLost {
		return a.lossError()
	}
	return nil
}

// leaveHeld makes the acquisition released if it is held, and returns what it was.
func (a *Acquisition) leaveHeld() int32 {
	if len(a.wants) > 0 {
		a.holds(a.svc.clock.now()) // a loss that nobody has noticed yet
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	state := a.state.Load()
	if state == stateHeld {
		a.state.Store(stateReleased)
	}
	return state
}

// endCause is with what a context ends whose locks are not held any more.
func (a *Acquisition) endCause(state int32) error {
	if state == stateClosed {
		return ErrClosed
	}
	return a.lossError()
}

// release asks Redis. If it can't be reached the lane goes on in the background,
// and the result of the code stays what it is.
func (a *Acquisition) release(ctx context.Context, rel lockrules.Release) lockrules.Released {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.svc.cfg.opTimeout)
	defer cancel()
	left := a.leaseEnd() - a.svc.clock.now()
	met, err := a.svc.lane.Release(ctx, a.names, rel, max(left, 0))
	var overwritten *lane.Corrupt
	switch {
	case errors.As(err, &overwritten):
		return lockrules.Missing
	case err != nil && left > 0:
		a.svc.log.Warn("a release goes on in the background", zap.Strings("locks", a.names),
			zap.String("acquisition", a.id), zap.Duration("forAtMost", left), zap.Error(err))
		return lockrules.Done
	case err != nil: // the lease has run out: there is nothing left to release
		return lockrules.Done
	}
	return met
}

// lostByRelease notes a loss that only the release has met.
func (a *Acquisition) lostByRelease() {
	a.mu.Lock()
	a.state.Store(stateLost)
	a.why = &lostError{reason: "the release found its record gone, lapsed or another's"}
	a.mu.Unlock()
	close(a.lost)
	a.svc.log.Warn("a lock was lost while it was held", zap.Strings("locks", a.names),
		zap.String("reason", "the release found its record gone, lapsed or another's"), zap.String("acquisition", a.id))
}
