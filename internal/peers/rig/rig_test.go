package rig

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuantileOfFewValues(t *testing.T) {
	t.Parallel()
	require.Equal(t, 0.0, Median(nil))
	require.Equal(t, 3.0, Median([]float64{5, 3, 1}))
	require.Equal(t, 5.0, Quantile([]float64{5, 3, 1}, 0.99))
}

func TestNumbersAreReadable(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]float64{"–": -1, "0": 0, "0.012": 0.0123, "7": 7, "7.04": 7.04, "12.3": 12.34, "123": 123.4, "1,234,567": 1234567} {
		require.Equal(t, want, Number(v))
	}
}

func TestDocumentKeepsWhatIsOutsideTheMarks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "doc.md")
	const begin, end = "<!-- x: begin; written by make x -->\n", "<!-- x: end -->\n"
	require.NoError(t, os.WriteFile(file, []byte("before\n"+begin+"old\n"+end+"after\n"), 0o600))
	require.NoError(t, ReplaceIn(file, "x", "new\n"))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "before\n"+begin+"new\n"+end+"after\n", string(text))
	require.ErrorContains(t, ReplaceIn(file, "y", "new\n"), "has no marks of y")
}
