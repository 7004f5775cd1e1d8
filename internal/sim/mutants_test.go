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
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A mutant is a mistake that somebody could make. The suite has to find it: what
// no test notices, no test protects. The product has no switches for them: the
// compiler is given another version of the file.
type mutant struct {
	name  string
	edits []edit
}

type edit struct{ file, from, to string }

func change(name, file, from, to string) mutant { return mutant{name, []edit{{file, from, to}}} }

const (
	lanePath  = "internal/lane/"
	rulesPath = "internal/lockrules/"
	api       = "lockservice/"
)

var mutants = []mutant{
	change("a conflict counts as a commit", lanePath+"carry.go", "\t\tcase committed:", "\t\tcase committed || true:"),
	change("an unknown outcome counts as a commit", lanePath+"carry.go", "\t\tcase err != nil:\n\t\t\tl.fail(b, p, err)\n\t\t\treturn\n\t\tcase committed:", "\t\tcase err != nil:\n\t\t\tl.snap = nil\n\t\t\tl.snap = p.s\n\t\t\tl.answer(p)\n\t\t\tl.snap = nil\n\t\t\treturn\n\t\tcase committed:"),
	change("trust counts from the reply", lanePath+"snapshot.go", "asked: asked, replied: replied", "asked: replied, replied: replied"),
	change("trust is longer than the lease", "internal/lease/lease.go", "return asked + lease - Margin(lease)", "return asked + lease + Margin(lease)"),
	change("a lapse is judged by the reader's own idea of a lease", rulesPath+"record.go", "return h != nil && now < h.end(now)", "return h != nil && now < h.AcquiredAt+h.LeaseMillis"),
	{"a late renewal brings a lost lock back", []edit{
		{api + "acquisition.go", "return !a.lose(now, a.overReason(now), nil) && a.state.Load() == stateHeld", "return false"},
		{api + "acquisition.go", "if a.state.Load() != stateHeld || now >= time.Duration(a.trustEnd.Load()) {", "if a.state.Load() != stateHeld || now >= end {"},
		{api + "keeper.go", "if now >= time.Duration(a.trustEnd.Load()) {", "if now >= time.Duration(a.trustEnd.Load())+a.lease {"},
		{api + "keeper.go", "time.Duration(a.trustEnd.Load())-now)", "time.Duration(a.trustEnd.Load())-now+a.lease)"},
		{api + "keeper.go", "stop := min(next, time.Duration(a.trustEnd.Load()))", "stop := next"},
	}},
	change("a renewal brings a lapsed holding back", rulesPath+"release.go", "|| !h.Alive(now) || h.Renewals", "|| h.Renewals"),
	change("a renewal takes an older record for its own", rulesPath+"release.go", " || h.Renewals < ren.Seen", ""),
	change("a release doesn't look whose lock it is", rulesPath+"release.go", "\tcase h == nil:\n\t\treturn rec, Missing, false", "\tcase h == nil && rec.WriteOwner != nil:\n\t\tc := rec.clone()\n\t\tc.WriteOwner = nil\n\t\treturn c, Done, true\n\tcase h == nil:\n\t\treturn rec, Missing, false"),
	change("a release lets go of the first lock only", lanePath+"effects.go", "\tout := outcome{met: lockrules.Done}\n\tfor _, name := range o.names {", "\tout := outcome{met: lockrules.Done}\n\tfor _, name := range o.names[:1] {"),
	change("no hold-off", lanePath+"plan.go", "\tif p.standing.Until > ms {", "\tif false {"),
	change("no hold-off after a restart with its data", rulesPath+"server.go", "OtherServer, now+next.LeaseMillis, &next", "OtherServer, now, &next"),
	change("no hold-off after a loss of data", rulesPath+"server.go", "case remembered == nil && known:", "case false:"),
	change("no hold-off while the server is young", rulesPath+"server.go", "up < lease+1000 {", "up < 0 {"),
	change("a renewal doesn't notice another run of the server", lanePath+"effects.go", "case p.s.seen.RunID != o.runID:", "case false:"),
	{"a withdrawal doesn't write", []edit{
		{lanePath + "queue.go", "u.gone, u.force = true, true", "u.gone, u.force = true, false"},
		{lanePath + "plan.go", "p.l.doubt[name]; doubt {", "p.l.doubt[name]; doubt && false {"},
	}},
	change("what a caller who has left was granted stays granted", lanePath+"answer.go", "l.goneLocked(a, a.out.granted)", "l.goneLocked(a, false)"),
	change("a mark never lapses", rulesPath+"record.go", "func (m *Mark) Alive(now Millis) bool { return now < m.end(now) }", "func (m *Mark) Alive(now Millis) bool { return true }"),
	change("a mark stays when its waiter leaves", lanePath+"carry.go", "\t\tfor _, name := range o.names {\n\t\t\tl.touched[name] = struct{}{}\n\t\t}", ""),
	change("readers overtake waiting writers", rulesPath+"grant.go", "if want == Read && !ownsIt {", "if want == Read && !ownsIt && want == Write {"),
	change("an upgrade waits for its own read lock", rulesPath+"grant.go", "return id == a.ID || slices.Contains(a.Chain, id)", "return id == a.ID && slices.Contains([]string{id}, id)"),
	change("tokens start from the record alone", rulesPath+"grant.go", "token = int64(now)", "token = 1"),
	change("tokens are the time alone", rulesPath+"grant.go", "token = max(token, recs[i].FencingToken+1)", "_ = recs[i]"),
	change("no poll", lanePath+"form.go", "if l.wakeAll || len(l.parked.all) > 0 && now >= l.pollAt {", "if l.wakeAll {"),
	change("nobody is told of a release", lanePath+"effects.go", "\t\tif !w.opened {", "\t\tif true {"),
	change("a waiter is granted after its deadline", lanePath+"handover.go", "\tif p.t >= o.patience {\n\t\treturn false", "\tif p.t >= o.patience+1<<62 {\n\t\treturn false"),
	change("code starts on what is left of a late grant", api+"acquire.go", "if lease.Worthwhile(", "if true || lease.Worthwhile("),
	change("a job trusts one answer for as long as it may run", api+"acquisition.go", "return min(lease, s.cfg.lease)", "return lease"),
	change("deadlocks have no victim", api+"confirm.go", "mine = append(mine, key.ID)", "_ = key.ID"),
	change("an old snapshot answers who is refused", lanePath+"carry.go", "if p.writes.Empty() && ahead", "if false && ahead"),
	change("a corrupt record is an empty one", lanePath+"snapshot.go", "return &entry{err: &Corrupt{Key: key, Err: err}}\n\t}\n\treturn &entry{rec: rec", "return &entry{rec: lockrules.Empty(name)}\n\t}\n\treturn &entry{rec: rec"),
}

var (
	mutantSeeds = flag.Int("mutants.seeds", 900, "how many seeds the simulation may take to find a mutant")
	mutantKeep  = flag.String("mutants.keep", "", "a folder for the short forms of the runs that find mutants")
	mutantSkip  = flag.Int("mutants.skip", 0, "how many to pass over, from the first")
	mutantOnly  = flag.String("mutants.only", "", "a part of the names of those to try")
)

func TestEveryMutantIsKilled(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	fmt.Printf("%-62s %-58s %s\n", "mutant", "killed by", "simulation")
	for i, m := range mutants {
		if i < *mutantSkip || !strings.Contains(m.name, *mutantOnly) {
			continue
		}
		overlay := m.overlay(t, root)
		byTest := killer(t, root, overlay, "./internal/lockrules", "./internal/lane")
		if byTest == "-" {
			byTest = killer(t, root, overlay, "./lockservice", "-run", "^TestRenewalWhose|^TestTrustIn")
		}
		bySeed := seedOf(t, root, overlay, m.name)
		fmt.Printf("%-62s %-58s %s\n", m.name, byTest, bySeed)
		if byTest == "-" && bySeed == "-" {
			t.Errorf("not killed: %s", m.name)
		}
	}
}

// overlay writes the changed files, and what tells the compiler of them.
func (m mutant) overlay(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	texts := make(map[string]string)
	for _, e := range m.edits {
		path := filepath.Join(root, e.file)
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

var failedTest = regexp.MustCompile(`--- FAIL: (\S+)`)

// killer is the first test that fails, or "-".
func killer(t *testing.T, root, overlay string, packages ...string) string {
	t.Helper()
	args := append([]string{"test", "-vet=off", "-overlay", overlay, "-failfast", "-timeout", "60s"}, packages...)
	out, err := goTool(t, root, args...)
	require.NotContains(t, out, "[build failed]", "%s", out)
	switch match := failedTest.FindStringSubmatch(out); {
	case err == nil:
		return "-"
	case match == nil:
		return "hangs or panics"
	default:
		return match[1]
	}
}

var failedSeed = regexp.MustCompile(`seed (\d+)`)

// seedOf is the first seed of the simulation that fails, or "-".
func seedOf(t *testing.T, root, overlay, name string) string {
	t.Helper()
	args := []string{"test", "-vet=off", "-overlay", overlay, "-run", "^TestSimulatedServices$", "-timeout", "180s",
		"./lockservice", "-args", "-sim.explore", "-sim.seeds", fmt.Sprint(*mutantSeeds)}
	if *mutantKeep != "" {
		file := strings.NewReplacer(" ", "-", "'", "").Replace(name) + ".json"
		args = append(args, "-sim.shrink", filepath.Join(*mutantKeep, file))
	}
	out, err := goTool(t, root, args...)
	require.NotContains(t, out, "[build failed]", "%s", out)
	switch match := failedSeed.FindStringSubmatch(out); {
	case err == nil:
		return "-"
	case match == nil:
		return "hangs or panics"
	default:
		return "seed " + match[1]
	}
}

func goTool(t *testing.T, root string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
