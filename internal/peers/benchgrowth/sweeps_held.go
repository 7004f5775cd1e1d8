package main

import (
	"errors"
	"maps"

	"github.com/redislockservice/redislockservice/internal/peers/rig"
)

// mostHeld is where profiles are taken.
const mostHeld = 20000

// sweepHeld holds locks for a renewal interval, undisturbed; and for as long with
// another lock that is acquired all the while.
func sweepHeld(g *growth, x int) (values, error) {
	return g.fleet(1, func(fleet []*rig.Process) (values, error) {
		p := fleet[0]
		if err := p.Call("take", takeArgs{Name: g.name("held"), N: x}, nil); err != nil {
			return nil, err
		}
		v := values{}
		commands, err := rig.Counted(g.redis, func() error { return callInto(v, p, "idle", g.limits.Idle) })
		v["commands"] = commands / g.limits.Idle.Seconds()
		if err == nil {
			err = callInto(v, p, "memory", struct{}{})
		}
		if err == nil {
			err = callInto(v, p, "probe", probeArgs{g.name("probe"), g.limits.Idle})
		}
		if err == nil && x == mostHeld {
			err = errors.Join(g.profile(p, "held-heap", 0), g.profile(p, "held-cpu", g.limits.Idle))
		}
		return v, err
	})
}

// callInto adds a call's figures to others.
func callInto(v values, p *rig.Process, do string, args any) error {
	var more values
	err := p.Call(do, args, &more)
	maps.Copy(v, more)
	return err
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
		v := values{}
		if err := callInto(v, fleet[0], "touch", takeArgs{Name: name, N: x}); err != nil {
			return nil, err
		}
		return v, callInto(v, fleet[0], "repeat", repeatArgs{Names: numbered(name, x), Random: true, Long: g.limits.Alone})
	})
}
