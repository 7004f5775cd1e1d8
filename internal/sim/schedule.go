package sim

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing/synctest"
	"time"
)

// epoch is when time begins in a bubble.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// errUnserved is the violation of a run that doesn't come to an end.
var errUnserved = errors.New("frozen, and still not everybody is served")

// run is the whole life of a world.
func (w *World) run() {
	w.weights = w.swarm()
	for w.stand() && w.steps < w.cfg.Steps {
		w.steps++
		a := &w.menu[w.choose.weigh(w.weights)]
		if slices.Contains(w.cfg.Without, a.name) {
			continue // recorded choices, where the code has changed since, may come to mean anything
		}
		w.sawAct(a)
		a.do(w)
	}
	if w.violation == nil {
		w.freeze()
		w.settle()
	}
	w.end()
}

// swarm draws the weights for one run: about half of the faults, at rates that
// differ from run to run. With all of them all the time nothing would get far.
// It is no part of the recorded choices, which need no weights.
func (w *World) swarm() []int {
	random := w.Rand(0x5a3a)
	weights := make([]int, len(w.menu))
	for i, a := range w.menu {
		on, rate := random.IntN(2) == 0, []int{1, 3, 10}[random.IntN(3)]
		switch {
		case slices.Contains(w.cfg.Without, a.name):
		case a.always:
			weights[i] = a.weight
		case on:
			weights[i] = a.weight * rate
		}
	}
	return weights
}

// stand waits until everybody stands still, and looks at what there is. It
// returns false when the run is over: client code has ended, or a check failed.
func (w *World) stand() bool {
	synctest.Wait()
	w.waiting = append(w.waiting, w.gate.arrived()...)
	if w.letGo() {
		synctest.Wait()
	}
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.violation == nil {
		w.violation = w.failed
	}
	return w.violation == nil && w.alive > 0
}

func (w *World) look() {
	for _, a := range w.Redis.TakeLog() {
		w.sawApplied(&a)
		for _, see := range w.seen {
			w.violate(see(a))
		}
	}
	for _, check := range w.checks {
		w.violate(check())
	}
}

func (w *World) violate(err error) {
	if w.violation == nil && err != nil {
		w.violation = err
	}
}

// free lets the i-th of the waiting steps go on.
func (w *World) free(i int, f Fault) {
	e := w.waiting[i]
	w.waiting = slices.Delete(w.waiting, i, i+1)
	w.sawStep(&e.step, &f)
	e.free <- f
}

// letGo lets those steps go on whose callers have left and that have no effect
// without them: they would only be in the way of those that matter.
func (w *World) letGo() (some bool) {
	w.Redis.mu.Lock()
	defer w.Redis.mu.Unlock()
	w.waiting = slices.DeleteFunc(w.waiting, func(e *parked) bool {
		vain := e.step.vainLocked()
		if vain {
			e.free <- Fault{vain: true}
		}
		some = some || vain
		return vain
	})
	return some
}

// vainLocked says whether nobody would notice if the step never happened. A
// request that writes is never in vain.
func (s *Step) vainLocked() bool {
	if s.call == nil || !s.call.left {
		return false
	}
	switch s.Phase {
	case Dial, Read, Reply:
		return true
	case Request, Late:
		return !s.Writes
	}
	return false
}

// heldBack says whether a step has to wait because its node is paused.
func (w *World) heldBack(e *parked) bool {
	if !onNode.has(e.step.Phase) {
		return false
	}
	for _, p := range w.ports {
		if p.Node() == e.step.Node {
			return p.Paused()
		}
	}
	return false
}

// idle lets time pass until something comes to the gate or client code ends.
// Not for ever: everybody may wait for what only another act can bring.
func (w *World) idle() {
	timer := time.NewTimer(w.cfg.Times[len(w.cfg.Times)-1] + drift)
	defer timer.Stop()
	select {
	case <-w.gate.kick:
	case <-timer.C:
	}
}

func (w *World) crashNode(p *Port) {
	p.Kill()
	w.mu.Lock()
	w.dead[p.Node()] = true
	w.mu.Unlock()
	w.killOn(p.Node())
}

// freeze ends all faults. In liveness mode some nodes die with it, for good.
func (w *World) freeze() {
	if w.Redis.isDown() {
		w.Redis.Start(Everything)
	}
	w.Redis.Accept()
	for i, p := range w.ports {
		p.Resume()
		if w.cfg.Liveness && i > 0 && w.Pick(3) == 1 {
			w.crashNode(p)
		}
	}
	w.mu.Lock()
	w.frozen = true
	w.mu.Unlock()
	w.sawFreeze()
	if !w.cfg.Liveness {
		w.killAll()
	}
}

// settle serves everybody in order until all client code has ended.
func (w *World) settle() {
	until := time.Now().Add(w.cfg.Settle)
	for w.stand() {
		if time.Now().After(until) {
			w.violate(errUnserved)
			return
		}
		w.deliverOldest()
	}
}

// end has everything end, whatever state it is in.
func (w *World) end() {
	for _, p := range w.ports {
		if w.violation != nil {
			w.crashNode(p) // client code that is still at it gets errors only
		}
		p.Resume()
	}
	w.gate.openUp()
	for _, e := range w.waiting {
		e.free <- Fault{}
	}
	w.waiting = nil
	w.join()
	for _, f := range slices.Backward(w.cleanups) {
		f()
	}
	w.Redis.Settle()
	w.killAll()
}

// join waits for client code. If it doesn't end, the bubble can't either, so
// that all there is left to do is to say where it hangs.
func (w *World) join() {
	until := time.Now().Add(w.cfg.Settle)
	for w.running() > 0 {
		if time.Now().After(until) {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			panic(fmt.Sprintf("sim: seed %d: client code hangs (%v)\n%s", w.cfg.Seed, w.violation, stacks))
		}
		w.idle()
	}
}

func (w *World) running() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.alive
}
