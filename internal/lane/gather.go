package lane

import "time"

// Renewals can wait a little, and are better done together: two thousand locks
// would else cost two thousand transactions per interval. The first to come sets
// the time at which all that have come by then are queued. They don't join a
// caller's batch before that: its records have been read already, theirs haven't,
// so it would have to pay for one more round trip.

// gatherLocked has a renewal wait for others.
func (l *Lane) gatherLocked(o *op) {
	l.gathered = append(l.gathered, o)
	if l.gatherTill == 0 {
		l.gatherTill = o.queuedAt + l.cfg.Gather
		l.kickBackground() // it has to set its timer
	}
}

func (l *Lane) gatherDueLocked(now time.Duration) bool {
	return l.gatherTill != 0 && now >= l.gatherTill
}

// takeGatheredLocked queues the renewals whose time has come.
func (l *Lane) takeGatheredLocked(now time.Duration) {
	if l.gatherDueLocked(now) {
		l.pending = append(l.pending, l.gathered...)
		l.gathered, l.gatherTill = nil, 0
	}
}
