package rig

import (
	"fmt"
	"strings"
)

// Number writes a figure as a table shows it; what is below zero was not measured.
func Number(v float64) string {
	switch {
	case v < 0:
		return "–"
	case v > 0 && v < 1:
		return fmt.Sprintf("%.2g", v)
	case v < 10 && v != float64(int(v)):
		return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
	case v < 100:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	case v < 1000:
		return fmt.Sprintf("%.0f", v)
	default:
		text := fmt.Sprintf("%.0f", v)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	}
}
