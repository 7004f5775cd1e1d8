package sim

import (
	"cmp"
	"slices"
	"sync"
)

// parking is the gate of a [World]: every step waits in it until the scheduler
// lets it go on.
type parking struct {
	kick chan struct{} // cap 1: something has come

	mu    sync.Mutex // guards the fields below
	fresh []*parked
	torn  bool // single reads wait as well
	open  bool // nothing waits any more
}

type parked struct {
	step Step
	free chan Fault // cap 1; gets one element
}

func newParking() *parking { return &parking{kick: make(chan struct{}, 1)} }

// Pass implements Gate.
func (g *parking) Pass(s Step) Fault {
	g.mu.Lock()
	if g.open || s.Phase == Read && !g.torn {
		g.mu.Unlock()
		return Fault{}
	}
	e := &parked{step: s, free: make(chan Fault, 1)}
	g.fresh = append(g.fresh, e)
	g.mu.Unlock()
	g.wake()
	return <-e.free
}

func (g *parking) wake() {
	select {
	case g.kick <- struct{}{}:
	default:
	}
}

// arrived takes what has come since the last call. Goroutines that were woken at
// the same instant come in any order; sorting makes it one.
func (g *parking) arrived() []*parked {
	select {
	case <-g.kick:
	default:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	fresh := g.fresh
	g.fresh = nil
	if len(fresh) < 2 {
		return fresh
	}
	slices.SortFunc(fresh, func(a, b *parked) int { return compareSteps(a.step, b.step) })
	return fresh
}

func compareSteps(a, b Step) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Phase, b.Phase),
		cmp.Compare(a.Number, b.Number), cmp.Compare(a.Part, b.Part))
}

// readApart says whether single reads wait: it makes more, and rarer, schedules.
func (g *parking) readApart(yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.torn = yes
}

// openUp lets everything through from now on, without faults.
func (g *parking) openUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = true
	for _, e := range g.fresh {
		e.free <- Fault{}
	}
	g.fresh = nil
}
