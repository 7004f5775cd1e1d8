package lane

import (
	"context"
	"time"
)

// background carries for timers, wake-ups and callers who have left.
func (l *Lane) background() {
	defer close(l.idle)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-l.kick:
		case <-timer.C:
		case <-l.quit:
			return
		}
		if l.claimWork() {
			l.carry(nil)
		}
		timer.Reset(l.untilDue())
	}
}

// claimWork takes the baton if it is free and there is something to do.
func (l *Lane) claimWork() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running {
		return false // whoever carries looks for work before putting it down
	}
	if !l.workLocked() {
		return false
	}
	l.running = true
	return true
}

// workLocked says whether there is something to carry.
func (l *Lane) workLocked() bool {
	now := l.cfg.Now()
	return len(l.pending)+len(l.touched)+len(l.woken)+len(l.leaving)+len(l.again) > 0 || l.wakeAll || l.closed ||
		l.nextDue != 0 && now >= l.nextDue || l.gatherDueLocked(now)
}

func (l *Lane) untilDue() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.nextDue
	if due == 0 || l.gatherTill != 0 && l.gatherTill < due {
		due = l.gatherTill
	}
	left := due - l.cfg.Now()
	if due == 0 || left <= 0 && l.running {
		return time.Hour // whoever carries sees to it, or kicks when the baton is down
	}
	return max(left, 0)
}

// Refuse has every acquire end with [ErrClosed], whatever has become of it, and
// lets no more in: their callers leave. Renewals and releases go on.
func (l *Lane) Refuse() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.refused)
	}
	l.mu.Unlock()
	l.kickBackground()
}

// Close refuses what comes, removes the node's marks, finishes releases, and
// gives the connection back. It does so within ctx, and what the port takes to
// close; an exchange under way is cut off then. The marks at a Redis that can't
// be reached lapse by themselves. To be called once.
func (l *Lane) Close(ctx context.Context) {
	l.Refuse()
	l.claimWhenIdle(ctx)
	close(l.quit)
	if ctx.Err() != nil {
		l.cfg.Port.Close() // an exchange that has no answer yet would take its whole budget
	}
	<-l.idle
	l.claimWhenIdle(context.Background())
	l.cfg.Port.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range append(l.pending, l.gathered...) {
		o.finishLocked(outcome{err: ErrClosed})
	}
}

// claimWhenIdle waits until nobody carries and nothing is left to do, and takes
// the baton for good; or until ctx is done. After quit it waits for the carrier
// only.
func (l *Lane) claimWhenIdle(ctx context.Context) {
	for {
		l.mu.Lock()
		work := !l.quitting() && (len(l.pending)+len(l.touched)+len(l.leaving)+len(l.again)+len(l.parked.all)+len(l.parked.debts.all) > 0)
		if l.retired || !l.running && !work {
			l.running, l.retired = true, true
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.kickBackground()
		select {
		case <-l.freed:
		case <-ctx.Done():
			return
		}
	}
}

// signalFreedLocked tells Close that the baton is down.
func (l *Lane) signalFreedLocked() {
	select {
	case l.freed <- struct{}{}:
	default:
	}
}
