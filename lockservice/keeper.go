package lockservice

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/lease"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// gatherFor is how long a renewal may wait for others of the same service to
// share a transaction: a small part of the time before it and of the time after
// it. A second is enough for thousands to come together.
func gatherFor(lease, renewal time.Duration) time.Duration {
	return min(renewal/20, (lease-renewal)/20, time.Second)
}

// startKeeper sees to it that the lease is renewed, or watched, on a goroutine of
// its own. The goroutine starts when there is first something to do for it: most
// locks are released long before, and never need one.
func (a *Acquisition) startKeeper(ctx context.Context) {
	run := a.svc.cfg.wrap(ctx, a.keep)
	a.kept = make(chan struct{})
	a.firstLook = a.grant.Asked + a.svc.cfg.renewal - a.svc.jitter(a.svc.cfg.renewal/10+1)
	a.starter = time.AfterFunc(max(a.nextStop(a.firstLook)-a.svc.clock.now(), 0), func() {
		defer close(a.kept)
		run()
	})
}

// stopKeeper ends the keeper and waits for it.
func (a *Acquisition) stopKeeper() {
	a.stop()
	a.stopOnce.Do(func() {
		if a.starter == nil {
			return
		}
		if a.starter.Stop() {
			close(a.kept) // it never ran
		}
	})
	if a.kept != nil {
		<-a.kept
	}
}

// keep renews at absolute times, so that slow renewals don't add up, and ends
// the acquisition when its time is over. It stops when it is released.
func (a *Acquisition) keep() {
	interval := a.svc.cfg.renewal
	next, patient := a.firstLook, true
	for {
		now := a.svc.clock.now()
		if a.over(now) {
			return
		}
		if now < next {
			if !a.pause(a.nextStop(next) - now) {
				return
			}
			continue
		}
		lost, err := a.attempt(now, patient)
		patient = err == nil
		switch {
		case lost:
			return
		case err != nil && a.stopping.Err() != nil:
			return
		case err != nil:
			a.svc.log.Debug("a renewal failed and is tried again", zap.Strings("locks", a.names), zap.Error(err))
			next = a.svc.clock.now() + lease.RetryDelay(a.svc.trustedFor(a.lease, a.renews), interval)
		default:
			next = max(next+interval, now)
		}
	}
}

// over ends the acquisition if its time is up.
func (a *Acquisition) over(now time.Duration) bool {
	if a.endsAt != 0 && now >= a.endsAt {
		a.lose(0, "it was held as long as WithMaxHold allows", nil)
		return true
	}
	if now >= time.Duration(a.trustEnd.Load()) {
		a.lose(now, a.overReason(now), nil)
	}
	return a.state.Load() != stateHeld
}

func (a *Acquisition) overReason(now time.Duration) string {
	switch {
	case a.renews:
		return "the lease could not be renewed in time"
	case now < a.jobEnd():
		return "the lock could not be looked at for as long as a lease"
	}
	return overrun
}

// nextStop is the local time at which the keeper has to look again.
func (a *Acquisition) nextStop(next time.Duration) time.Duration {
	stop := min(next, time.Duration(a.trustEnd.Load()))
	if a.endsAt != 0 {
		stop = min(stop, a.endsAt)
	}
	return stop
}

// pause waits, and says whether to go on.
func (a *Acquisition) pause(d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-a.stopping.Done():
		return false
	}
}

// attempt renews or looks once. It is bounded by the end of trust as it is now:
// an attempt that hung past it could otherwise hide the loss.
func (a *Acquisition) attempt(now time.Duration, patient bool) (lost bool, err error) {
	ctx, cancel := context.WithTimeout(a.stopping, time.Duration(a.trustEnd.Load())-now)
	defer cancel()
	var reason string
	if a.renews {
		reason, err = a.renew(ctx, patient)
	} else {
		reason, err = a.look(ctx)
	}
	if reason == "" {
		return false, err
	}
	a.lose(0, reason, nil)
	return true, nil
}

func (a *Acquisition) renew(ctx context.Context, patient bool) (lost string, err error) {
	a.mu.Lock()
	seen := a.renewals
	a.mu.Unlock()
	ren := lockrules.Renewal{ID: a.id, LeaseMillis: lockrules.Millis(a.lease.Milliseconds()), Seen: seen}
	r, lost, err := a.svc.lane.Renew(ctx, a.names, ren, a.grant.RunID, patient)
	if err != nil || lost != "" {
		return lost, err
	}
	if !a.extend(r) {
		a.holds(a.svc.clock.now()) // the reply came too late
	}
	return "", nil
}

// look checks, without renewing, that a job's lock is still in its record.
func (a *Acquisition) look(ctx context.Context) (lost string, err error) {
	asked := a.svc.clock.now()
	r, err := a.svc.lane.Read(ctx, a.names)
	if err != nil {
		return "", err
	}
	if r.RunID != a.grant.RunID {
		return "the server has restarted, or is another one", nil
	}
	for _, name := range a.names {
		rec := r.Records[name]
		h, _, found := rec.Find(a.id)
		if !found || !h.Alive(r.At.Millis()) {
			return "its record is gone or another's", nil
		}
	}
	if !a.extend(lane.Renewed{Asked: asked}) {
		a.holds(a.svc.clock.now()) // the answer came too late
	}
	return "", nil
}
