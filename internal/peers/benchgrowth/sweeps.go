package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// values are a point's figures by name.
type values map[string]float64

// sweep is one thing that grows.
type sweep struct {
	key   string
	title string
	axis  string
	xs    []int
	// once: it takes long, and has one round.
	once   bool
	run    func(g *growth, x int) (values, error)
	curves []curve
}

// curve is one figure of a sweep, and how it may grow.
type curve struct {
	value string
	title string
	flat  bool    // it may not grow
	limit float64 // how much it may be in the end; 0: no such goal
	more  bool    // it is no cost
}

var sweeps = []sweep{
	{
		key: "waiters", title: "waiters of one name, in two processes", axis: "waiters", xs: []int{1, 10, 100, 1000, mostWaiters}, run: sweepWaiters,
		curves: []curve{
			{value: "bytes", title: "bytes per waiting goroutine", flat: true, limit: 8 << 10},
			{value: "stack", title: "of these, its stack", flat: true},
			{value: "commands", title: "commands per hand-off", flat: true},
			{value: "handoff", title: "µs per hand-off", flat: true},
		},
	},
	{
		key: "processes", title: "processes that compete for one name, 4 goroutines each", axis: "processes", xs: []int{1, 2, 4, 8, 16}, run: sweepProcesses,
		curves: []curve{
			{value: "ops", title: "acquisitions/s", flat: true, more: true},
			{value: "commands", title: "commands per acquisition", flat: true},
			{value: "connections", title: "connections per process", flat: true},
		},
	},
	{
		key: "names", title: "names in a call, all or none", axis: "names", xs: []int{1, 3, 10, 30, 100}, run: sweepNames,
		curves: []curve{{value: "p50", title: "acquire and release, p50, µs"}},
	},
	{
		key: "held", title: "held locks of one process, lease of 10 s", axis: "held locks", xs: []int{1, 10, 100, 1000, 10000, mostHeld}, run: sweepHeld,
		curves: []curve{
			{value: "bytes", title: "bytes per lock", flat: true, limit: 6 << 10},
			{value: "stack", title: "of these, its goroutine's stack", flat: true},
			{value: "commands", title: "commands/s"},
			{value: "core", title: "share of one core"},
			{value: "stall", title: "longest stall of another acquire, ms", flat: true},
			{value: "p50", title: "another acquire, p50, µs", flat: true},
		},
	},
	{
		key: "readers", title: "readers that hold one name", axis: "readers", xs: []int{1, 10, 100, 1000}, run: sweepReaders,
		curves: []curve{{value: "p50", title: "one more reader, acquire and release, p50, µs"}},
	},
	{
		key: "service", title: "names that have been used", axis: "names", xs: []int{10, 1000, 100000}, once: true, run: sweepService,
		curves: []curve{
			{value: "p50", title: "acquire and release, p50, µs", flat: true},
			{value: "memory", title: "heap and stacks of the process, bytes", flat: true},
		},
	},
}

// mostWaiters is where a profile is taken.
const mostWaiters = 10000

// sweepWaiters has one process hold a name, two wait for it, and then be served as
// fast as it goes.
func sweepWaiters(g *growth, x int) (values, error) {
	return g.fleet(min(x, 2)+1, func(fleet []*rig.Process) (values, error) {
		holder, fleet, name := fleet[0], fleet[1:], g.name("waiters")
		// The reader's side, so that the name is one, without a number.
		if err := holder.Call("take", takeArgs{Name: name, N: 1, Readers: true}, nil); err != nil {
			return nil, err
		}
		waiting, err := rig.All[waitArgs, values](fleet, "wait", rig.Same(waitArgs{name, x / len(fleet)}))
		if err == nil && x == mostWaiters {
			err = g.profile(fleet[0], "waiting-heap", 0)
		}
		if err != nil {
			return nil, err
		}
		before, err := g.redis.Commands()
		if err != nil {
			return nil, err
		}
		var began time.Duration
		if err := holder.Call("give", struct{}{}, &began); err != nil {
			return nil, err
		}
		ends, err := rig.All[drainArgs, drained](fleet, "drain", func(i int) drainArgs { return g.drainArgs(x, i) })
		if err != nil {
			return nil, err
		}
		after, err := g.redis.Commands()
		var served int64
		var last time.Duration
		for _, d := range ends {
			served, last = served+d.Served, max(last, d.Last)
		}
		n := float64(served)
		return values{
			"bytes": waiting[0]["bytes"], "heap": waiting[0]["heap"], "stack": waiting[0]["stack"], "commands": (after - before) / n,
			"handoff": rig.Micros(last-began) / n, "served": n,
		}, err
	})
}

// drainArgs profiles the first process with the most waiters.
func (g *growth) drainArgs(x, process int) drainArgs {
	a := drainArgs{Long: g.limits.Drain}
	if g.profiles != "" && x == mostWaiters && process == 0 {
		a.Profile = filepath.Join(g.profiles, "waiting-cpu.pprof")
	}
	return a
}

func sweepProcesses(g *growth, x int) (values, error) {
	idle, err := g.redis.Field("clients", "connected_clients")
	if err != nil {
		return nil, err
	}
	return g.fleet(x, func(fleet []*rig.Process) (values, error) {
		a := loopArgs{g.name("processes"), 4, g.limits.Loop}
		// A process is there once it has answered.
		warm := loopArgs{a.Name, 4, 100 * time.Millisecond}
		if _, err := rig.All[loopArgs, values](fleet, "loop", rig.Same(warm)); err != nil {
			return nil, err
		}
		before, err := g.redis.Commands()
		if err != nil {
			return nil, err
		}
		results, err := rig.All[loopArgs, values](fleet, "loop", rig.Same(a))
		if err != nil {
			return nil, err
		}
		after, err := g.redis.Commands()
		if err != nil {
			return nil, err
		}
		connected, err := g.redis.Field("clients", "connected_clients")
		ops := 0.0
		for _, v := range results {
			ops += v["ops"]
		}
		return values{
			"ops": ops, "commands": (after - before) / (ops * a.Long.Seconds()),
			"connections": (connected - idle) / float64(x),
		}, err
	})
}

func sweepNames(g *growth, x int) (values, error) {
	return g.alone(repeatArgs{Names: numbered(g.name("names"), x), Long: g.limits.Alone})
}

func (g *growth) alone(a repeatArgs) (v values, err error) {
	return g.fleet(1, func(fleet []*rig.Process) (values, error) {
		err := fleet[0].Call("repeat", a, &v)
		return v, err
	})
}

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return names
}
