package lockrules

import "encoding/json"

// Server is what a service remembers, in Redis, of the server that it locks on.
type Server struct {
	V           int    `json:"v"`
	RunID       string `json:"runId"`
	Since       Millis `json:"sinceEpochMillis"` // locks granted before this moment may be lost
	LeaseMillis Millis `json:"leaseMillis"`      // the largest lease of all services

	Extra map[string]json.RawMessage `json:"-"`
}

// Sighting is what the server says of itself.
type Sighting struct {
	RunID  string
	Uptime int64 // whole seconds by the server's wall clock
}

// HoldOff is why nothing is granted for now.
type HoldOff uint8

// The reasons to hold off.
const (
	NoHoldOff HoldOff = iota
	JustStarted
	OtherServer // restart, failover, restore or move
	DataLost    // the memory of the server is gone that this process has seen
)

func (h HoldOff) String() string {
	return [...]string{"none", "the server started a short while ago",
		"another server, or another run of it, than the locks were handed out by",
		"the server has lost its data"}[h]
}

// Standing is the answer of [CheckServer].
type Standing struct {
	Until  Millis  // nothing is granted before this moment; not later than now if all is well
	Reason HoldOff // of Until
	Write  *Server // what is to be written with the next transaction, if not nil
}

// CheckServer compares what is remembered of the server with what it says now.
//
// remembered is nil if Redis has no memory of it; known says that this process
// has seen one before. lease is the largest lease that the process knows of: its
// own, or one that it has seen remembered, since after a loss of data nobody
// else may remember that. Nothing is granted until every lease that the previous
// run may have handed out has ended: one lease (the largest of all services)
// after the change was noticed, and not before the server has been up for that
// lease and a second, since its uptime is cut to whole seconds.
func CheckServer(remembered *Server, known bool, seen Sighting, lease, now Millis) Standing {
	s := Standing{Until: now}
	next := Server{V: Version, RunID: seen.RunID, Since: now, LeaseMillis: lease}
	switch {
	case remembered == nil && known:
		s.Reason, s.Until, s.Write = DataLost, now+lease, &next
	case remembered == nil:
		next.Since = now - Millis(max(seen.Uptime, 0))*1000
		s.Write = &next
	case remembered.RunID != seen.RunID:
		next.LeaseMillis, next.Extra = max(lease, remembered.LeaseMillis), remembered.Extra
		s.Reason, s.Until, s.Write = OtherServer, now+next.LeaseMillis, &next
	default:
		s = sameServer(*remembered, lease, now)
		lease = max(lease, remembered.LeaseMillis)
	}
	if s.Write != nil {
		lease = s.Write.LeaseMillis
	}
	if up := Millis(max(seen.Uptime, 0)) * 1000; up < lease+1000 {
		if ready := now + lease + 1000 - up; ready > s.Until {
			s.Until = ready
			if s.Reason == NoHoldOff {
				s.Reason = JustStarted
			}
		}
	}
	return s
}

// sameServer is the run that was remembered: a hold-off may still be on, a
// larger lease is written down, and a Since from the future (the clock went
// back) counts as now.
func sameServer(r Server, lease, now Millis) Standing {
	s := Standing{Until: now}
	next := r
	next.Since, next.LeaseMillis = min(r.Since, now), max(r.LeaseMillis, lease)
	if next.Since != r.Since || next.LeaseMillis != r.LeaseMillis {
		s.Write = &next
	}
	if until := next.Since + next.LeaseMillis; until > now {
		s.Until, s.Reason = until, OtherServer
	}
	return s
}
