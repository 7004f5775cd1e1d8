package sim

import (
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// The names of what a scheduler may do, for [Config.Without].
const (
	DoDeliver      = "deliver"     // the oldest step goes on; if none waits, time passes until one does
	DoDeliverAny   = "deliver any" // some step goes on
	DoTime         = "time"        // time passes, whatever waits
	DoLose         = "lose"        // a step's message is lost
	DoCut          = "cut"         // a step's connection dies
	DoLate         = "late"        // a request arrives long after its connection has died
	DoRepeat       = "repeat"
	DoOvertake     = "overtake"
	DoRefuseOnce   = "refuse once" // a request gets an error reply
	DoRevoke       = "revoke"
	DoCutAll       = "cut all"
	DoRestartFull  = "restart with everything"
	DoRestartEmpty = "restart with nothing"
	DoRestartOld   = "restart with an old snapshot"
	DoCrash        = "crash" // until started
	DoStart        = "start"
	DoFlush        = "flush"
	DoEvict        = "evict"
	DoClock        = "clock"
	DoRefuse       = "refuse" // until accepted
	DoAccept       = "accept"
	DoSnapshot     = "snapshot"
	DoFailover     = "failover"
	DoPause        = "pause"
	DoResume       = "resume"
	DoCrashNode    = "crash node"
	DoCutMessages  = "cut messages" // a node's subscription connection
)

// act is something the scheduler may do. Its place in the menu is part of every
// recorded choice: new ones go to the end.
//
// Those that no seed goes without are harmless, or end what others have begun.
type act struct {
	name   string
	weight int
	do     func(w *World)
	always bool // no seed goes without it
}

func menu() []act {
	return []act{
		{DoDeliver, 300, (*World).deliverOldest, true},
		{DoDeliverAny, 500, func(w *World) { w.deliver(Fault{}, anyPhase) }, true},
		{DoTime, 60, (*World).letTimePass, true},
		{DoLose, 20, func(w *World) { w.deliver(Fault{Lose: true}, anyPhase) }, false},
		{DoCut, 20, func(w *World) { w.deliver(Fault{Cut: true}, phases(Dial, Request, Read, Reply, Command)) }, false},
		{DoLate, 20, func(w *World) { w.deliver(Fault{Late: true}, phases(Request)) }, false},
		{DoRepeat, 10, func(w *World) { w.deliver(Fault{Repeat: 1}, phases(Message)) }, false},
		{DoOvertake, 10, func(w *World) { w.deliver(Fault{Overtake: true}, phases(Message)) }, false},
		{DoRefuseOnce, 10, func(w *World) { w.deliver(Fault{Refuse: []Refusal{{Kind: w.refusal()}}}, phases(Request)) }, false},
		{DoRevoke, 4, func(w *World) { w.deliver(Fault{Revoke: w.command()}, phases(Request)) }, false},
		{DoCutAll, 2, func(w *World) { w.Redis.CutAll() }, false},
		{DoRestartFull, 1, func(w *World) { w.Redis.Restart(Everything) }, false},
		{DoRestartEmpty, 1, func(w *World) { w.Redis.Restart(Nothing) }, false},
		{DoRestartOld, 1, func(w *World) { w.Redis.Restart(w.old) }, false},
		{DoCrash, 1, func(w *World) { w.Redis.Crash() }, false},
		{DoStart, 20, (*World).startServer, true},
		{DoFlush, 4, func(w *World) { w.Redis.FlushAll() }, false},
		{DoEvict, 4, (*World).evict, false},
		{DoClock, 4, func(w *World) { w.Redis.StepClock(clockSteps[w.Pick(len(clockSteps))]) }, false},
		{DoRefuse, 3, func(w *World) { w.Redis.Refuse(w.refusal()) }, false},
		{DoAccept, 20, func(w *World) { w.Redis.Accept() }, true},
		{DoSnapshot, 10, func(w *World) { w.old = w.Redis.Snapshot() }, true},
		{DoFailover, 3, func(w *World) { w.Redis.Failover(w.old) }, false},
		{DoPause, 4, func(w *World) { w.toNode((*Port).Pause) }, false},
		{DoResume, 20, func(w *World) { w.toNode((*Port).Resume) }, true},
		{DoCrashNode, 2, func(w *World) { w.toNode(w.crashNode) }, false},
		{DoCutMessages, 6, func(w *World) { w.toNode((*Port).CutSubscription) }, false},
	}
}

// phaseSet has a bit for each phase.
type phaseSet uint16

func phases(all ...Phase) (s phaseSet) {
	for _, p := range all {
		s |= 1 << p
	}
	return s
}

func (s phaseSet) has(p Phase) bool { return s>>p&1 == 1 }

var (
	anyPhase = phases(Dial, Request, Late, Read, Reply, Message, Subscribe, Command, Client)
	onNode   = phases(Reply, Message, Subscribe, Command, Client) // wait while the node is paused
)

var clockSteps = []time.Duration{time.Second, -time.Second, time.Minute, -time.Minute, time.Hour, -time.Hour}

var refusals = []exchange.Kind{exchange.OOM, exchange.ReadOnly, exchange.Loading, exchange.Misconf, exchange.Busy,
	exchange.NoReplicas, exchange.MaxClients}

func (w *World) refusal() exchange.Kind { return refusals[w.Pick(len(refusals))] }

func (w *World) command() string { return []string{"SET", "DEL", "PUBLISH"}[w.Pick(3)] }

func (w *World) startServer() {
	if !w.Redis.isDown() {
		return
	}
	w.Redis.Start([]*Dump{Everything, Nothing, w.old}[w.Pick(3)])
}

func (r *Redis) isDown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down
}

func (w *World) evict() {
	if keys := w.Redis.Keys(); len(keys) > 0 {
		w.Redis.Evict(keys[w.Pick(len(keys))])
	}
}

func (w *World) toNode(do func(*Port)) {
	if len(w.ports) > 0 {
		do(w.ports[w.Pick(len(w.ports))])
	}
}

// deliverOldest is the harmless choice.
func (w *World) deliverOldest() {
	for i, e := range w.waiting {
		if !w.heldBack(e) {
			w.free(i, Fault{})
			return
		}
	}
	w.idle()
}

// deliver lets one of the steps of these phases go on, with a fault.
func (w *World) deliver(f Fault, phases phaseSet) {
	may := w.may[:0]
	for i, e := range w.waiting {
		if phases.has(e.step.Phase) && !w.heldBack(e) {
			may = append(may, i)
		}
	}
	w.may = may
	if len(may) == 0 {
		w.deliverOldest()
		return
	}
	w.free(may[w.Pick(len(may))], f)
}

// drift is added whenever time passes. So what is done after it never coincides
// with a timer that what was done before it has set, most of which are for whole
// milliseconds: the Go runtime draws lots for the order of what comes at the same
// instant, and a run with the same seed would not be the same.
const drift = 64 * time.Nanosecond

func (w *World) letTimePass() {
	sleep(w.cfg.Times[w.Pick(len(w.cfg.Times))] + drift)
}
