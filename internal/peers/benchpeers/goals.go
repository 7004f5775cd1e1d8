package main

import (
	"fmt"
	"strings"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// goal is what this library is to reach. Nothing fails if it doesn't: the table says.
type goal struct {
	job, value string
	// against is a peer's key, "best", or nothing if the limit is absolute.
	against string
	limit   float64
	more    bool // at least, not at most
	text    string
}

const best = "best"

var goals = []goal{
	{"a", "p50", best, 1.15, false, "p50 of the best peer's"},
	{"a", "p50", floorKey, 1.05, false, "p50 of two PINGs on a shared connection"},
	{"b", "ops", best, 1.5, true, "ops/s of the best peer's"},
	{"c", "p50", best, 1.2, false, "p50 of the best peer's, if the next owner takes it"},
	{"c", "p50", best, 0.6, false, "p50 of the best peer's, if it is granted by the releaser"},
	{"d", "total", best, 0.95, false, "total of the best peer's"},
	{"d", "commands", "", 4, false, "commands per hand-off"},
	{"d", "ratio", "", 3, false, "medians for the longest wait"},
	{"d-loop", "ratio", "", 3, false, "medians for the longest wait"},
	{"d-mixed", "ratio", "", 3, false, "medians for the longest wait"},
	{"e", "p50", best, 0.13, false, "p50 of the best peer's"},
	{"f", "bytes", "", 6 << 10, false, "bytes per lock"},
	{"f", "commands", "rueidislock-tuned", 0.3, false, "commands/s of rueidislock's, tuned"},
	{"g", "ops", "etcd-tuned", 6, true, "ops/s of etcd's, tuned"},
}

// measured is our figure, as the goal has it.
func (r *report) measured(g goal) (v float64, ok bool) {
	us, ok := r.median(g.job, oursKey, g.value)
	if !ok || g.against == "" {
		return us, ok
	}
	key := g.against
	if key == best {
		key, _ = r.best(g.job, column{value: g.value, more: g.more})
	}
	them, ok := r.median(g.job, key, g.value)
	return us / them, ok && them > 0
}

func (r *report) goals(b *strings.Builder) {
	b.WriteString("\n| job | goal | measured | |\n|---|---|--:|---|\n")
	for _, g := range goals {
		v, ok := r.measured(g)
		if !ok {
			continue
		}
		word, met := "at most", v <= g.limit
		if g.more {
			word, met = "at least", v >= g.limit
		}
		verdict := "missed"
		if met {
			verdict = "met"
		}
		by := " × the "
		if g.against == "" {
			by = " "
		}
		fmt.Fprintf(b, "| %s | %s %s%s%s | %s | %s |\n", g.job, word, rig.Number(g.limit), by, g.text, decimal(v), verdict)
	}
}

func decimal(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.2f", v)
	}
	return rig.Number(v)
}
