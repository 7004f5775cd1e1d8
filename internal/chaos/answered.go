package chaos

import (
	"fmt"
	"time"
)

// Answered finds calls that were answered later than their timeout and slack
// allow, or in a way that is never right. stopped are the stretches in which a
// process could not run; they don't count.
func Answered(h *History, slack time.Duration, stopped map[string][]Span) []Violation {
	var out []Violation
	for _, a := range h.Attempts {
		if a.Outcome == Unexpected {
			out = append(out, Violation{"every error is known", a.ID + ": " + a.Error, a.Failed})
		}
		end := max(a.Got, a.Failed)
		if end == 0 {
			continue // its process was killed: whoever runs the processes knows better
		}
		took := end - a.Call - overlap(stopped[a.Worker], a.Call, end)
		if took > a.Timeout+int64(slack) {
			out = append(out, Violation{"calls end in time", fmt.Sprintf("%s with a timeout of %v took %v (%s)",
				a.ID, time.Duration(a.Timeout), time.Duration(took), a.Outcome), end})
		}
	}
	return out
}

func overlap(spans []Span, from, to int64) int64 {
	var sum int64
	for _, s := range spans {
		sum += max(min(s.To, to)-max(s.From, from), 0)
	}
	return sum
}

// Served finds processes that held no lock at all in a span in which nothing was
// broken.
func Served(h *History, quiet Span, workers []string) []Violation {
	served := make(map[string]bool)
	for _, a := range h.Attempts {
		if a.Held() && a.Got <= quiet.To && a.Until() >= quiet.From {
			served[a.Worker] = true
		}
	}
	var out []Violation
	for _, w := range workers {
		if !served[w] {
			out = append(out, Violation{"who waits is served", w + " held no lock while nothing was broken", quiet.To})
		}
	}
	return out
}

// Jobs finds runs of one job that began less than atLeast after the one before.
// Only a loss of data lets the next run begin earlier: losses are those moments.
func Jobs(h *History, losses []int64) []Violation {
	var out []Violation
	for _, name := range h.Names() {
		var last hold
		for _, x := range h.holds(name) {
			if !x.Job {
				continue
			}
			y := last
			last = x
			if y.Attempt == nil || y.AtLeast == 0 {
				continue
			}
			// The earlier task may have begun any time before its first line was written.
			apart := x.Got - y.Call
			if apart < y.AtLeast && !anyLoss(losses, y.Call, x.Got) {
				out = append(out, Violation{"one run per atLeast", fmt.Sprintf("%q: %s began %v after %s, which keeps it for %v",
					name, x.ID, time.Duration(apart), y.ID, time.Duration(y.AtLeast)), x.Got})
			}
		}
	}
	return out
}

func anyLoss(losses []int64, from, to int64) bool {
	for _, at := range losses {
		if from <= at && at <= to {
			return true
		}
	}
	return false
}
