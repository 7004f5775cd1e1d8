package main

import (
	"fmt"
	"strings"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// overview is a line for each figure that has ratios.
func (r *report) overview(b *strings.Builder) {
	b.WriteString("| job | figure | RedisLockService | best peer | against it | floor | against it |\n|---|---|--:|--:|--:|--:|--:|\n")
	for _, key := range order {
		for _, c := range columns[key] {
			us, ok := r.median(key, oursKey, c.value)
			if !c.ratios || !ok {
				continue
			}
			peer, best := r.best(key, c)
			floor, ok := r.median(key, floorOf(key), c.value)
			if !ok {
				floor = -1
			}
			fmt.Fprintf(b, "| %s. %s | %s | %s | %s (%s) | %s | %s | %s |\n", key, title(key), c.title,
				rig.Number(us), rig.Number(best), label(peer), ratio(us, best), rig.Number(floor), ratio(us, floor))
		}
	}
}

// wins says plainly where a peer is better, best first.
func (r *report) wins(b *strings.Builder) {
	b.WriteString("\nA peer is better at:\n\n")
	none := true
	for _, key := range order {
		for _, c := range columns[key] {
			us, ok := r.median(key, oursKey, c.value)
			peer, them := r.best(key, c)
			if !ok || c.minor || peer == "" || !c.better(them, us) {
				continue
			}
			none = false
			fmt.Fprintf(b, "- %s, %s: %s with %s, against %s here%s.\n",
				key, c.title, label(peer), rig.Number(them), rig.Number(us), r.others(key, c, us))
		}
	}
	if none {
		b.WriteString("- nothing that was measured.\n")
	}
}

// others are how many more are better than us.
func (r *report) others(job string, c column, us float64) string {
	n := -1 // the best
	for _, k := range kinds {
		v, ok := r.median(job, k.Key, c.value)
		if ok && r.compared(k, c) && c.better(v, us) {
			n++
		}
	}
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}
