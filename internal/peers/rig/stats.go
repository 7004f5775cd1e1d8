package rig

import (
	"slices"
	"time"
)

// Quantile is the value that a part of the values, 0 to 1, doesn't exceed.
func Quantile(values []float64, part float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)]
}

// Median is the middle one.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Micros is a duration in microseconds.
func Micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// Repeat does something over and over for a while, after a few times to warm up, and
// returns how long each took, in microseconds.
func Repeat(long time.Duration, do func() error) ([]float64, error) {
	for range 50 {
		if err := do(); err != nil {
			return nil, err
		}
	}
	var took []float64
	for end := time.Now().Add(long); time.Now().Before(end); {
		began := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		took = append(took, Micros(time.Since(began)))
	}
	return took, nil
}
