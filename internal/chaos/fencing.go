package chaos

import (
	"cmp"
	"fmt"
	"slices"
)

// Fencing finds tokens that don't rise, and accesses to the storage that were refused
// although their caller held the lock for certain. In an admitted span there may be
// two holders, and the older one is refused: rightly.
func Fencing(h *History, admitted []Span) []Violation {
	var out []Violation
	for _, name := range h.Names() {
		holds := h.holds(name)
		// Who had lost its lock before it could ask for the token knows none.
		holds = slices.DeleteFunc(holds, func(x hold) bool { return x.Token == 0 })
		out = append(out, tokensRise(name, holds)...)
	}
	return append(out, refusedHolders(h, admitted)...)
}

// tokensRise: a grant that had been returned before another was asked for came
// first, so its token must be lower. It holds for readers too, and over losses of
// data and restarts. And no two grants share a token.
func tokensRise(name string, holds []hold) []Violation {
	var out []Violation
	seen := make(map[int64]string)
	for _, x := range holds {
		if other, ok := seen[x.Token]; ok {
			out = append(out, Violation{"tokens differ", fmt.Sprintf("%q: %s and %s both have %d", name, other, x.ID, x.Token), x.Got})
		}
		seen[x.Token] = x.ID
	}
	calls := slices.Clone(holds)
	slices.SortFunc(calls, func(x, y hold) int { return cmp.Compare(x.Call, y.Call) })
	var highest hold // among the grants returned before the call that is looked at
	next := 0
	for _, x := range calls {
		for next < len(holds) && holds[next].Got < x.Call {
			if highest.Attempt == nil || holds[next].Token > highest.Token {
				highest = holds[next]
			}
			next++
		}
		if highest.Attempt != nil && x.Token <= highest.Token {
			out = append(out, Violation{"tokens rise", fmt.Sprintf("%q: %s has %d, and %s, granted before it was asked for, %d",
				name, x.ID, x.Token, highest.ID, highest.Token), x.Got})
		}
	}
	return out
}

func refusedHolders(h *History, admitted []Span) []Violation {
	var out []Violation
	for _, s := range h.Stores {
		a := h.byID[s.ID]
		if s.Refused && a != nil && a.Got <= s.At && s.Until <= a.Until() && !anyHolds(admitted, s.At) {
			out = append(out, Violation{"holders may write", fmt.Sprintf("%q: the write of %s (token %d) was refused while it held the lock, %d to %d",
				s.Name, s.ID, a.Token, a.Got, a.Until()), s.At})
		}
	}
	return out
}
