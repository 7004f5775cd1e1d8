package deadlock

import (
	"fmt"
	"strings"
	"time"
)

const (
	storyName  = 64 // bytes of one name
	storyNames = 8  // names of one list
)

// Story tells a deadlock in a few lines: each party, in the order of the cycle,
// with its owner, node, start of the wait, what it holds and what it waits for.
// The victim is marked with a star. What comes from outside is quoted and cut.
func (d Deadlock) Story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "deadlock of %d waiters, each waits for the next, the last for the first; * gives up:", len(d.Cycle))
	for i, w := range d.Cycle {
		mark := ' '
		if i == d.Victim {
			mark = '*'
		}
		next := d.Cycle[(i+1)%len(d.Cycle)]
		fmt.Fprintf(&b, "\n%c %d. %s", mark, i+1, party(w))
		fmt.Fprintf(&b, "\n     holds %s", holdsText(w))
		fmt.Fprintf(&b, "\n     waits for %s", wantsText(w))
		fmt.Fprintf(&b, "\n     stopped by the next at %s", reasonsText(Why(w, next)))
	}
	return b.String()
}

func party(w Waiter) string {
	s := fmt.Sprintf("%s on node %s, since %s", short(w.Owner), short(w.Node), since(w.SinceMicros))
	if w.Count > 1 {
		s += fmt.Sprintf(" (the oldest of %d alike)", w.Count)
	}
	if w.Site != "" {
		s += ", at " + short(w.Site)
	}
	return s
}

func since(micros int64) string {
	return time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
}

func holdsText(w Waiter) string {
	return list(len(w.Holds), func(i int) string { return mode(w.Holds[i].Write) + short(w.Holds[i].Name) })
}

func wantsText(w Waiter) string {
	left := needs(w)
	return list(len(left), func(i int) string { return mode(left[i].Write) + short(left[i].Name) })
}

func reasonsText(reasons []Reason) string {
	return list(len(reasons), func(i int) string {
		r := reasons[i]
		if r.HoldID == "" {
			return short(r.Name) + " (waits to write it)"
		}
		return short(r.Name) + " (holds it to " + strings.TrimSuffix(mode(r.Write), " ") + ")"
	})
}

func mode(write bool) string {
	if write {
		return "write "
	}
	return "read "
}

func list(n int, item func(int) string) string {
	if n == 0 {
		return "nothing"
	}
	items := make([]string, 0, storyNames+1)
	for i := range min(n, storyNames) {
		items = append(items, item(i))
	}
	if n > storyNames {
		items = append(items, fmt.Sprintf("and %d more", n-storyNames))
	}
	return strings.Join(items, ", ")
}

func short(s string) string {
	if len(s) > storyName {
		return fmt.Sprintf("%q", clip(s, storyName)) + "…"
	}
	return fmt.Sprintf("%q", s)
}
