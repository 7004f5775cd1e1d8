package lockservice

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/lease"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// HasLock says whether all locks are held still: those of the call, and those of
// the calls around it. It asks nobody, and turns false by itself when the lease
// may have run out. Once false it stays false.
type HasLock = func() bool

// Acquisition is a handle on locks, for code that cannot be a closure.
// [RedisLockService.Acquire] makes it. Its methods are safe for use by many
// goroutines; HasLock, FencingToken and Release also work on a nil Acquisition,
// which holds nothing.
type Acquisition struct {
	svc    *RedisLockService
	parent *Acquisition // the call around this one, of the same service, or nil
	outer  *Acquisition // the call around this one, of any service, or nil
	id     string
	wants  []lockrules.Want // what this call acquired itself; empty if all was reused
	names  []string
	grant  lane.Grant
	lease  time.Duration
	renews bool          // else it is only watched
	endsAt time.Duration // local time of WithMaxHold; 0: none
	opts   *lockConfig
	job    jobTerms
	site   callStack // of the call, for hints
	// closure: protect runs code with it. Written before that code starts.
	closure bool

	ctx    context.Context
	cancel context.CancelCauseFunc

	trustEnd atomic.Int64  // local time; written under mu, and only while held
	state    atomic.Int32  // written under mu
	lost     chan struct{} // closed when the state turns to lost or closed
	kept     chan struct{} // closed when the keeper has ended, or never will run; nil if there is none

	// firstLook is the local time of the first renewal; spread, so that locks
	// acquired together are not renewed together for ever.
	firstLook time.Duration
	starter   *time.Timer // starts the keeper
	stopOnce  sync.Once

	stopping context.Context // done when the keeper is to end
	stop     context.CancelFunc

	mu       sync.Mutex // guards the fields below, and writes of trustEnd and state
	why      *lostError // of the loss
	renewals int64

	once   sync.Once // the release
	result error     // of the release; written inside once
}

// The states of an acquisition.
const (
	stateHeld int32 = iota
	stateReleased
	stateLost
	stateClosed
)

// jobTerms is how a job lock differs from others.
type jobTerms struct {
	holdFor time.Duration // keep it for so long after the grant
}

// Context is the context for work under the locks. It carries the identity:
// nested calls made with it reuse these locks. It is cancelled when the locks
// are released, and with cause [ErrLockLost] when one of them is lost.
func (a *Acquisition) Context() context.Context { return a.ctx }

// Lost is closed when one of the locks of this call is lost, or cut off by
// Close. A plain release doesn't close it.
func (a *Acquisition) Lost() <-chan struct{} { return a.lost }

// HasLock says whether all locks are held still: those of the call, and those
// of the calls around it. It asks nobody and is quick.
func (a *Acquisition) HasLock() bool {
	if a == nil {
		return false
	}
	now := a.svc.clock.now()
	for h := a; h != nil; h = h.parent {
		if !h.holds(now) {
			return false
		}
	}
	return true
}

// holds says whether this link of the chain is held at local time now. The
// first time it isn't, it is lost for good: a renewal whose reply comes later
// must not bring it back.
func (a *Acquisition) holds(now time.Duration) bool {
	if a.state.Load() != stateHeld {
		return false
	}
	if len(a.wants) == 0 || now < time.Duration(a.trustEnd.Load()) {
		return true
	}
	return !a.lose(now, a.overReason(now), nil) && a.state.Load() == stateHeld
}

// lose makes the acquisition lost if it is held. With a local time it is lost
// only if trust has ended by then: it may have been renewed meanwhile.
func (a *Acquisition) lose(now time.Duration, reason string, cause error) bool {
	return a.end(stateLost, now, &lostError{reason: reason, cause: cause})
}

func (a *Acquisition) end(state int32, now time.Duration, why *lostError) bool {
	a.mu.Lock()
	if a.state.Load() != stateHeld || now != 0 && now < time.Duration(a.trustEnd.Load()) {
		a.mu.Unlock()
		return false
	}
	a.state.Store(state)
	a.why = why
	a.mu.Unlock()
	cause := error(why)
	if state == stateClosed {
		cause = ErrClosed
	}
	a.cancel(cause)
	close(a.lost)
	if state == stateLost {
		a.svc.log.Warn("a lock was lost while it was held", zap.Strings("locks", a.names), zap.String("reason", why.reason),
			zap.String("acquisition", a.id), zap.Int64("fencingToken", a.grant.Token))
	}
	return true
}

// cutOff is the end of an acquisition whose service is closed while its code runs.
func (a *Acquisition) cutOff() {
	a.end(stateClosed, 0, &lostError{reason: "the service was closed", cause: ErrClosed})
	a.stopKeeper()
	a.svc.dismiss(a)
}

// extend moves the end of trust after a renewal, unless the lock was lost while
// the renewal was under way.
func (a *Acquisition) extend(r lane.Renewed) bool {
	end := a.trustFrom(r.Asked)
	now := a.svc.clock.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state.Load() != stateHeld || now >= time.Duration(a.trustEnd.Load()) {
		return false
	}
	a.renewals = r.Renewals
	a.trustEnd.Store(max(a.trustEnd.Load(), int64(end)))
	return true
}

// trustFrom is the end of trust after word from Redis that was asked for at asked.
// A job's lock lasts longer than that, but it is trusted only for a lease of the
// service after each look: the hold-off after a loss of data is no longer.
func (a *Acquisition) trustFrom(asked time.Duration) time.Duration {
	end := lease.TrustEnd(asked, a.svc.trustedFor(a.lease, a.renews))
	if a.renews {
		return end
	}
	return min(end, a.jobEnd())
}

// trustedFor is for how long a holder trusts one word from Redis, margin included.
func (s *RedisLockService) trustedFor(lease time.Duration, renews bool) time.Duration {
	if renews {
		return lease
	}
	return min(lease, s.cfg.lease)
}

// jobEnd is the local time at which a lock that isn't renewed is trusted no more.
func (a *Acquisition) jobEnd() time.Duration { return lease.TrustEnd(a.grant.Asked, a.lease) }

// leaseEnd is the local time at which the lease has run out also for Redis, as
// far as is known here: after it a release is pointless.
func (a *Acquisition) leaseEnd() time.Duration {
	if a.renews {
		return time.Duration(a.trustEnd.Load()) + lease.Margin(a.lease)
	}
	return a.grant.Asked + a.lease
}

// find is the innermost link of the chain that holds name, or held it.
func (a *Acquisition) find(name string) (*Acquisition, lockrules.Mode) {
	var reader *Acquisition
	for h := a; h != nil; h = h.parent {
		i := slices.IndexFunc(h.wants, func(w lockrules.Want) bool { return w.Name == name })
		switch {
		case i < 0 || h.state.Load() == stateReleased:
		case h.wants[i].Mode == lockrules.Write:
			return h, lockrules.Write
		case reader == nil:
			reader = h
		}
	}
	return reader, lockrules.Read
}

// FencingToken is the token of the acquisition that holds name, which may be
// one of a call around. It goes with every write to a storage that refuses
// older ones. held is false if the chain doesn't hold name, or has lost it.
func (a *Acquisition) FencingToken(name string) (token int64, held bool) {
	if a == nil {
		return 0, false
	}
	h, _ := a.find(name)
	if h == nil || !h.holds(a.svc.clock.now()) {
		return 0, false
	}
	return h.grant.Token, true
}

// FencingToken is [Acquisition.FencingToken] inside protected code.
func FencingToken(ctx context.Context, name string) (token int64, held bool) {
	a, _ := ctx.Value(innermostKey{}).(*Acquisition)
	for ; a != nil; a = a.outer {
		if token, held = a.FencingToken(name); held {
			return token, held
		}
	}
	return 0, false
}

// Release lets the locks go. The first call does; it and all later ones return
// nil, or an error that matches [ErrLockLost] if a lock had been lost before. If
// Redis can't be reached within ctx and the connection timeout, it goes on in
// the background until the lease would have ended anyway. The context ctx may be
// one that is done: the release has time of its own.
func (a *Acquisition) Release(ctx context.Context) error {
	if a == nil {
		return nil
	}
	a.finish(ctx, lockrules.OK, "")
	return a.result
}
