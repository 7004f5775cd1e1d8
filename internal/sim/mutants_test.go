//go:build mutants

package sim

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	mutantSeeds = flag.Int("mutants.seeds", 2000, "how many seeds the simulation may take to find a mutant")
	mutantKeep  = flag.String("mutants.keep", "", "a folder for the short forms of the runs that find mutants")
	mutantDoc   = flag.String("mutants.doc", "", "the file that the table is written into")
	mutantSkip  = flag.Int("mutants.skip", 0, "how many to pass over, from the first")
	mutantOnly  = flag.String("mutants.only", "", "a part of the names of those to try")
)

// suites are the packages whose tests may find a mistake in a package, the
// cheapest first. The simulation is part of the last, and tried on its own.
var suites = map[string][]string{
	rulesPath:  {rulesPath, lanePath, api},
	lanePath:   {lanePath, api},
	leasePath:  {leasePath, api},
	graphPath:  {graphPath, api},
	redisxPath: {redisxPath},
	api:        {api},
}

// Of the service's own tests, those on fake time.
const (
	apiTests = "^(TestConformanceInBubble|TestExecute|TestRenewalWhose|TestTrustIn|TestGrantWhose|TestSubscription|TestForgedWait|TestWaiterOfADead)"
	notThose = "OnRedis"
)

const (
	alive       = "–"
	unreachable = "below what is simulated"
	hangs       = "hangs or panics"
)

func TestEveryMutantIsKilled(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	table := []string{"| mutant | killed by | seeds until the simulation finds it |", "|---|---|---|"}
	soundWithout(t, root)
	for i, m := range mutants {
		if i < *mutantSkip || !strings.Contains(m.name, *mutantOnly) {
			continue
		}
		began := time.Now()
		byTest, bySeed := tryOut(t, root, m)
		fmt.Printf("%-58s %-60s %-12s %4.0f s\n", m.name, byTest, bySeed, time.Since(began).Seconds())
		table = append(table, fmt.Sprintf("| %s | %s | %s |", m.name, asCode(byTest), bySeed))
		if byTest == alive && (bySeed == alive || bySeed == unreachable) {
			t.Errorf("not killed: %s", m.name)
		}
	}
	if *mutantDoc != "" {
		writeTable(t, *mutantDoc, strings.Join(table, "\n"))
	}
}

// soundWithout: what fails without a mutant kills none.
func soundWithout(t *testing.T, root string) {
	for _, dir := range []string{rulesPath, leasePath, graphPath} {
		byTest, bySeed := tryOut(t, root, mutant{edits: []edit{{file: dir}}})
		require.Equal(t, alive, byTest)
		require.Equal(t, alive, bySeed)
	}
}

func asCode(test string) string {
	if strings.HasPrefix(test, "Test") {
		return "`" + test + "`"
	}
	return test
}

// tryOut compiles the tests with the mistake, once for each package, and runs
// them until one fails. The simulation is run in any case.
func tryOut(t *testing.T, root string, m mutant) (byTest, bySeed string) {
	t.Helper()
	dir := t.TempDir()
	overlay := m.overlay(t, root, dir)
	byTest, bySeed = alive, unreachable
	packages := suites[filepath.Dir(m.edits[0].file)+"/"]
	for _, pkg := range packages {
		if byTest != alive && pkg != api {
			continue
		}
		binary := compile(t, root, dir, overlay, pkg)
		if byTest == alive {
			byTest = killer(t, filepath.Join(root, pkg), binary, pkg == api)
		}
		if pkg == api {
			bySeed = seedOf(t, filepath.Join(root, pkg), binary, m.name)
		}
	}
	require.NoError(t, os.RemoveAll(dir))
	return byTest, bySeed
}

// overlay writes the changed files, and what tells the compiler of them.
func (m mutant) overlay(t *testing.T, root, dir string) string {
	t.Helper()
	texts := make(map[string]string)
	for _, e := range m.edits {
		path := filepath.Join(root, e.file)
		if e.from == "" {
			continue
		}
		if _, ok := texts[path]; !ok {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			texts[path] = string(data)
		}
		require.Equal(t, 1, strings.Count(texts[path], e.from), "%s: the code of %s has changed, so has the mutant to", m.name, e.file)
		texts[path] = strings.Replace(texts[path], e.from, e.to, 1)
	}
	replace := make(map[string]string)
	for path, text := range texts {
		file := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		replace[path] = file
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return file
}

func compile(t *testing.T, root, dir, overlay, pkg string) string {
	t.Helper()
	binary := filepath.Join(dir, strings.ReplaceAll(pkg, "/", "-")+"test")
	out, err := run(t, root, 5*time.Minute, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, "./"+pkg)
	require.NoError(t, err, out)
	return binary
}

var failedTest = regexp.MustCompile(`--- FAIL: (\S+)`)

// killer is the first test that fails.
func killer(t *testing.T, dir, binary string, isAPI bool) string {
	t.Helper()
	args := []string{"-test.failfast", "-test.timeout", "120s"}
	if isAPI {
		args = append(args, "-test.run", apiTests, "-test.skip", notThose)
	}
	out, err := run(t, dir, 3*time.Minute, binary, args...)
	switch match := failedTest.FindStringSubmatch(out); {
	case err == nil:
		return alive
	case match == nil:
		return hangs
	default:
		return match[1]
	}
}

var (
	failedSeed = regexp.MustCompile(`seed (\d+)`)
	neverMet   = regexp.MustCompile(`in no run: (.*)`)
)

// seedOf is how many seeds the simulation takes to fail.
func seedOf(t *testing.T, dir, binary, name string) string {
	t.Helper()
	args := []string{"-test.run", "^TestSimulatedServices$", "-test.timeout", "300s", "-sim.seeds", strconv.Itoa(*mutantSeeds)}
	if *mutantKeep != "" {
		file := strings.NewReplacer(" ", "-", "'", "").Replace(name) + ".json"
		args = append(args, "-sim.shrink", filepath.Join(*mutantKeep, file))
	}
	out, err := run(t, dir, 6*time.Minute, binary, args...)
	match := failedSeed.FindStringSubmatch(out)
	switch never := neverMet.FindStringSubmatch(out); {
	case err == nil:
		return alive
	case never != nil:
		return fmt.Sprintf("%d, by what never happened: %s", *mutantSeeds, never[1])
	case match == nil:
		return hangs
	}
	seed, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return strconv.Itoa(seed + 1)
}

func run(t *testing.T, dir string, limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const (
	tableBegins = "<!-- mutants: begin; written by make mutants -->\n"
	tableEnds   = "<!-- mutants: end -->"
)

func writeTable(t *testing.T, file, table string) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(data), tableBegins)
	require.True(t, ok, "%s has no place for the table", file)
	_, after, ok := strings.Cut(rest, tableEnds)
	require.True(t, ok, "%s has no end of the table", file)
	require.NoError(t, os.WriteFile(file, []byte(before+tableBegins+table+"\n"+tableEnds+after), 0o600))
}
