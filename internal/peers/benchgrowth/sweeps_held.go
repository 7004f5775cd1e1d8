package main

import (
	"maps"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// mostHeld is where profiles are taken.
const mostHeld = 20000

// sweepHeld holds locks for a renewal interval and more, undisturbed; and for as long
// with another lock that is acquired all the while.
func sweepHeld(g *growth, x int) (values, error) {
	return g.fleet(1, func(fleet []*rig.Process) (v values, err error) {
		p := fleet[0]
		if err := p.Call("take", takeArgs{Name: g.name("held"), N: x}, nil); err != nil {
			return nil, err
		}
		before, err := g.redis.Commands()
		if err != nil {
			return nil, err
		}
		var idle, probe values
		if err := p.Call("idle", g.limits.Idle, &idle); err != nil {
			return nil, err
		}
		after, err := g.redis.Commands()
		if err != nil {
			return nil, err
		}
		if err := p.Call("memory", struct{}{}, &v); err != nil {
			return nil, err
		}
		v["commands"] = (after - before) / g.limits.Idle.Seconds()
		if err := p.Call("probe", probeArgs{g.name("probe"), g.limits.Idle}, &probe); err != nil {
			return nil, err
		}
		maps.Copy(v, idle)
		maps.Copy(v, probe)
		if x != mostHeld {
			return v, nil
		}
		if err := g.profile(p, "held-heap", 0); err != nil {
			return nil, err
		}
		return v, g.profile(p, "held-cpu", g.limits.Idle)
	})
}

// sweepReaders has one process hold a name as many readers, and another come and go.
func sweepReaders(g *growth, x int) (values, error) {
	return g.fleet(2, func(fleet []*rig.Process) (v values, err error) {
		name := g.name("readers")
		if err := fleet[0].Call("take", takeArgs{Name: name, N: x, Readers: true}, nil); err != nil {
			return nil, err
		}
		err = fleet[1].Call("repeat", repeatArgs{Names: []string{name}, Read: true, Long: g.limits.Alone}, &v)
		return v, err
	})
}

// sweepService uses each name once, and then one after the other at random.
func sweepService(g *growth, x int) (values, error) {
	return g.fleet(1, func(fleet []*rig.Process) (values, error) {
		name := g.name("service")
		var v, p50 values
		if err := fleet[0].Call("touch", takeArgs{Name: name, N: x}, &v); err != nil {
			return nil, err
		}
		a := repeatArgs{Names: numbered(name, x), Random: true, Long: g.limits.Alone}
		err := fleet[0].Call("repeat", a, &p50)
		maps.Copy(v, p50)
		return v, err
	})
}
