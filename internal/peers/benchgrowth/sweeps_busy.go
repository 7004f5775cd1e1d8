package main

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

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
		v, err := g.serve(holder, fleet, x)
		maps.Copy(v, waiting[0])
		return v, err
	})
}

// serve releases the name, and counts until everybody has had it.
func (g *growth) serve(holder *rig.Process, fleet []*rig.Process, x int) (values, error) {
	var began, last time.Duration
	var served int64
	commands, err := rig.Counted(g.redis, func() error {
		err1 := holder.Call("give", struct{}{}, &began)
		ends, err2 := rig.All[drainArgs, drained](fleet, "drain", func(i int) drainArgs { return g.drainArgs(x, i) })
		for _, d := range ends {
			served, last = served+d.Served, max(last, d.Last)
		}
		return errors.Join(err1, err2)
	})
	n := float64(max(served, 1))
	return values{"commands": commands / n, "handoff": rig.Micros(last-began) / n, "served": n}, err
}

// drainArgs profiles the first process with the most waiters.
func (g *growth) drainArgs(x, process int) drainArgs {
	a := drainArgs{Long: g.limits.Drain}
	if x == mostWaiters && process == 0 {
		a.Profile = g.profileFile("waiting-cpu")
	}
	return a
}

// sweepProcesses has four goroutines of each process acquire and release one name.
func sweepProcesses(g *growth, x int) (values, error) {
	idle, err := g.connections()
	if err != nil {
		return nil, err
	}
	return g.fleet(x, func(fleet []*rig.Process) (values, error) {
		name := g.name("processes")
		// A process is there once it has answered.
		if _, err := compete(fleet, loopArgs{name, 4, 100 * time.Millisecond}); err != nil {
			return nil, err
		}
		var ops float64
		commands, err1 := rig.Counted(g.redis, func() (err error) {
			ops, err = compete(fleet, loopArgs{name, 4, g.limits.Loop})
			return err
		})
		connected, err2 := g.connections()
		return values{
			"ops": ops, "commands": commands / (ops * g.limits.Loop.Seconds()),
			"connections": (connected - idle) / float64(x),
		}, errors.Join(err1, err2)
	})
}

func (g *growth) connections() (float64, error) { return g.redis.Field("clients", "connected_clients") }

// compete returns how often all processes together acquired, by the second.
func compete(fleet []*rig.Process, a loopArgs) (ops float64, err error) {
	results, err := rig.All[loopArgs, values](fleet, "loop", rig.Same(a))
	for _, v := range results {
		ops += v["ops"]
	}
	return ops, err
}

// mostNames is where a profile is taken.
const mostNames = 100

// sweepNames has one caller acquire all of them.
func sweepNames(g *growth, x int) (values, error) {
	a := repeatArgs{Names: numbered(g.name("names"), x), Long: g.limits.Alone}
	if x == mostNames {
		a.Profile = g.profileFile("names-cpu")
	}
	return g.alone(a)
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
