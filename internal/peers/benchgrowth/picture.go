package main

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// A picture is a panel for each curve of a sweep, three in a row, both axes
// logarithmic. The dashed line is what grows in proportion from the first point on, and
// nothing should be steeper; for what should be flat, it is the goal, if there is one.
const (
	inARow      = 3
	panelWidth  = 260
	panelHeight = 230
	left        = 62
	right       = 14
	top         = 34
	bottom      = 40
)

func (g *growth) picture(s sweep) string {
	var b strings.Builder
	width := panelWidth * min(len(s.curves), inARow)
	height := panelHeight * ((len(s.curves) + inARow - 1) / inARow)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for i, c := range s.curves {
		xs, ys := g.series(s, c)
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%inARow*panelWidth, i/inARow*panelHeight)
		newPanel(xs, ys, c).draw(&b, s.axis)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// panel maps values to places by their logarithms.
type panel struct {
	curve      curve
	xs, ys     []float64
	minX, maxX float64
	minY, maxY float64
}

func newPanel(xs, ys []float64, c curve) panel {
	p := panel{curve: c, xs: xs, minX: 1, maxX: 1}
	for i, x := range xs {
		y := max(ys[i], 1e-6) // zero has no logarithm
		p.ys = append(p.ys, y)
		if i == 0 {
			p.minX, p.minY, p.maxY = x, y, y
		}
		p.maxX, p.minY, p.maxY = max(p.maxX, x), min(p.minY, y), max(p.maxY, y)
	}
	// Whole decades, and room above and below a flat curve.
	p.minY = math.Pow(10, math.Floor(math.Log10(p.minY/1.2)))
	p.maxY = math.Pow(10, math.Ceil(math.Log10(p.maxY*1.2)))
	return p
}

func (p panel) x(v float64) float64 {
	return left + (panelWidth-left-right)*math.Log(v/p.minX)/math.Log(max(p.maxX/p.minX, 2))
}

func (p panel) y(v float64) float64 {
	return panelHeight - bottom - (panelHeight-top-bottom)*math.Log(v/p.minY)/math.Log(p.maxY/p.minY)
}

func (p panel) draw(b *strings.Builder, axis string) {
	fmt.Fprintf(b, `<text x="%d" y="18" font-weight="bold">%s</text>`+"\n", left-48, html.EscapeString(p.curve.title))
	for y := p.minY; y <= p.maxY*1.01; y *= 10 {
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`, left, panelWidth-right, p.y(y), p.y(y))
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-5, p.y(y)+4, tick(y))
	}
	for i, x := range p.xs {
		if i == len(p.xs)-2 && p.x(p.xs[i+1])-p.x(x) < 30 {
			continue // the last is more interesting
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", p.x(x), panelHeight-bottom+16, tick(x))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n",
		(left+panelWidth-right)/2, panelHeight-8, html.EscapeString(axis))
	p.wanted(b)
	p.points(b)
}

// wanted is the dashed line. It ends where it leaves the panel.
func (p panel) wanted(b *strings.Builder) {
	from, to, endX := p.curve.limit, p.curve.limit, p.maxX
	if !p.curve.flat && len(p.xs) > 0 {
		from = p.ys[0]
		endX = min(p.maxX, p.minX*p.maxY/from)
		to = from * endX / p.minX
	}
	if from < p.minY || to > p.maxY*1.01 {
		return
	}
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#999" stroke-dasharray="4 3"/>`+"\n",
		p.x(p.minX), p.y(from), p.x(endX), p.y(to))
}

func (p panel) points(b *strings.Builder) {
	var places []string
	for i, x := range p.xs {
		places = append(places, fmt.Sprintf("%.1f,%.1f", p.x(x), p.y(p.ys[i])))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="#1f6fb2" stroke-width="2"/>`+"\n", strings.Join(places, " "))
	for i, x := range p.xs {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="#1f6fb2"><title>%s</title></circle>`+"\n",
			p.x(x), p.y(p.ys[i]), rig.Number(p.ys[i]))
	}
}

// tick is short: 10k, 0.01, 1M.
func tick(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%gM", math.Round(v/1e5)/10)
	case v >= 1e3:
		return fmt.Sprintf("%gk", math.Round(v/100)/10)
	default:
		return fmt.Sprintf("%.4g", v)
	}
}
