package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExponentTellsFlatFromProportional(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 0, exponent([]float64{1, 10, 100}, []float64{9, 7, 7}), 1e-9)
	require.InDelta(t, 1, exponent([]float64{1, 10, 100}, []float64{1, 3, 30}), 1e-9)
	require.InDelta(t, 2, exponent([]float64{10, 100}, []float64{2, 200}), 1e-9)
}

func TestPictureIsWholeAndStaysInItsPanels(t *testing.T) {
	t.Parallel()
	s := sweep{key: "s", axis: "a < b", xs: []int{1, 10, 100}, curves: []curve{{value: "v", title: "v & w"}}}
	g := &growth{}
	for i, x := range s.xs {
		g.points = append(g.points, point{"s", x, 0, values{"v": float64(i * i * 300)}})
	}
	text := g.picture(s)
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	xs, ys := g.series(s, s.curves[0])
	p := newPanel(xs, ys, s.curves[0])
	for i, x := range p.xs {
		require.GreaterOrEqual(t, p.x(x), float64(left))
		require.LessOrEqual(t, p.x(x), float64(panelWidth-right)+1e-9)
		require.GreaterOrEqual(t, p.y(p.ys[i]), float64(top))
		require.LessOrEqual(t, p.y(p.ys[i]), float64(panelHeight-bottom))
	}
}
