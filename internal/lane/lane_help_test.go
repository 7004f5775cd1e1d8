package lane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/keyspace"
	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/internal/sim"
	"github.com/redislockservice/redislockservice/jsonhandler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testLease = time.Minute
	testPoll  = 5 * time.Second
	testOp    = 5 * time.Second
	moment    = time.Millisecond // one way between a node and the server
)

// setting is a server in memory, in a bubble, and lanes on it.
type setting struct {
	t     *testing.T
	r     *sim.Redis
	keys  keyspace.Space
	nodes []*testNode
	json  jsonhandler.Handler
}

// testNode is a lane, and what it tells.
type testNode struct {
	*Lane
	s     *setting
	port  *sim.Port
	began time.Time

	mu      sync.Mutex // guards the fields below
	holdOff []lockrules.HoldOff
	waits   map[string]Waiting
	gone    []string
}

// inBubble runs a test on fake time, and sees to it that nothing is left of it.
func inBubble(t *testing.T, test func(t *testing.T, s *setting)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys, err := keyspace.New("p")
		require.NoError(t, err)
		s := &setting{t: t, r: sim.NewRedis(), keys: keys, json: jsonhandler.Standard}
		s.r.SetGate(sim.Latency(moment))
		defer s.end()
		test(t, s)
	})
}

// end closes what the test has not closed itself.
func (s *setting) end() {
	s.r.Accept()
	s.r.SetGate(sim.Latency(0))
	for _, n := range s.nodes {
		if !n.retired {
			n.close(time.Minute)
		}
	}
	s.r.Settle()
}

func (n *testNode) close(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	n.Close(ctx)
}

// node makes a lane that has made its first exchange.
func (s *setting) node(change ...func(*Config)) *testNode {
	n := &testNode{s: s, port: s.r.Port(), began: time.Now(), waits: make(map[string]Waiting)}
	cfg := Config{Port: n.port, Keys: s.keys, JSON: s.json, Node: n.port.Node(), Lease: testLease, PollDelay: testPoll,
		ReleasedTTL: 30 * time.Second, OpTimeout: testOp, Events: n,
		Now:    func() time.Duration { return time.Hour + time.Since(n.began) },
		Jitter: func(limit time.Duration) time.Duration { return limit / 2 }}
	for _, c := range change {
		c(&cfg)
	}
	n.Lane = New(cfg)
	s.nodes = append(s.nodes, n)
	n.port.Subscribe(s.keys.Wake(n.port.Node()), sim.Handler{Message: n.heard, Up: n.WakeAll})
	_, err := n.Read(s.t.Context(), nil)
	require.NoError(s.t, err)
	return n
}

func (n *testNode) heard(msg string) {
	if names, err := DecodeWake(msg); err == nil {
		n.Wake(names)
	}
}

func (n *testNode) HoldOff(reason lockrules.HoldOff, _ time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holdOff = append(n.holdOff, reason)
}

func (n *testNode) Waits(w Waiting) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waits[w.ID] = w
}

func (n *testNode) Gone(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waits, id)
	n.gone = append(n.gone, id)
}

func (n *testNode) waiting(id string) (Waiting, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w, ok := n.waits[id]
	return w, ok
}

// answerOf is what an acquire came to.
type answerOf struct {
	Grant
	granted  bool
	blockers []lockrules.Blocker
	err      error
	at       time.Duration // since it was asked for
	done     bool
}

func write(names ...string) []lockrules.Want { return wantsFor(lockrules.Write, names) }
func readOf(names ...string) []lockrules.Want {
	return wantsFor(lockrules.Read, names)
}

func wantsFor(mode lockrules.Mode, names []string) []lockrules.Want {
	wants := make([]lockrules.Want, len(names))
	for i, name := range names {
		wants[i] = lockrules.Want{Name: name, Mode: mode}
	}
	return wants
}

func (n *testNode) request(id string, wants []lockrules.Want, chain ...string) lockrules.Request {
	return lockrules.Request{Asker: lockrules.Asker{ID: id, Owner: "owner of " + id, Node: n.port.Node(), Chain: chain},
		Wants: wants, LeaseMillis: millis(testLease)}
}

// try acquires and waits for the answer.
func (n *testNode) try(ctx context.Context, id string, wants []lockrules.Want, timeout time.Duration, chain ...string) *answerOf {
	began := time.Now()
	a := &answerOf{}
	a.Grant, a.granted, a.blockers, a.err = n.Acquire(ctx, n.request(id, wants, chain...), AcquireOptions{Timeout: timeout})
	a.at, a.done = time.Since(began), true
	return a
}

// start acquires in the background and lets the first attempt come to its end.
// The answer so far is in what it returns.
func (n *testNode) start(ctx context.Context, id string, wants []lockrules.Want, timeout time.Duration, chain ...string) func() answerOf {
	a := startNow(func() answerOf { return *n.try(ctx, id, wants, timeout, chain...) })
	faketime.Pass(20 * moment)
	return a
}

// startNow runs f in the background; its answer so far is in what it returns.
func startNow(f func() answerOf) func() answerOf {
	var mu sync.Mutex // a timer of the bubble is no memory barrier
	var a answerOf
	go func() {
		answer := f()
		mu.Lock()
		defer mu.Unlock()
		a = answer
	}()
	return func() answerOf {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return a
	}
}

func (n *testNode) get(id string, wants []lockrules.Want, chain ...string) *answerOf {
	n.s.t.Helper()
	a := n.try(n.s.t.Context(), id, wants, 0, chain...)
	require.NoError(n.s.t, a.err)
	require.True(n.s.t, a.granted, "%s: %v", id, a.blockers)
	return a
}

func (n *testNode) let(id string, names ...string) lockrules.Released {
	n.s.t.Helper()
	met, err := n.Release(context.Background(), names, lockrules.Release{ID: id, Outcome: lockrules.OK}, testLease)
	require.NoError(n.s.t, err)
	return met
}

func (n *testNode) renewNow(id, runID string, seen int64, names ...string) (Renewed, string) {
	n.s.t.Helper()
	r, lost, err := n.Renew(n.s.t.Context(), names, lockrules.Renewal{ID: id, LeaseMillis: millis(testLease), Seen: seen}, runID, false)
	require.NoError(n.s.t, err)
	return r, lost
}

// record is what the server has; ok is false if it has nothing.
func (s *setting) record(name string) (lockrules.Record, bool) {
	s.t.Helper()
	data, ok := s.r.Get(s.keys.Lock(name))
	if !ok {
		return lockrules.Empty(name), false
	}
	rec, err := decodeRecord(jsonhandler.Standard, name, data)
	require.NoError(s.t, err)
	return rec, true
}

func (s *setting) millis() lockrules.Millis { return lockrules.Instant(s.r.Micros()).Millis() }

// holders are the ids of those who hold name now, by the record.
func (s *setting) holders(name string) []string {
	rec, _ := s.record(name)
	ids := []string{}
	if rec.WriteOwner.Alive(s.millis()) {
		ids = append(ids, rec.WriteOwner.ID)
	}
	for i := range rec.ReadOwners {
		if rec.ReadOwners[i].Alive(s.millis()) {
			ids = append(ids, rec.ReadOwners[i].ID)
		}
	}
	return ids
}

// marks are the nodes that wait for name, and "w" behind those that wait to write.
func (s *setting) marks(name string) []string {
	rec, _ := s.record(name)
	marks := []string{}
	for _, m := range rec.Waiting {
		if m.Alive(s.millis()) {
			marks = append(marks, m.Node+map[bool]string{true: " w", false: " r"}[m.Write])
		}
	}
	return marks
}

// faults is a gate: latency, and faults for chosen steps.
type faults struct {
	mu    sync.Mutex // guards the field below
	rules []*rule
}

type rule struct {
	node   string
	phase  sim.Phase
	writes bool // only exchanges with a commit
	reads  bool // only exchanges without one
	times  int  // -1: always
	fault  sim.Fault
}

func (s *setting) faults() *faults {
	f := &faults{}
	s.r.SetGate(f)
	return f
}

func (f *faults) add(r rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, &r)
}

func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

func (f *faults) Pass(s sim.Step) sim.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.phase == s.Phase && (r.node == "" || r.node == s.Node) && (s.Writes || !r.writes) && (!s.Writes || !r.reads) && r.times != 0 {
			r.times--
			return r.fault
		}
	}
	return sim.Latency(moment).Pass(s)
}

// recover has the callers carry again after a failure.
func (n *testNode) recover() {
	n.s.t.Helper()
	for range 2 * quickInARow {
		_, err := n.Read(n.s.t.Context(), []string{"recover"})
		require.NoError(n.s.t, err)
		faketime.Pass(2 * maxAge)
	}
}

// cost counts the exchanges of a node during f.
func (n *testNode) cost(f func()) int64 {
	before := n.Statistics().Exchanges
	f()
	return n.Statistics().Exchanges - before
}

func requireUnavailable(t *testing.T, err error) *Unavailable {
	t.Helper()
	var u *Unavailable
	require.ErrorAs(t, err, &u)
	return u
}

func requireCorrupt(t *testing.T, err error, key string) {
	t.Helper()
	var c *Corrupt
	require.ErrorAs(t, err, &c)
	require.Equal(t, key, c.Key)
}

func id(format string, args ...any) string { return fmt.Sprintf(format, args...) }

var errTest = errors.New("test")

type wantT = lockrules.Want

func renewal(id string) lockrules.Renewal {
	return lockrules.Renewal{ID: id, LeaseMillis: millis(testLease)}
}
