package main

import (
	"fmt"
	"strings"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// column is a figure of a job, as the table shows it.
type column struct {
	value string // its name in the samples
	title string
	// more is better; else less is.
	more bool
	// ratios: the table also shows it against the floor and the best peer.
	ratios bool
	// minor: no word about who is better at it.
	minor bool
	// renews: only those that renew what they hold are compared.
	renews bool
}

func (c column) better(a, b float64) bool {
	if c.more {
		return a > b
	}
	return a < b
}

// The floors that ratios are to: of one caller, and of a hand-off.
const (
	floorKey   = "pings-shared"
	messageKey = "message"
)

func floorOf(job string) string {
	if job == "c" || job == "c-long" {
		return messageKey
	}
	return floorKey
}

var (
	loopColumns = []column{
		{value: "ops", title: "turns/s", more: true, ratios: true},
		{value: "ratio", title: "longest wait / median wait"},
		{value: "means", title: "slowest waiter's mean / median of means"},
		{value: "longest", title: "longest wait, ms", minor: true},
		{value: "fewest", title: "turns, fewest", minor: true},
		{value: "most", title: "turns, most", minor: true},
		{value: "stuck", title: "waiters not served within 6 s", minor: true},
	}
	timeColumns = []column{
		{value: "p50", title: "p50, µs", ratios: true},
		{value: "p99", title: "p99, µs", minor: true},
	}
	rateColumns = []column{{value: "ops", title: "ops/s", more: true, ratios: true}}

	columns = map[string][]column{
		"a": timeColumns, "b": rateColumns, "c": timeColumns, "c-long": timeColumns, "e": timeColumns, "g": rateColumns,
		"d": {
			{value: "total", title: "total, ms", ratios: true},
			{value: "commands", title: "commands per hand-off"},
			{value: "inversions", title: "inversions of 4,950"},
			{value: "ratio", title: "longest wait / median wait"},
			{value: "overlaps", title: "two at once", minor: true},
		},
		"d-loop": loopColumns, "d-mixed": loopColumns,
		"f": {
			{value: "bytes", title: "bytes per lock", ratios: true, renews: true},
			{value: "commands", title: "commands/s", ratios: true, renews: true},
		},
	}

	titles = map[string]string{"f": "2,000 held locks, lease of 10 s"}
	order  = []string{"a", "b", "c", "c-long", "d", "d-loop", "d-mixed", "e", "f", "g"}
)

func title(key string) string {
	for _, j := range jobs {
		if j.key == key {
			return j.title
		}
	}
	return titles[key]
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d cores, Redis %s and etcd on the same machine, %s, medians of %d rounds, %.0f s in all.\n\n",
		r.Cores, r.Redis, r.Go, r.Rounds, r.Took)
	r.overview(&b)
	r.goals(&b)
	r.wins(&b)
	for _, key := range order {
		r.job(&b, key)
	}
	return b.String()
}

func (r *report) job(b *strings.Builder, key string) {
	var rows strings.Builder
	for _, k := range kinds {
		r.row(&rows, key, k)
	}
	if rows.Len() == 0 {
		return
	}
	fmt.Fprintf(b, "\n### %s. %s\n\n| library |", key, title(key))
	rule := "\n|---|"
	for _, c := range columns[key] {
		fmt.Fprintf(b, " %s |", c.title)
		rule += "--:|"
		if c.ratios {
			b.WriteString(" / floor | / best peer |")
			rule += "--:|--:|"
		}
	}
	b.WriteString(rule + "\n" + rows.String())
}

func (r *report) row(b *strings.Builder, key string, k kind) {
	why := r.why(key, k.Key)
	if _, ok := r.median(key, k.Key, columns[key][0].value); !ok {
		if why != "" {
			fmt.Fprintf(b, "| %s | – (%s) |\n", k.Label, why)
		}
		return
	}
	fmt.Fprintf(b, "| %s |", k.Label)
	for _, c := range columns[key] {
		v, ok := r.median(key, k.Key, c.value)
		if !ok {
			v = -1
		}
		fmt.Fprintf(b, " %s |", rig.Number(v))
		if c.ratios {
			floor, _ := r.median(key, floorOf(key), c.value)
			_, best := r.best(key, c)
			fmt.Fprintf(b, " %s | %s |", ratio(v, floor), ratio(v, best))
		}
	}
	b.WriteString("\n")
}

func label(key string) string {
	k, _ := find(key)
	return k.Label
}

func ratio(a, b float64) string {
	if a < 0 || b <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", a/b)
}
