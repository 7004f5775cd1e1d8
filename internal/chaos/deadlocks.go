package chaos

import (
	"fmt"
	"slices"
	"time"
)

// Terms of [Deadlocks].
type Terms struct {
	Lease time.Duration // of all processes
	// Lapse is for how long others may believe that a call waits that has ended: its
	// process could not tell them.
	Lapse time.Duration
	// Within is how long a deadlock may stand in a quiet span.
	Within time.Duration
	Quiet  []Span
}

// Deadlocks finds victims without a cycle, by what the history says was possible,
// and, in the quiet spans, cycles without a victim, by what it says was certain.
func Deadlocks(h *History, terms Terms) []Violation {
	var out []Violation
	within, quiet := terms.Within, terms.Quiet
	for _, a := range h.Attempts {
		switch {
		case a.Outcome == Deadlock && !h.possibleCycle(a, terms):
			out = append(out, Violation{"a victim has a deadlock", fmt.Sprintf("%s, which wants %v, was told of one, and there was none: %s", a.ID, a.Wants, a.Error), a.Failed})
		case a.Outcome == NotInTime && a.Timeout > int64(within):
			at := a.Failed - int64(within)
			if anyHolds(quiet, at) && anyHolds(quiet, a.Failed) && h.certainCycle(a, at, a.Failed) {
				out = append(out, Violation{"a deadlock has a victim", fmt.Sprintf("%s waited in one for %v, and nobody was told", a.ID, within), a.Failed})
			}
		}
	}
	return out
}

// Victims counts the calls that were told of a deadlock.
func Victims(h *History) int {
	n := 0
	for _, a := range h.Attempts {
		if a.Outcome == Deadlock {
			n++
		}
	}
	return n
}

// possibleCycle says whether, at any moment of the wait, a cycle through it was
// possible. Something changes only when a call begins, so those moments are enough.
func (h *History) possibleCycle(victim *Attempt, terms Terms) bool {
	lease := int64(terms.Lease)
	var near []*Attempt
	moments := []int64{victim.Call}
	for _, a := range h.Attempts {
		if a.Call > victim.Failed || max(a.Gone(lease), a.waitsUntil(terms)) < victim.Call {
			continue
		}
		near = append(near, a)
		if a.Call > victim.Call {
			moments = append(moments, a.Call)
		}
		if a.Got > victim.Call && a.Got < victim.Failed {
			moments = append(moments, a.Got)
		}
	}
	for _, at := range moments {
		may := func(a *Attempt) (waits, holds bool) {
			return a.Call <= at && at <= a.waitsUntil(terms), a.Call <= at && at <= a.Gone(lease) && a.Failed == 0
		}
		if cycleThrough(victim, near, may) {
			return true
		}
	}
	return false
}

// waitsUntil is the last moment at which others may believe that the attempt waits.
func (a *Attempt) waitsUntil(terms Terms) int64 {
	switch {
	case a.Got != 0:
		return a.Got
	case a.Failed != 0:
		return a.Failed + int64(terms.Lapse)
	}
	return a.Gone(int64(terms.Lease)) // its process died
}

// certainCycle says whether a cycle through the call stood from one moment to the
// other.
func (h *History) certainCycle(waiter *Attempt, from, to int64) bool {
	var near []*Attempt
	for _, a := range h.Attempts {
		if a.Call <= from {
			near = append(near, a)
		}
	}
	return cycleThrough(waiter, near, func(a *Attempt) (waits, holds bool) {
		ended := max(a.Got, a.Failed)
		return ended >= to, a.Held() && a.Got <= from && a.Until() >= to
	})
}

// cycleThrough looks for a cycle of chains that wait for each other: for a lock
// that the next holds, or for a read lock that the next waits to write.
func cycleThrough(start *Attempt, all []*Attempt, state func(*Attempt) (waits, holds bool)) bool {
	waiting := make(map[string][]*Attempt)
	holding := make(map[string][]*Attempt)
	for _, a := range all {
		waits, holds := state(a)
		if waits || a == start {
			waiting[a.Chain] = append(waiting[a.Chain], a)
		}
		if holds {
			holding[a.Chain] = append(holding[a.Chain], a)
		}
	}
	seen := map[string]bool{}
	var reach func(chain string) bool
	reach = func(chain string) bool {
		for next := range waiting {
			if next == chain || !waitsFor(waiting[chain], holding[next], waiting[next]) {
				continue
			}
			if next == start.Chain {
				return true
			}
			if !seen[next] {
				seen[next] = true
				if reach(next) {
					return true
				}
			}
		}
		return false
	}
	return reach(start.Chain)
}

func waitsFor(waiters, holders, queued []*Attempt) bool {
	return slices.ContainsFunc(waiters, func(w *Attempt) bool {
		return slices.ContainsFunc(w.Wants, func(want Want) bool {
			held := slices.ContainsFunc(holders, func(v *Attempt) bool {
				write, ok := v.wants(want.Name)
				return ok && (write || want.Write)
			})
			return held || !want.Write && slices.ContainsFunc(queued, func(v *Attempt) bool {
				write, ok := v.wants(want.Name)
				return ok && write
			})
		})
	})
}
