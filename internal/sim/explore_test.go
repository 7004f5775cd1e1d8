package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// toyConfig has times about the toy's lease.
func toyConfig(seed uint64) Config {
	return Config{
		Seed:    seed,
		Steps:   300,
		Times:   []time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 6 * time.Second, toyLease - time.Millisecond, toyLease, toyLease + time.Millisecond},
		Without: toyFaults,
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	t.Parallel()
	traces := make(map[uint64]bool)
	const seeds = 50
	for seed := range uint64(seeds) {
		first := Explore(t, toyConfig(seed), toyLocks(5, mistakes{}))
		again := Explore(t, toyConfig(seed), toyLocks(5, mistakes{}))
		require.NoError(t, first.Violation)
		require.Equal(t, first, again)
		replay := toyConfig(seed)
		replay.Choices = first.Choices
		require.Equal(t, first, Explore(t, replay, toyLocks(5, mistakes{})), "a list of choices is as good as the seed")
		traces[first.Trace] = true
	}
	require.Len(t, traces, seeds, "each seed is another run")
}

// notToyFacts are what the toys never meet, by toyFaults or because they do nothing
// of the kind. Everything else must have happened.
var notToyFacts = []Fact{PartlyApplied, NoWatch, Flushed, KeyEvicted, FailedOver, ClockBack, ClockForward}

func TestSchedulerReachesEveryRareState(t *testing.T) {
	t.Parallel()
	facts := make(map[Fact]int)
	for seed := range uint64(300) {
		cfg := toyConfig(1000 + seed)
		cfg.Liveness = seed%2 == 0
		result := Explore(t, cfg, toyLocks(5, mistakes{}))
		require.NoError(t, result.Violation, "seed %d", cfg.Seed)
		for fact, n := range result.Facts {
			facts[fact] += n
		}
	}
	for _, fact := range notToyFacts {
		require.Zero(t, facts[fact], fact)
		facts[fact] = 1
	}
	for _, fact := range AllFacts() {
		t.Logf("%6d %s", facts[fact], fact)
		require.Positive(t, facts[fact], "in no run: %s", fact)
	}
}

func TestMenuReachesWhatTheToysCannotSurvive(t *testing.T) {
	t.Parallel()
	facts := make(map[Fact]int)
	for seed := range uint64(100) {
		cfg := toyConfig(seed)
		cfg.Without = nil
		for fact, n := range Explore(t, cfg, toyLocks(5, mistakes{})).Facts {
			facts[fact] += n
		}
	}
	for _, fact := range notToyFacts {
		if fact != NoWatch {
			require.Positive(t, facts[fact], "in no run: %s", fact)
		}
	}
}

// TestSchedulerFindsMistakes is the proof that the search bites.
func TestSchedulerFindsMistakes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		wrong    mistakes
		liveness bool
	}{
		{"an unknown outcome counts as granted", mistakes{believesUnknown: true}, false},
		{"trust from the reply", mistakes{trustsFromReply: true}, false},
		{"release without looking", mistakes{releasesBlindly: true}, false},
		{"no hold-off after a restart", mistakes{ignoresRestart: true}, false},
		{"waits for a message that may be lost", mistakes{waitsForWakeUps: true}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(2000) {
				cfg := toyConfig(seed)
				cfg.Liveness = c.liveness
				if result := Explore(t, cfg, toyLocks(5, c.wrong)); result.Violation != nil {
					requireShrinks(t, cfg, c.wrong, result)
					t.Logf("seed %d", seed)
					return
				}
			}
			require.Fail(t, "not found")
		})
	}
}

// requireShrinks has a failing run reduced, and the rest fail the same way.
func requireShrinks(t *testing.T, cfg Config, wrong mistakes, result Result) {
	fails := func(choices []int) bool {
		cfg.Choices = choices
		again := Explore(t, cfg, toyLocks(5, wrong))
		return again.Violation != nil && again.Violation.Error() == result.Violation.Error()
	}
	short := Shrink(result.Choices, fails)
	require.True(t, fails(short))
	require.Less(t, len(short), len(result.Choices))
	t.Logf("%v: %d choices, shrunk to %v", result.Violation, len(result.Choices), short)
}

func TestShrinkKeepsOnlyWhatIsNeeded(t *testing.T) {
	t.Parallel()
	fails := func(choices []int) bool {
		three, seven := false, false
		for _, c := range choices {
			three = three || c == 3
			seven = seven || three && c == 7
		}
		return seven
	}
	require.Equal(t, []int{3, 7}, Shrink([]int{1, 9, 3, 3, 0, 4, 2, 7, 7, 5, 0, 0}, fails))
}

func TestClientCodeThatFailsEndsTheRun(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	result := Explore(t, Config{Log: true}, func(w *World) {
		p := w.Port("n")
		acted := false
		w.Act("mine", 1000, func() { acted = true })
		w.Go("n", func(ctx context.Context) {
			for ctx.Err() == nil {
				_, _, err := p.Exchange(ctx, nil, []string{toyKey})
				if err == nil && acted {
					w.Fail(wrong)
				}
			}
		})
	})
	require.ErrorIs(t, result.Violation, wrong)
	require.NotEmpty(t, result.Log)
}
