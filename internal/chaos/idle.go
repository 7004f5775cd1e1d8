package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Idle finds locks that nobody held for longer than bound, in a span in which
// nothing was broken, while a call waited to write just that one: somebody was not
// woken. Nothing but a holder may stop such a call.
func Idle(h *History, quiet Span, lease, bound time.Duration) []Violation {
	var out []Violation
	for _, a := range h.Attempts {
		if len(a.Wants) != 1 || !a.Wants[0].Write || a.Timeout == 0 {
			continue
		}
		end := max(a.Got, a.Failed)
		if end == 0 {
			continue
		}
		wait := Span{max(a.Call, quiet.From), min(end, quiet.To)}
		if wait.To-wait.From <= int64(bound) {
			continue
		}
		if free := longestFree(wait, h.heldBesides(a, a.Wants[0].Name, int64(lease))); free > int64(bound) {
			out = append(out, Violation{"a free lock is granted", fmt.Sprintf("%q was free for %v while %s waited for it, %d to %d",
				a.Wants[0].Name, time.Duration(free), a.ID, a.Call, end), end})
		}
	}
	return out
}

// heldBesides is when other chains may have held name.
func (h *History) heldBesides(a *Attempt, name string, lease int64) []Span {
	var out []Span
	for _, x := range h.holds(name) {
		if x.Chain == a.Chain {
			continue
		}
		to := x.Released
		if to == 0 {
			to = x.Gone(lease)
		}
		out = append(out, Span{x.Got, to})
	}
	return out
}

// longestFree is the longest part of the wait that no span covers.
func longestFree(wait Span, held []Span) int64 {
	slices.SortFunc(held, func(x, y Span) int { return cmp.Compare(x.From, y.From) })
	at, longest := wait.From, int64(0)
	for _, s := range append(held, Span{wait.To, wait.To}) {
		longest = max(longest, min(s.From, wait.To)-at)
		at = max(at, s.To)
	}
	return longest
}
