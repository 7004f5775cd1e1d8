package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A mistake that can't be put into the code any more would pass for one that is found.
func TestEveryMutantHasItsPlaceInTheCode(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		for _, e := range m.edits {
			if e.from == "" {
				continue
			}
			data, err := os.ReadFile(filepath.Join("..", "..", e.file))
			require.NoError(t, err)
			assert.Equal(t, 1, strings.Count(string(data), e.from), "%s: the code of %s has changed, so has the mutant to", m.name, e.file)
		}
	}
}
