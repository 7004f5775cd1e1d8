package lockservice

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

type testingT = *testing.T

var (
	simSeeds = flag.Uint64("sim.seeds", 300, "how many seeds the simulation runs")
	simFrom  = flag.Uint64("sim.from", 0, "the first seed of the simulation")
)

func TestSimulatedServices(t *testing.T) {
	counts := make(map[string]int)
	for seed := *simFrom; seed < *simFrom+*simSeeds; seed++ {
		result, n := simRun(t, simConfig(seed))
		if result.Violation != nil {
			require.NoError(t, result.Violation, "seed %d", seed)
		}
		for what, k := range n {
			counts[what] += k
		}
	}
	for what, n := range counts {
		fmt.Println(n, what)
	}
}
