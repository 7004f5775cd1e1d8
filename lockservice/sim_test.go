package lockservice

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/sim"
)

type testingT = *testing.T

// The ordinary tests run a few seeds; make sim runs many.
var (
	simSeeds  = flag.Uint64("sim.seeds", 150, "how many seeds the simulation runs")
	simFrom   = flag.Uint64("sim.from", 0, "the first seed of the simulation")
	simSteps  = flag.Int("sim.steps", 250, "how many things happen in a run of the simulation")
	simPairs  = flag.Uint64("sim.pairs", 40, "how many seeds are run twice, and compared")
	simLog    = flag.Bool("sim.log", false, "the simulation writes what happened in a run that failed")
	simShrink = flag.String("sim.shrink", "", "where the simulation keeps the short form of a run that failed")
)

// simBlock is how many runs are enough for every state to have been reached.
const simBlock = 2000

// oneAtATime is for runs that are to be the same again. A collection of garbage
// stops goroutines wherever they are and sends them to the end of the queue, so it
// has to wait for [between]; the limit is for a run that never ends.
func oneAtATime(t *testing.T) {
	procs, percent, limit := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1), debug.SetMemoryLimit(2<<30)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(procs)
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}

// between collects garbage now and then. A run leaves one or two megabytes.
func between(run uint64) {
	if run%32 == 0 {
		runtime.GC()
	}
}

// simSometimes are the states that the simulation has to reach, besides the facts
// of package sim.
var simSometimes = []string{
	"a call was served", "a call was not served", "a caller left", "a deadlock was broken", "a lock was lost",
	"redis was unavailable", "a call met a hold-off", "a reader stepped down for a writer", "a job ran",
	"a job was skipped", "a job lost its lock", "a read lock was upgraded", "several locks were acquired together",
	"all locks were reused", "two held a read lock together", "code ran on without its lock",
	"a storage refused a late write", "a cycle stood without faults", "a service closed while it was used", "a call met a closed service",
}

func TestSimulatedServices(t *testing.T) {
	oneAtATime(t)
	counts := make(map[string]int)
	tell := simProgress()
	for seed := *simFrom; seed < *simFrom+*simSeeds; seed++ {
		cfg := simConfig(seed)
		cfg.Log = *simLog
		between(seed)
		result, n := simRun(t, cfg)
		if result.Violation != nil {
			simFailed(t, result)
		}
		for what, k := range n {
			counts[what] += k
		}
		tell(seed)
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%8d %s", counts[what], what)
	}
	if *simSeeds >= simBlock {
		simRequireAll(t, counts)
	}
}

// simRequireAll: what never happened was not tested.
func simRequireAll(t *testing.T, counts map[string]int) {
	for _, what := range simSometimes {
		require.Positive(t, counts[what], "in no run: %s", what)
	}
	for _, fact := range sim.AllFacts() {
		if fact == sim.NoWatch {
			continue // the lane reads again whenever it has lost its connection
		}
		require.Positive(t, counts[string(fact)], "in no run: %s", fact)
	}
}

// simProgress tells of a long exploration that it goes on.
func simProgress() func(seed uint64) {
	began, told := time.Now(), time.Now()
	return func(seed uint64) {
		last := seed+1 == *simFrom+*simSeeds
		if *simSeeds < simBlock || !last && time.Since(told) < 20*time.Second {
			return
		}
		told = time.Now()
		done := seed + 1 - *simFrom
		fmt.Printf("seeds %d to %d: %d explored, %.0f a second, no violation\n", *simFrom, *simFrom+*simSeeds-1, done, float64(done)/time.Since(began).Seconds())
	}
}

// simCase is a run that once failed.
type simCase struct {
	Found   string // what was wrong
	Seed    uint64
	Choices []int
}

// simAgain says whether the seed fails again. If the Go scheduler has had a hand
// in it, it may not; then the choices are what there is to go by.
func simAgain(t *testing.T, result sim.Result) {
	again, _ := simRun(t, simConfig(result.Seed))
	t.Logf("seed %d again: the same run: %v; %v", result.Seed, again.Trace == result.Trace, again.Violation)
	cfg := simConfig(result.Seed)
	cfg.Choices, cfg.Log = result.Choices, true
	replayed, _ := simRun(t, cfg)
	t.Logf("its choices again: the same run: %v; %v\nchoices: %v", replayed.Trace == result.Trace, replayed.Violation, result.Choices)
	if replayed.Trace == result.Trace {
		t.Log(strings.Join(replayed.Log, "\n"))
	}
}

func simFailed(t *testing.T, result sim.Result) {
	for _, line := range result.Log {
		t.Log(line)
	}
	simAgain(t, result)
	if *simShrink != "" {
		short := sim.Shrink(result.Choices, func(choices []int) bool {
			cfg := simConfig(result.Seed)
			cfg.Choices = choices
			again, _ := simRun(t, cfg)
			return again.Violation != nil
		})
		data, err := json.Marshal(simCase{Found: result.Violation.Error(), Seed: result.Seed, Choices: short})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(*simShrink, data, 0o600))
	}
	require.NoError(t, result.Violation, "seed %d", result.Seed)
}

// TestRunsThatOnceFailedAreSound replays what was found before.
func TestRunsThatOnceFailedAreSound(t *testing.T) {
	oneAtATime(t)
	files, err := filepath.Glob("testdata/sim/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var c simCase
		require.NoError(t, json.Unmarshal(data, &c))
		cfg := simConfig(c.Seed)
		cfg.Choices = c.Choices
		result, _ := simRun(t, cfg)
		require.NoError(t, result.Violation, "%s: %s", file, c.Found)
	}
}

// simSlice is after what time on its core the Go runtime takes a goroutine off it,
// and counts the time in which the system had taken the whole process off. Who was
// to go on goes to the end of the queue then, which is a difference that no seed
// makes. Runs take less, so what took longer and differs is tried again.
const simSlice = 10 * time.Millisecond

func simIsTheSame(t *testing.T, seed uint64) bool {
	for range 50 {
		began := time.Now()
		first, again := simTwice(t, seed, false)
		if first.Trace == again.Trace {
			return true
		}
		if time.Since(began) < simSlice {
			return false
		}
	}
	return false
}

func simTwice(t *testing.T, seed uint64, log bool) (first, again sim.Result) {
	cfg := simConfig(seed)
	cfg.Log = log
	first, _ = simRun(t, cfg)
	again, _ = simRun(t, cfg)
	return first, again
}

// firstDifference is where two logs part, and what came before.
func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%s\n--- the one:\n%s\n--- the other:\n%s", strings.Join(a[max(i-12, 0):i], "\n"),
				strings.Join(a[i:min(i+6, len(a))], "\n"), strings.Join(b[i:min(i+6, len(b))], "\n"))
		}
	}
	return fmt.Sprintf("one ends after %d lines, the other after %d", len(a), len(b))
}

func TestSameSeedIsTheSameRun(t *testing.T) {
	oneAtATime(t)
	differ := []string{}
	for seed := range *simPairs {
		between(seed)
		if !simIsTheSame(t, *simFrom+seed) {
			differ = append(differ, fmt.Sprint(*simFrom+seed))
			first, again := simTwice(t, *simFrom+seed, true) // where chance decides, they may be the same this time
			t.Log(firstDifference(first.Log, again.Log))
		}
	}
	t.Logf("%d of %d differ: %v", len(differ), *simPairs, differ)
	if !simRace {
		require.Empty(t, differ)
		return
	}
	// Under the race detector the Go scheduler draws lots for who runs next. Where one
	// answer wakes several callers of a node, they go on in any order then, and that is
	// a difference: of the order in which they queue again, not of what is right.
	require.LessOrEqual(t, len(differ), int(*simPairs)/4, "%v", differ)
}
