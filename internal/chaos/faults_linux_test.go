package chaos_test

import (
	"fmt"
	"net"
	"time"

	"github.com/redislockservice/redislockservice/internal/chaos"
)

type persistence int

const (
	anyServer persistence = iota
	noAOF
	onlyAOF
)

// fault is something to break. redis: it is a fault of the server, one at a time.
// loses: the server loses its data and runs on, so nobody may be new to it.
type fault struct {
	name   string
	weight int
	redis  bool
	loses  bool
	only   persistence
	do     func(*controller)
}

// faults are drawn by weight. Losses of data cost everybody a hold-off of a lease,
// and have little weight, so that locks are held at all.
var faults = []fault{
	{name: "kill -9", weight: 7, do: killWorker},
	{name: "worker stopped briefly", weight: 4, do: func(c *controller) { stopWorker(c, "worker stopped briefly", c.part(0.1, 0.5)) }},
	{name: "worker stopped long", weight: 8, do: func(c *controller) { stopWorker(c, "worker stopped long", c.part(1.1, 2.5)) }},
	{name: "cpu starved", weight: 4, do: burnWorker},
	{name: "connections cut", weight: 4, do: cutWorker},
	{name: "black hole to server", weight: 5, do: func(c *controller) { blackHole(c, "black hole to server", true, false) }},
	{name: "black hole from server", weight: 5, do: func(c *controller) { blackHole(c, "black hole from server", false, true) }},
	{name: "black hole", weight: 4, do: func(c *controller) { blackHole(c, "black hole", true, true) }},
	{name: "late reply, then a black hole", weight: 5, do: lateReply},
	{name: "request cut", weight: 3, do: cutUp},
	{name: "reply cut", weight: 3, do: cutDown},

	{name: "server killed", weight: 4, redis: true, do: restart},
	{name: "server killed, data gone", weight: 2, redis: true, only: onlyAOF, do: restartEmpty},
	{name: "old snapshot", weight: 3, redis: true, only: noAOF, do: restore},
	{name: "FLUSHALL", weight: 3, redis: true, loses: true, do: flush},
	{name: "FLUSHALL under a newcomer", weight: 1, redis: true, loses: true, do: flushUnderNewcomer},
	{name: "CLIENT KILL normal", weight: 4, redis: true, do: func(c *controller) { clientKill(c, "normal") }},
	{name: "CLIENT KILL pubsub", weight: 4, redis: true, do: func(c *controller) { clientKill(c, "pubsub") }},
	{name: "CLIENT PAUSE WRITE", weight: 4, redis: true, do: func(c *controller) { clientPause(c, "WRITE") }},
	{name: "CLIENT PAUSE ALL", weight: 3, redis: true, do: func(c *controller) { clientPause(c, "ALL") }},
	{name: "out of memory", weight: 4, redis: true, do: outOfMemory},
	{name: "replica of nobody", weight: 3, redis: true, do: replicaOfNobody},
	{name: "replica of a void", weight: 1, redis: true, loses: true, do: replicaOfVoid},
	{name: "server stopped briefly", weight: 3, redis: true, do: func(c *controller) { stopServer(c, c.part(0.1, 0.6)) }},
	{name: "server stopped long", weight: 3, redis: true, do: func(c *controller) { stopServer(c, c.part(1.1, 2)) }},
}

// part draws a part of the lease.
func (c *controller) part(from, to float64) time.Duration {
	return time.Duration(float64(c.lease) * (from + c.rng.Float64()*(to-from)))
}

// serverFault keeps other faults of the server away until it is undone.
func (c *controller) serverFault(d time.Duration, undo func()) {
	c.redisBusy = true
	c.later(d, func() {
		undo()
		c.redisBusy = false
	})
}

func (c *controller) lost() { c.losses = append(c.losses, monotonic()) }

func killWorker(c *controller) {
	if p := c.victim(); p != nil {
		c.note("kill -9", "%s", p.proc.cfg.Name)
		p.proc.kill()
		c.later(c.part(0, 0.5), func() { p.dead = true })
		p.stopped = true // no victim until then
	}
}

func stopWorker(c *controller, name string, d time.Duration) {
	if p := c.victim(); p != nil {
		c.note(name, "%s for %v", p.proc.cfg.Name, d)
		c.stop(p, d)
	}
}

func burnWorker(c *controller) {
	if p := c.victim(); p != nil {
		d := c.part(0.3, 1.5)
		c.note("cpu starved", "%s for %v", p.proc.cfg.Name, d)
		p.proc.do(fmt.Sprintf("burn %d", d.Milliseconds()))
	}
}

func cutWorker(c *controller) {
	if p := c.victim(); p != nil {
		c.note("connections cut", "%s", p.proc.cfg.Name)
		p.proxy.Cut()
	}
}

// blackHole loses nothing at first: what was sent arrives later, or, half of the
// time, never.
func blackHole(c *controller, name string, up, down bool) {
	p := c.victim()
	if p == nil {
		return
	}
	d := c.part(0.1, 2)
	c.note(name, "%s for %v", p.proc.cfg.Name, d)
	if up {
		p.proxy.PauseUpstream()
	}
	if down {
		p.proxy.PauseDownstream()
	}
	p.cutOff = true
	c.later(d, func() {
		if c.rng.IntN(2) == 0 {
			p.proxy.Cut()
		}
		p.proxy.Resume()
		p.cutOff = false
	})
}

// lateReply lets a reply, perhaps of a renewal, come late, and nothing after it:
// who counts its lease from the reply holds for too long.
func lateReply(c *controller) {
	p := c.victim()
	if p == nil {
		return
	}
	d := c.part(0.3, 0.7)
	c.note("late reply, then a black hole", "%s, by %v", p.proc.cfg.Name, d)
	p.proxy.PauseDownstream()
	p.cutOff = true
	c.later(d, func() {
		p.proxy.Resume()
		p.proxy.PauseUpstream()
		p.proxy.PauseDownstream()
	})
	c.later(d+c.part(1.2, 2), func() {
		p.proxy.Resume()
		p.cutOff = false
	})
}

func cutUp(c *controller) {
	if p := c.victim(); p != nil {
		n := c.rng.Int64N(3000)
		c.note("request cut", "%s after %d bytes", p.proc.cfg.Name, n)
		p.proxy.CutAfterUp(n)
	}
}

func cutDown(c *controller) {
	if p := c.victim(); p != nil {
		n := c.rng.Int64N(3000)
		c.note("reply cut", "%s after %d bytes", p.proc.cfg.Name, n)
		p.proxy.CutAfterDown(n)
	}
}

// down is how long the server stays away between its end and its next start.
func (c *controller) down() time.Duration {
	if c.rng.IntN(2) == 0 {
		return 0
	}
	return c.part(0, 1.5)
}

func restart(c *controller) {
	d := c.down()
	c.note("server killed", "for %v", d)
	if !c.aof {
		c.lost()
	}
	c.server.Kill(c.t)
	c.serverFault(d, func() { c.server.Start(c.t) })
}

func restartEmpty(c *controller) {
	c.note("server killed, data gone", "now")
	c.lost()
	c.server.RestartEmpty(c.t)
	c.lost()
}

// restore goes back to the last snapshot, or to one of a moment ago, and keeps a new
// one. Filler keys make the loading last.
func restore(c *controller) {
	if c.lossOpen {
		return
	}
	if c.snapshot == nil {
		for i := range 300 {
			c.server.Do(c.t, "SET", fmt.Sprintf("filler:%d", i), fmt.Sprintf("%01000d", i))
		}
		c.snapshot = c.server.SaveSnapshot(c.t)
	}
	old, next := c.snapshot, c.server.SaveSnapshot(c.t)
	c.serverFault(c.part(0.2, 1.5), func() {
		c.note("old snapshot", "now")
		c.lost()
		c.server.RestoreSnapshot(c.t, old)
		c.lost()
		c.snapshot = next
	})
}

func flush(c *controller) {
	c.note("FLUSHALL", "now")
	c.lost()
	c.lossOpen = true
	c.server.Do(c.t, "FLUSHALL")
	c.lost()
}

// flushUnderNewcomer is the admitted case: the first that comes after the loss may
// be a process that knows of nothing.
func flushUnderNewcomer(c *controller) {
	p := c.victim()
	if p == nil {
		return
	}
	p.proc.kill()
	c.start(p)
	c.serverFault(c.part(0, 0.3), func() {
		c.note("FLUSHALL under a newcomer", "%s", p.proc.cfg.Name)
		c.lost()
		c.lossOpen = true
		from := monotonic()
		c.server.Do(c.t, "FLUSHALL")
		c.lost()
		c.admitted = append(c.admitted, chaos.Span{From: from, To: monotonic() + int64(c.lease)})
	})
}

func clientKill(c *controller, kind string) {
	c.note("CLIENT KILL "+kind, "now")
	c.server.Do(c.t, "CLIENT", "KILL", "TYPE", kind)
}

func clientPause(c *controller, what string) {
	d := c.part(0.1, 1.5)
	c.note("CLIENT PAUSE "+what, "for %v", d)
	c.server.Do(c.t, "CLIENT", "PAUSE", fmt.Sprint(d.Milliseconds()), what)
	c.serverFault(d+10*time.Millisecond, func() {})
}

func outOfMemory(c *controller) {
	d := c.part(0.1, 1.5)
	c.note("out of memory", "for %v", d)
	c.server.Do(c.t, "CONFIG", "SET", "maxmemory", "1")
	c.serverFault(d, func() { c.server.Do(c.t, "CONFIG", "SET", "maxmemory", "0") })
}

func replicaOfNobody(c *controller) {
	d := c.part(0.1, 1.5)
	c.note("replica of nobody", "for %v", d)
	c.server.Do(c.t, "REPLICAOF", "127.0.0.1", "1")
	c.serverFault(d, func() { c.server.Do(c.t, "REPLICAOF", "NO", "ONE") })
}

// replicaOfVoid makes the server a replica of one without data: it loses its own
// when it has synchronised, whenever that is, and its run id stays.
func replicaOfVoid(c *controller) {
	d := c.part(0.3, 1.5)
	c.note("replica of a void", "for %v", d)
	host, port, err := net.SplitHostPort(c.void.Addr())
	if err != nil {
		c.t.Fatal(err)
	}
	c.lost()
	c.lossOpen = true
	c.server.Do(c.t, "REPLICAOF", host, port)
	c.serverFault(d, func() {
		c.server.Do(c.t, "REPLICAOF", "NO", "ONE")
		c.lost()
	})
}

func stopServer(c *controller, d time.Duration) {
	name := "server stopped briefly"
	if d > c.lease {
		name = "server stopped long"
	}
	c.note(name, "for %v", d)
	c.server.Pause(c.t)
	c.serverFault(d, func() { c.server.Unpause(c.t) })
}
