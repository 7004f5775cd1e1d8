package sim

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Config is how a run is to be. The zero value is usable.
type Config struct {
	Seed    uint64
	Choices []int // if not nil, they are replayed; Seed still seeds World.Rand
	// Steps is how many things happen before the world is frozen. Default: 400.
	Steps int
	// Times are by how much time passes at once: to be chosen about the lease.
	Times []time.Duration
	// Settle is how long the nodes may take, undisturbed, to come to an end. Default: an hour.
	Settle time.Duration
	// Liveness: when the world is frozen some nodes die for good, and the others'
	// ctx goes on, so that they must all be served. Without it every ctx ends then.
	Liveness bool
	// Without names acts that must not happen.
	Without []string
	// Log keeps a line for everything that happens.
	Log bool
}

// Result is what came of a run.
type Result struct {
	Seed      uint64
	Choices   []int // what was chosen; replayed, they give the same run
	Trace     uint64
	Steps     int
	Facts     map[Fact]int
	Violation error
	Log       []string
}

// World is one run: a server, nodes, and a scheduler that lets one thing happen
// at a time. Its methods are for the setup, and for the checks.
type World struct {
	Redis *Redis

	cfg     Config
	gate    *parking
	choose  *chooser
	menu    []act
	weights []int
	old     *Dump

	// Owned by the scheduler.
	waiting   []*parked
	may       []int // scratch of deliver
	ports     []*Port
	checks    []func() error
	seen      []func(Applied) error
	cleanups  []func()
	trace     trace
	steps     int
	log       []string
	violation error

	mu     sync.Mutex // guards the fields below
	alive  int        // client goroutines that run
	lives  []life
	dead   map[string]bool // nodes
	failed error           // the first of Fail
	frozen bool
}

// life is a goroutine of client code.
type life struct {
	node string
	kill context.CancelFunc
}

// Explore makes one run in a bubble of its own. setup builds the world; it runs
// inside the bubble, as everything else does, and must not use t.
func Explore(t *testing.T, cfg Config, setup func(w *World)) Result {
	t.Helper()
	var result Result
	synctest.Test(t, func(*testing.T) {
		w := newWorld(cfg)
		setup(w)
		w.run()
		result = w.result()
	})
	return result
}

func newWorld(cfg Config) *World {
	if cfg.Steps == 0 {
		cfg.Steps = 400
	}
	if cfg.Settle == 0 {
		cfg.Settle = time.Hour
	}
	if cfg.Times == nil {
		cfg.Times = []time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 6 * time.Second}
	}
	w := &World{Redis: NewRedis(), cfg: cfg, gate: newParking(), choose: newChooser(cfg.Seed, cfg.Choices),
		menu: menu(), old: Nothing, trace: traceStart, dead: make(map[string]bool)}
	w.Redis.SetGate(w.gate)
	w.Redis.Log()
	w.gate.readApart(w.Pick(4) == 1)
	return w
}

// Pick chooses from n; part of the recorded choices. 0 should be the plain one.
func (w *World) Pick(n int) int { return w.choose.pick(n) }

// Rand is a source of a client's own, from the seed.
func (w *World) Rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(w.cfg.Seed, stream)) }

// Port is the port of a new node.
func (w *World) Port(name string) *Port {
	p := w.Redis.PortOf(name)
	w.ports = append(w.ports, p)
	return p
}

// Go runs client code of a node. Its ctx ends when the node crashes, and when
// the world is frozen in safety mode. The run ends when all client code has.
func (w *World) Go(node string, client func(ctx context.Context)) {
	ctx, kill := context.WithCancel(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives = append(w.lives, life{node, kill})
	if w.dead[node] {
		kill()
	}
	w.alive++
	go func() {
		defer w.gate.wake()
		defer w.gone()
		client(ctx)
	}()
}

// Turn has client code wait until the scheduler lets it go on. Whoever calls it
// before each thing that it does acts alone, so that the order of clients that
// were woken at the same instant doesn't depend on the Go scheduler. client tells
// the clients of one node apart.
func (w *World) Turn(node string, client int) {
	w.mu.Lock()
	dead := w.dead[node] && !w.frozen
	w.mu.Unlock()
	if !dead { // what it does now matters to nobody
		w.Redis.pass(Step{Node: node, Phase: Client, Number: client})
	}
}

// Quietly runs f on a world without faults, in which nothing takes time, and
// lets it come to rest. For the setup.
func (w *World) Quietly(f func()) {
	w.Redis.SetGate(Latency(0))
	defer w.Redis.SetGate(w.gate)
	f()
	sleep(time.Second)
	synctest.Wait()
}

// killAll ends the ctx of all client code, one after the other: those that are
// woken at the same instant go on in any order.
func (w *World) killAll() {
	for _, l := range w.clients() {
		l.kill()
		synctest.Wait()
	}
}

// killOn ends that of one node. What its clients still do reaches nobody, in
// whatever order; and one that doesn't give up by itself must not be waited for.
func (w *World) killOn(node string) {
	for _, l := range w.clients() {
		if l.node == node {
			l.kill()
		}
	}
}

func (w *World) clients() []life {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lives)
}

func (w *World) gone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alive--
}

// Act adds something that may happen, with its weight; the acts of the menu have
// between 1 and 500. Whatever it does runs on the scheduler's goroutine.
func (w *World) Act(name string, weight int, do func()) {
	w.menu = append(w.menu, act{name, weight, func(*World) { do() }, true})
}

// Check is called whenever everything stands still. An error ends the run. What
// it reads of client code needs a mutex all the same: to the race detector a
// timer that wakes a client isn't ordered after what the scheduler did before.
func (w *World) Check(check func() error) { w.checks = append(w.checks, check) }

// OnApplied is called for every commit, in order. An error ends the run.
func (w *World) OnApplied(see func(Applied) error) { w.seen = append(w.seen, see) }

// Cleanup is called at the end, last first, when nothing waits at the gate any more.
func (w *World) Cleanup(f func()) { w.cleanups = append(w.cleanups, f) }

// Fail is for client code: it ends the run.
func (w *World) Fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = err
	}
}

// Frozen says that there are no more faults.
func (w *World) Frozen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.frozen
}

func (w *World) result() Result {
	return Result{Seed: w.cfg.Seed, Choices: slices.Clone(w.choose.made), Trace: uint64(w.trace), Steps: w.steps,
		Facts: w.Redis.Facts(), Violation: w.violation, Log: w.log}
}
