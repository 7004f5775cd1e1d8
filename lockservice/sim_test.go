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
	simLog   = flag.Bool("sim.log", false, "write what happened in a run that fails")
	simFrom  = flag.Uint64("sim.from", 0, "the first seed of the simulation")
)

func TestSimulatedServices(t *testing.T) {
	counts := make(map[string]int)
	for seed := *simFrom; seed < *simFrom+*simSeeds; seed++ {
		cfg := simConfig(seed)
		cfg.Log = *simLog
		result, n := simRun(t, cfg)
		if result.Violation != nil {
			for _, line := range result.Log {
				t.Log(line)
			}
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

func TestSimSameTrace(t *testing.T) {
	bad := 0
	for seed := *simFrom; seed < *simFrom+*simSeeds; seed++ {
		cfg := simConfig(seed)
		cfg.Log = true
		a, _ := simRun(t, cfg)
		b, _ := simRun(t, cfg)
		if a.Trace != b.Trace {
			bad++
			if bad <= 3 {
				for i := range a.Log {
					if i >= len(b.Log) || a.Log[i] != b.Log[i] {
						for k := max(0, i-12); k < i+3 && k < len(a.Log) && k < len(b.Log); k++ {
							t.Logf("seed %d %d: %-60s | %s", seed, k, a.Log[k], b.Log[k])
						}
						break
					}
				}
			}
		}
	}
	t.Logf("%d differ", bad)
}
