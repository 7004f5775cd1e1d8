package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// series is a curve's points: medians over the rounds.
func (g *growth) series(s sweep, c curve) (xs, ys []float64) {
	for _, x := range s.xs {
		var rounds []float64
		for _, p := range g.points {
			if v, ok := p.Values[c.value]; ok && p.Sweep == s.key && p.X == x {
				rounds = append(rounds, v)
			}
		}
		if len(rounds) > 0 {
			xs, ys = append(xs, float64(x)), append(ys, rig.Median(rounds))
		}
	}
	return xs, ys
}

// exponent is how steep a curve is at its end: 0 is flat, 1 grows in proportion.
func exponent(xs, ys []float64) float64 {
	n := len(xs)
	if n < 2 || ys[n-1] <= 0 || ys[n-2] <= 0 {
		return math.NaN()
	}
	return math.Log(ys[n-1]/ys[n-2]) / math.Log(xs[n-1]/xs[n-2])
}

func (g *growth) markdown(chosen []sweep, pictures bool) string {
	var b strings.Builder
	for _, s := range chosen {
		fmt.Fprintf(&b, "### %s\n\n", strings.ToUpper(s.title[:1])+s.title[1:])
		if pictures {
			fmt.Fprintf(&b, "![%s](benchmarks/%s.svg)\n\n", s.title, s.key)
		}
		g.table(&b, s)
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (g *growth) table(b *strings.Builder, s sweep) {
	fmt.Fprintf(b, "| %s |", s.axis)
	for _, x := range s.xs {
		fmt.Fprintf(b, " %s |", rig.Number(float64(x)))
	}
	b.WriteString(" exponent at the end | wanted |\n|---|" + strings.Repeat("--:|", len(s.xs)+1) + "---|\n")
	for _, c := range s.curves {
		xs, ys := g.series(s, c)
		fmt.Fprintf(b, "| %s |", c.title)
		for _, y := range ys {
			fmt.Fprintf(b, " %s |", rig.Number(y))
		}
		fmt.Fprintf(b, " %.2f | %s |\n", exponent(xs, ys), c.wanted())
	}
}

func (c curve) wanted() string {
	switch {
	case c.limit > 0:
		return "flat, at most " + rig.Number(c.limit)
	case c.more:
		return "not less"
	case c.flat:
		return "flat"
	default:
		return "at most in proportion"
	}
}

// write puts the figures and a picture of each sweep into a folder.
func (g *growth) write(dir string, chosen []sweep) error {
	for _, s := range chosen {
		if err := os.WriteFile(filepath.Join(dir, s.key+".svg"), []byte(g.picture(s)), 0o644); err != nil {
			return err
		}
	}
	slices.SortStableFunc(g.points, func(a, b point) int { return strings.Compare(a.Sweep, b.Sweep) })
	data, err := json.MarshalIndent(g.points, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "growth.json"), append(data, '\n'), 0o644)
}

// redraw makes everything but the figures anew.
func (g *growth) redraw(dir, doc string) error {
	data, err := os.ReadFile(filepath.Join(dir, "growth.json"))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &g.points); err != nil {
		return err
	}
	return g.publish(sweeps, dir, doc)
}
