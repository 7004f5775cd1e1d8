package lockservice

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/sim"
	"github.com/redislockservice/redislockservice/pubsub"
)

const (
	simLease = 10 * time.Second
	simPoll  = 3 * time.Second
	simOp    = 4 * time.Second
)

// simKind is what a run is about.
type simKind int

const (
	simStrict   simKind = iota // every fault that mutual exclusion has to survive
	simLive                    // the same; then no more faults, and everybody must be served
	simAdmitted                // single records lost, clocks stepped forward: judged by tokens only
	simKinds
)

// simWorld is services and their clients in a simulation, and what the checks
// know of them.
type simWorld struct {
	w     *sim.World
	kind  simKind
	cfg   *config
	nodes []*simNode

	mu     sync.Mutex // guards the fields below
	held   []simHeld  // in the order of their beginning
	counts map[string]int
	judge  simJudge
	graph  simGraph
	left   []string
}

// simHeld is an acquisition whose code runs.
type simHeld struct {
	a *Acquisition
	c *simClient
}

func (s *simWorld) dropLocked(a *Acquisition) {
	s.held = slices.DeleteFunc(s.held, func(h simHeld) bool { return h.a == a })
}

type simNode struct {
	name string
	port *sim.Port
	svc  *RedisLockService

	seed uint64

	closed  atomic.Bool // while faults were on
	keeping chan int    // cap 1: the client whose renewals are being set up

	mu  sync.Mutex // guards the field below
	ids int
}

// simConfig is the run of a seed.
func simConfig(seed uint64) sim.Config {
	cfg := sim.Config{
		Seed:     seed,
		Steps:    *simSteps,
		Times:    []time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, 6 * time.Second, simLease - time.Millisecond, simLease, simLease + time.Millisecond},
		Liveness: simKindOf(seed) == simLive,
	}
	if seed%2 == 0 {
		// Most exchanges come to their end before somebody's patience does.
		for range 4 {
			cfg.Times = append([]time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond}, cfg.Times...)
		}
	}
	if simKindOf(seed) != simAdmitted {
		cfg.Without = []string{sim.DoEvict, sim.DoClock}
	}
	return cfg
}

func simKindOf(seed uint64) simKind { return simKind(seed % uint64(simKinds)) }

// build sets up services and clients.
func (s *simWorld) build(w *sim.World) {
	s.w = w
	s.counts = make(map[string]int)
	s.judge = newSimJudge(s)
	s.graph = newSimGraph(s)
	cfg, err := newConfig([]Option{WithKeyPrefix("p"), WithOwner("o"), WithLeaseTime(simLease), WithPollDelay(simPoll), WithConnectionTimeout(simOp)})
	if err != nil {
		panic(err)
	}
	s.cfg = cfg
	names := 1 + w.Pick(4)
	for i := range 2 + w.Pick(3) {
		s.nodes = append(s.nodes, s.addNode(i))
	}
	for _, n := range s.nodes {
		w.Quietly(func() { s.start(n) })
	}
	for i, n := range s.nodes {
		for j := range 1 + w.Pick(3) {
			c := &simClient{s: s, n: n, number: j, class: int64(2 * (4*i + j + 1)), names: names, random: w.Rand(uint64(100*(i+1) + j))}
			w.Go(n.name, c.live)
		}
	}
	w.OnApplied(s.judge.applied)
	w.Check(s.judge.standing)
	s.acts()
	w.Cleanup(s.end)
}

func (s *simWorld) addNode(i int) *simNode {
	name := fmt.Sprintf("node-%d", i)
	return &simNode{name: name, port: s.w.Port(name), seed: s.w.Rand(uint64(1000 + i)).Uint64(), keeping: make(chan int, 1)}
}

// start has a service make its first exchange. One comes after the other, so
// that what they tell each other comes in one order.
func (s *simWorld) start(n *simNode) {
	cfg := *s.cfg
	cfg.wrap = n.keeps
	svc, err := startIn(context.Background(), &cfg, surroundings{node: n.name, port: n.port, bus: simBus{n.port},
		posts: n.port, newID: n.newID, jitter: n.jitter})
	if err != nil {
		panic(err)
	}
	n.svc = svc
}

func (n *simNode) newID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids++
	return fmt.Sprintf("%s/%d", n.name, n.ids)
}

// jitter depends on the node, the moment and the limit, and not on the order of
// the calls: goroutines that were woken at the same instant come in any order.
// That of renewals depends on the client, too. Else several that were granted
// their locks at the same instant would renew at the same instant.
func (n *simNode) jitter(limit time.Duration) time.Duration {
	client := -1
	if limit == simLease/2/10+1 {
		client = <-n.keeping
	}
	now := uint64(time.Now().UnixNano())
	draw := rand.NewPCG(n.seed^uint64(client)<<56, now^uint64(limit)<<20).Uint64()
	return time.Duration(draw % uint64(limit) / simClasses * simClasses)
}

// keeps is called right before the jitter of a renewal, by the same goroutine.
func (n *simNode) keeps(ctx context.Context, run func()) func() {
	client, _ := ctx.Value(simClientKey{}).(int)
	n.keeping <- client
	return run
}

type simClientKey struct{}

// acts are what may happen besides the menu of the simulation.
func (s *simWorld) acts() {
	s.w.Act("close a service", 1, func() {
		n := s.nodes[s.w.Pick(len(s.nodes))]
		if s.w.Pick(2) == 0 {
			return
		}
		n.closed.Store(true)
		s.w.Go(n.name, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, simLease)
			defer cancel()
			_ = n.svc.Close(ctx)
			s.count("a service closed while it was used")
		})
	})
	s.w.Act("clock back", 1, func() {
		if back := []time.Duration{0, time.Second, time.Minute}[s.w.Pick(3)]; back > 0 {
			s.w.Redis.StepClock(-back)
		}
	})
}

// end closes the services once client code has ended, and looks at what is left.
func (s *simWorld) end() {
	faketime.Pass(simPoll) // after failures the lane pauses before it undoes what nobody waits for
	if s.judge.left(); len(s.left) > 0 {
		faketime.Pass(4 * simPoll) // what goes on in the background has ended, what nobody knows of has lapsed
		s.left = nil
	}
	for _, n := range s.nodes {
		ctx, cancel := context.WithTimeout(context.Background(), simOp)
		_ = n.svc.Close(ctx)
		cancel()
	}
	s.judge.left()
}

// clockWasSet: what lapses when is anybody's guess then.
func (s *simWorld) clockWasSet() bool {
	return s.w.Redis.Count(sim.ClockBack)+s.w.Redis.Count(sim.ClockForward) > 0
}

func (s *simWorld) count(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[what]++
}

func (s *simWorld) fail(format string, args ...any) {
	s.w.Fail(fmt.Errorf(format, args...))
}

// simRun is one run, and how often what happened.
func simRun(t testingT, cfg sim.Config) (sim.Result, map[string]int) {
	s := &simWorld{kind: simKindOf(cfg.Seed)}
	result := sim.Explore(t, cfg, s.build)
	if result.Violation == nil && len(s.left) > 0 {
		result.Violation = fmt.Errorf("left behind: %v", s.left)
	}
	counts := maps.Clone(s.counts)
	counts["two held a read lock together"] = s.judge.shared
	for fact, n := range result.Facts {
		counts[string(fact)] += n
	}
	return result, counts
}

// simBus is the messages of a node.
type simBus struct{ port *sim.Port }

func (b simBus) Subscribe(_ context.Context, channel string, h pubsub.Handler) (subscription, error) {
	down := func() {
		if h.Down != nil {
			h.Down(errSimDown)
		}
	}
	return simSubscription(b.port.Subscribe(channel, sim.Handler{Message: h.Message, Down: down, Up: h.Up})), nil
}

func (b simBus) Publish(ctx context.Context, channel, payload string) error {
	return b.port.Publish(ctx, channel, payload)
}

type simSubscription func()

func (cancel simSubscription) Close() { cancel() }

var errSimDown = errors.New("sim: the subscription was cut")
