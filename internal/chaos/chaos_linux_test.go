package chaos_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/chaos"
	"github.com/redislockservice/redislockservice/lockservice"
)

// TestChaos runs four worker processes on three names while one thing breaks each
// second, in rounds: storm, calm, then everything is checked. CHAOS_DUR is how long
// in total (make chaos DUR=1h); the default is two short rounds. CHAOS_SEED repeats
// the draws of a run, though not its schedules. CHAOS_DIR keeps the histories.
func TestChaos(t *testing.T) {
	storm, rounds := 20*time.Second, 2
	if text := os.Getenv("CHAOS_DUR"); text != "" {
		total, err := time.ParseDuration(text)
		require.NoError(t, err)
		storm = 40 * time.Second
		rounds = max(2, int(total/(55*time.Second)))
	}
	seed := rand.Uint64()
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		_, err := fmt.Sscan(text, &seed)
		require.NoError(t, err)
	}
	t.Logf("CHAOS_SEED=%d", seed)
	sum := &summary{counts: make(map[string]int)}
	for n := range rounds {
		t.Run(fmt.Sprintf("round %d", n+1), func(t *testing.T) { oneRound(t, seed+uint64(n), n, storm, sum) })
		if t.Failed() {
			return
		}
	}
	sum.report(t)
	sum.requireBite(t)
}

func oneRound(t *testing.T, seed uint64, n int, storm time.Duration, sum *summary) {
	t.Helper()
	lease := []time.Duration{1500 * time.Millisecond, time.Second, 2 * time.Second}[n%3]
	dir := t.TempDir()
	if keep := os.Getenv("CHAOS_DIR"); keep != "" {
		dir = filepath.Join(keep, fmt.Sprintf("round-%d", n+1))
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	storage := new(chaos.Storage)
	c := newController(t, seed, lease, n%2 == 1, dir, storage)
	began := time.Now()
	c.storm(storm)
	c.heal()
	quiet := c.calm(5 * time.Second)
	c.drain()
	c.noLeaks()
	c.quit()
	c.heardErrors()
	h := c.history()
	t.Logf("round %d: lease %v, AOF %v, %d faults, %d calls in %v", n+1, lease, c.aof, len(c.log), len(h.Attempts), time.Since(began).Round(time.Second))
	sum.add(c, h, c.judge(h, quiet))
	if t.Failed() {
		t.Logf("what was broken:\n%s", strings.Join(c.log, "\n"))
	}
}

// calm lets everybody work while nothing is broken, and returns when that was. It
// begins a lease and some polls later: dead processes are in the way until then.
func (c *controller) calm(d time.Duration) chaos.Span {
	c.settleFor(c.lease + 3*pollDelay)
	from := monotonic()
	c.settleFor(d)
	return chaos.Span{From: from, To: monotonic()}
}

func (c *controller) settleFor(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond) // poll: nothing is expected but that time passes
	}
}

// drain lets every call come to its end.
func (c *controller) drain() {
	for _, p := range c.places {
		p.proc.do("drain")
	}
	for _, p := range c.places {
		if _, said := p.proc.within(time.Minute, "drained"); !said {
			c.t.Errorf("a call of %s has not ended a minute after everything was whole again", p.proc.cfg.Name)
		}
	}
}

// noLeaks: nobody holds, nobody is said to wait, no key is left that shouldn't be.
func (c *controller) noLeaks() {
	svc, err := lockservice.Open(c.t.Context(), c.server.URL(), lockservice.WithKeyPrefix(prefix), lockservice.WithLeaseTime(c.lease))
	require.NoError(c.t, err)
	defer func() { require.NoError(c.t, svc.Close(c.t.Context())) }()
	names := append([]string{jobName, longName}, lockNames...)
	c.until(2*c.lease+6*pollDelay+10*time.Second, "after all calls have ended, no record says that somebody holds or waits", func() bool {
		infos, err := svc.GetLockInfo(c.t.Context(), names)
		require.NoError(c.t, err)
		return !slices.ContainsFunc(infos, inUse)
	})
	msg := c.server.Do(c.t, "KEYS", "*")
	keys, err := msg.AsStrSlice()
	require.NoError(c.t, err)
	for _, key := range keys {
		if key == "{"+prefix+"}:server" || strings.HasPrefix(key, "filler:") {
			continue
		}
		msg := c.server.Do(c.t, "PTTL", key)
		left, err := msg.AsInt64()
		require.NoError(c.t, err)
		if left == -1 || left > time.Minute.Milliseconds() { // -2: it is gone by now
			c.t.Errorf("the key %q is left, for %d ms", key, left)
		}
	}
}

func inUse(info lockservice.LockInfo) bool {
	held := func(h lockservice.LockHolding) bool { return h.ExpiresAtEpochMillis != nil }
	return info.WriteOwner != nil && held(*info.WriteOwner) || slices.ContainsFunc(info.ReadOwners, held) || len(info.Waiting) > 0
}

// quit ends the processes, and looks at what they leave behind.
func (c *controller) quit() {
	for _, p := range c.places {
		p.proc.do("quit")
	}
	for _, p := range c.places {
		if _, said := p.proc.within(30*time.Second, "closed"); !said {
			c.t.Errorf("%s could not close its service", p.proc.cfg.Name)
		}
	}
	c.until(20*time.Second, "no connection is left", func() bool {
		msg := c.server.Do(c.t, "CLIENT", "LIST")
		text, err := msg.ToString()
		require.NoError(c.t, err)
		return !strings.Contains(text, "name=lockservice")
	})
}

// heardErrors shows what the processes wrote to their standard error: panics, data
// races, goroutines left over.
func (c *controller) heardErrors() {
	for _, p := range c.procs {
		p.kill() // its output is complete then
		if text := p.errors.String(); text != "" {
			c.t.Errorf("%s wrote:\n%s", p.cfg.Name, text)
		}
	}
}

// judge runs all checkers.
func (c *controller) judge(h *chaos.History, quiet chaos.Span) chaos.Verdict {
	v := chaos.Exclusion(h, c.admitted)
	all := slices.Clone(v.Violations)
	all = append(all, chaos.Fencing(h, c.admitted)...)
	if v.Admitted == 0 {
		all = append(all, chaos.Linear(h, time.Minute)...)
	}
	all = append(all, chaos.Deadlocks(h, chaos.Terms{Lease: c.lease, Lapse: 3*pollDelay + 500*time.Millisecond, Within: 3 * time.Second, Quiet: []chaos.Span{quiet}})...)
	all = append(all, chaos.Answered(h, 2*opTimeout+5*time.Second, c.stopped)...)
	var names []string
	for _, p := range c.places {
		names = append(names, p.proc.cfg.Name)
	}
	all = append(all, chaos.Served(h, quiet, names)...)
	all = append(all, chaos.Idle(h, quiet, c.lease, pollDelay+1500*time.Millisecond)...)
	all = append(all, chaos.Jobs(h, c.losses)...)
	for _, violation := range all {
		c.t.Error(violation)
	}
	if lost := c.storage.Totals(true).Lost; lost > 0 {
		c.t.Errorf("%d updates of the fenced storage were lost", lost)
	}
	return v
}

// summary is what all rounds together have met.
type summary struct {
	counts   map[string]int
	grants   int
	losses   int
	gap      time.Duration
	admitted time.Duration
	together int
	victims  int
	open     chaos.Totals
	fenced   chaos.Totals
	outcomes map[string]int
}

func (s *summary) add(c *controller, h *chaos.History, v chaos.Verdict) {
	for name, n := range c.counts {
		s.counts[name] += n
	}
	if s.outcomes == nil {
		s.outcomes = make(map[string]int)
	}
	for _, a := range h.Attempts {
		s.outcomes[a.Outcome]++
		if a.Held() {
			s.grants++
		}
	}
	if v.Losses > 0 && (s.losses == 0 || v.Gap < s.gap) {
		s.gap = v.Gap
	}
	s.losses += v.Losses
	s.admitted = max(s.admitted, v.Admitted)
	s.together = max(s.together, chaos.Together(h))
	s.victims += chaos.Victims(h)
	addTotals(&s.open, c.storage.Totals(false))
	addTotals(&s.fenced, c.storage.Totals(true))
}

func addTotals(sum *chaos.Totals, t chaos.Totals) {
	sum.Writes += t.Writes
	sum.Refused += t.Refused
	sum.Lost += t.Lost
}

func (s *summary) report(t *testing.T) {
	t.Helper()
	t.Logf("%d grants; outcomes of other calls: %v", s.grants, s.outcomes)
	t.Logf("%d grants after a loss, the closest %v after the last HasLock that was true", s.losses, s.gap)
	t.Logf("longest overlap where one is admitted: %v", s.admitted)
	t.Logf("up to %d readers together; %d victims of deadlocks", s.together, s.victims)
	t.Logf("storage without fencing: %+v; with: %+v", s.open, s.fenced)
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		t.Logf("%5d × %s", s.counts[name], name)
	}
}

// requireBite: a run that met nothing has shown nothing.
func (s *summary) requireBite(t *testing.T) {
	t.Helper()
	require.Positive(t, s.grants)
	require.Positive(t, s.losses, "no lock was lost and taken over")
	require.Greater(t, s.together, 1, "readers never shared")
	require.Positive(t, s.victims, "no deadlock")
	require.Positive(t, s.open.Lost, "the storage without fencing lost nothing: the run would not notice")
	require.Positive(t, s.fenced.Refused, "no late write was refused")
	require.Positive(t, s.fenced.Writes)
}
