package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// call is one exchange on its way. It carries copies of what the caller gave,
// since it may outlive the call.
type call struct {
	p      *Port
	s      *session
	number int
	commit exchange.Writes
	keys   []string
	done   chan outcome // buffered: the wire never waits for a caller that has left

	// Guarded by Redis.mu.
	left  bool // the caller waits no more
	ended bool // the wire has carried all that it will
}

type outcome struct {
	committed bool
	snap      exchange.Snapshot
	err       error
}

// step asks the gate.
func (c *call) step(phase Phase, part int) Fault {
	return c.p.r.pass(Step{Node: c.p.node.name, Phase: phase, Number: c.number, Part: part,
		Writes: !c.commit.Empty(), call: c})
}

// dial opens a connection.
func (c *call) dial() {
	defer c.p.r.end()
	defer c.forget()
	f := c.step(Dial, 0)
	sleep(f.Delay)
	if f.vain || f.Lose || f.Cut && c.refuse(errCut) {
		return
	}
	c.p.r.mu.Lock()
	defer c.p.r.mu.Unlock()
	if err := c.p.r.connectLocked(c, f.refusals()); err != nil {
		c.done <- outcome{err: err}
		return
	}
	c.done <- outcome{}
}

func (c *call) refuse(err error) bool {
	c.done <- outcome{err: &exchange.ConnError{Err: err}}
	return true
}

// connectLocked has the server accept a connection, or not.
func (r *Redis) connectLocked(c *call, once map[string]refusal) error {
	if r.down {
		r.facts[DialRefused]++
		return &exchange.ConnError{Err: errDown}
	}
	if x := r.refusedLocked(dial, once); x != nil {
		return x
	}
	r.facts[Dialed]++
	r.sessions[c.s] = struct{}{}
	return nil
}

// run carries a request to the server, and its reply back.
func (c *call) run() {
	defer c.p.r.end()
	defer c.forget()
	f, ok := c.arrive()
	if !ok {
		return
	}
	if out, ok := c.execute(f); ok {
		c.answer(out)
	}
}

// forget has the server close a connection that the client has closed. Not
// before its request was dealt with: what was sent before a close is still read.
func (c *call) forget() {
	c.p.r.mu.Lock()
	defer c.p.r.mu.Unlock()
	c.ended = true
	if c.left {
		c.p.r.forgetLocked(c.s)
	}
}

// arrive returns when the request is at the server, or false if it never will be.
func (c *call) arrive() (Fault, bool) {
	r := c.p.r
	f := c.step(Request, 0)
	if f.Late {
		c.late()
		sleep(f.Delay)
		f = c.step(Late, 0)
	}
	sleep(f.Delay)
	switch {
	case f.vain:
		return f, false
	case f.Lose:
		r.fact(RequestLost)
		return f, false
	case f.Cut:
		c.cut()
		return f, false
	}
	return f, true
}

// late tells the client that its connection has died, and only the client.
func (c *call) late() {
	c.p.r.mu.Lock()
	defer c.p.r.mu.Unlock()
	c.p.r.facts[RequestLate]++
	c.s.tellLocked()
}

func (c *call) cut() {
	c.p.r.mu.Lock()
	defer c.p.r.mu.Unlock()
	c.p.r.cutLocked(c.s)
}

// execute is the server at work; false if there is nobody to answer.
func (c *call) execute(f Fault) (out outcome, alive bool) {
	r := c.p.r
	r.mu.Lock()
	if c.s.dead {
		r.facts[RequestDead]++
		r.mu.Unlock()
		return out, false
	}
	out.committed, out.err = r.transactLocked(c, f)
	nobody := c.left || c.s.told
	r.mu.Unlock()
	if nobody {
		return out, false // what it would read, and the reply, go nowhere
	}
	if out.err != nil || len(c.keys) == 0 {
		return out, true
	}
	snap, err, alive := c.read(f.refusals())
	if err == nil {
		out.snap = snap
		return out, alive
	}
	var refused *exchange.ServerError
	if out.committed && errors.As(err, &refused) {
		refused.Applied = exchange.Maybe // of the levels that there are, the one that promises least
	}
	out.err = err
	return out, alive
}

// read is WATCH, GET of each key, TIME and, if that is due, INFO: one command after the other, so
// that what others do in between shows, as it may on a real server.
func (c *call) read(once map[string]refusal) (snap exchange.Snapshot, err error, alive bool) {
	snap.Values = make([]exchange.Value, 0, len(c.keys))
	for part := 0; part <= len(c.keys) && err == nil; part++ {
		f := c.step(Read, part)
		sleep(f.Delay)
		if f.vain {
			return snap, nil, false
		}
		if f.Cut {
			c.cut()
		}
		if err, alive = c.readPart(part, &snap, once); !alive {
			return snap, nil, false
		}
	}
	return snap, err, true
}

func (c *call) readPart(part int, snap *exchange.Snapshot, once map[string]refusal) (err error, alive bool) {
	r := c.p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.s.dead {
		return nil, false
	}
	if part == 0 {
		for _, command := range c.readCommands() {
			if x := r.refusedLocked(command, once); x != nil {
				return x, true
			}
		}
		r.watchLocked(c.s, c.keys)
	}
	if part == len(c.keys) {
		if err := r.tellTimeLocked(&c.s.info, snap, once); err != nil {
			return err, true
		}
		return r.readEachLocked(snap, once), true
	}
	snap.Values = append(snap.Values, r.getLocked(c.keys[part]))
	return nil, true
}

// manyKeys is from how many keys on redistx reads them by MGET and EXISTS, and by
// a GET only if one of them turns out to be of a foreign type.
const manyKeys = 3

func (c *call) readCommands() []string {
	if len(c.keys) < manyKeys {
		return []string{"WATCH", "GET"}
	}
	return []string{"WATCH", "MGET", "EXISTS"}
}

// readEachLocked is the second round trip, after the first has shown a foreign type.
func (r *Redis) readEachLocked(snap *exchange.Snapshot, once map[string]refusal) error {
	foreign := slices.ContainsFunc(snap.Values, func(v exchange.Value) bool { return v.Err != nil })
	if len(snap.Values) < manyKeys || !foreign {
		return nil
	}
	if x := r.refusedLocked("GET", once); x != nil {
		return x
	}
	return nil
}

func (r *Redis) tellTimeLocked(known *identity, snap *exchange.Snapshot, once map[string]refusal) error {
	if x := r.refusedLocked("TIME", once); x != nil {
		return x
	}
	if now := time.Now(); known.due(now) {
		if x := r.refusedLocked("INFO", once); x != nil {
			return x
		}
		*known = identity{runID: r.runID, uptime: r.uptimeLocked(), asked: now}
	}
	snap.Micros, snap.RunID, snap.Uptime = r.microsLocked(), known.runID, known.uptime
	return nil
}

// answer brings the reply to the client.
func (c *call) answer(out outcome) {
	f := c.step(Reply, 0)
	sleep(f.Delay)
	switch {
	case f.vain:
		return
	case f.Lose:
		c.p.r.fact(ReplyLost)
		return
	case f.Cut:
		c.cut()
		return
	}
	c.p.node.awake(c.p.r)
	c.done <- out
}

func (f Fault) refusals() map[string]refusal {
	if len(f.Refuse) == 0 {
		return nil
	}
	once := make(map[string]refusal)
	for _, x := range f.Refuse {
		x.addTo(once)
	}
	return once
}

var (
	errDown    = errors.New("sim: connection refused")
	errCut     = errors.New("sim: connection reset")
	errTimeout = errors.New("sim: no answer before the deadline")
	errEarly   = errors.New("sim: the context had ended before anything was sent")
	errClosing = errors.New("sim: the port was closed under the exchange")
)
