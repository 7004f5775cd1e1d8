package chaos

import (
	"fmt"
	"slices"
	"time"
)

// Verdict of [Exclusion].
type Verdict struct {
	Violations []Violation
	// Admitted is the longest overlap inside of an admitted span; 0: there was none.
	Admitted time.Duration
	// Gap is the least time between the last "I hold it" of a holder that lost its
	// lock and the next grant that conflicts with it; negative would be a
	// violation. Losses counts such pairs.
	Gap    time.Duration
	Losses int
}

// Exclusion finds two holders at once, by certain intervals, and a HasLock that
// turned true again. Overlaps that begin in one of the admitted spans are reported
// apart.
func Exclusion(h *History, admitted []Span) Verdict {
	var v Verdict
	for _, a := range h.Attempts {
		if a.Regained {
			v.Violations = append(v.Violations, Violation{"HasLock stays false", a.ID, a.FirstFalse})
		}
	}
	for _, name := range h.Names() {
		v.sweep(name, h.holds(name), admitted)
	}
	return v
}

// sweep goes over the holds of a name in the order of their grants.
func (v *Verdict) sweep(name string, holds []hold, admitted []Span) {
	var active []hold // certain intervals that may reach further
	var last []hold   // ended ones that a later grant may follow closely
	for _, x := range holds {
		active = slices.DeleteFunc(active, func(y hold) bool {
			ended := y.Until() <= x.Got
			if ended {
				last = append(last, y)
			} else if x.conflicts(y) && x.Until() > x.Got {
				v.overlap(name, y, x, admitted)
			}
			return ended
		})
		last = v.gaps(x, last)
		active = append(active, x)
	}
}

func (v *Verdict) overlap(name string, y, x hold, admitted []Span) {
	length := time.Duration(min(x.Until(), y.Until()) - x.Got)
	if anyHolds(admitted, x.Got) {
		v.Admitted = max(v.Admitted, length)
		return
	}
	v.Violations = append(v.Violations, Violation{"one holder", fmt.Sprintf(
		"%q: %s (write %v, token %d, certain %d to %d) and %s (write %v, token %d, certain %d to %d) for %v",
		name, y.ID, y.write, y.Token, y.Got, y.Until(), x.ID, x.write, x.Token, x.Got, x.Until(), length), x.Got})
}

// gaps measures how closely x followed those who had lost their lock, and forgets
// whom something has followed.
func (v *Verdict) gaps(x hold, last []hold) []hold {
	return slices.DeleteFunc(last, func(y hold) bool {
		if !x.conflicts(y) {
			return false
		}
		if y.FirstFalse != 0 {
			gap := time.Duration(x.Got - y.Until())
			if v.Losses == 0 || gap < v.Gap {
				v.Gap = gap
			}
			v.Losses++
		}
		return true
	})
}

// Together is how many chains read one name at the same time, for certain, at most.
func Together(h *History) int {
	most := 0
	for _, name := range h.Names() {
		var active []hold
		for _, x := range h.holds(name) {
			if x.write {
				continue
			}
			active = slices.DeleteFunc(active, func(y hold) bool { return y.Until() <= x.Got })
			active = append(active, x)
			most = max(most, len(active))
		}
	}
	return most
}
