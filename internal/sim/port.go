package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// defaultTimeout bounds an exchange whose ctx has no deadline.
const defaultTimeout = 5 * time.Second

// ErrKilled is the cause of whatever a crashed node gets from its port.
var ErrKilled = errors.New("sim: this node has crashed")

// Port is one node's way to the server: one connection at a time.
type Port struct {
	r    *Redis
	node *node

	turn chan struct{} // holds an element while an exchange runs; guards the fields below
	conn *session      // nil if there is none
	last int           // number of the last exchange

	closing sync.Once
	quit    chan struct{} // closed by Close
}

// Port is a new node's port. Nodes are named node-1, node-2 and so on.
func (r *Redis) Port() *Port {
	r.mu.Lock()
	name := fmt.Sprintf("node-%d", len(r.nodes)+1)
	r.mu.Unlock()
	return r.PortOf(name)
}

// PortOf is the port of a new node with that name.
func (r *Redis) PortOf(name string) *Port {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &node{name: name, connected: !r.down, killed: make(chan struct{})}
	r.nodes = append(r.nodes, n)
	return &Port{r: r, node: n, turn: make(chan struct{}, 1), quit: make(chan struct{})}
}

// Node is the name of the node.
func (p *Port) Node() string { return p.node.name }

// Exchange applies commit, if it is not empty, and watches and reads keys, if
// there are any. With neither it only drops the watches of the exchange before.
//
// committed is true if all of commit was applied, also beside an error: then the
// read failed. (false, snapshot, nil) with a commit is a conflict; the snapshot
// is good. Errors are *exchange.ServerError, *exchange.ConnError,
// exchange.ErrNoWatch and exchange.ErrClosed.
//
// As on a real connection only the deadline of ctx ends an exchange that was
// sent; a cancel doesn't.
func (p *Port) Exchange(ctx context.Context, commit *exchange.Writes, keys []string) (committed bool, snap exchange.Snapshot, err error) {
	if err := p.takeTurn(ctx); err != nil {
		return false, snap, err
	}
	defer p.endTurn()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(defaultTimeout)
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	p.last++
	c := &call{p: p, number: p.last, commit: cloneWrites(commit), keys: slices.Clone(keys)}
	if idle, err := p.ready(c, timer.C); err != nil || idle {
		return false, snap, err
	}
	out := p.send(c, timer.C)
	return out.committed, out.snap, out.err
}

func (p *Port) takeTurn(ctx context.Context) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return &exchange.ConnError{Err: errEarly}
	}
	err := p.usable(ctx)
	if err != nil {
		<-p.turn
	}
	return err
}

// endTurn looks at quit after the turn is free again: if Close came in between,
// and left the connection to the exchange that had the turn, it sees so here.
func (p *Port) endTurn() {
	<-p.turn
	if isClosed(p.quit) {
		p.hangUp()
	}
}

func (p *Port) usable(ctx context.Context) error {
	switch {
	case isClosed(p.node.killed):
		return &exchange.ConnError{Err: ErrKilled}
	case isClosed(p.quit):
		return exchange.ErrClosed
	case ctx.Err() != nil:
		return &exchange.ConnError{Err: errEarly}
	}
	return nil
}

// ready sees to a connection. idle: there is nothing to do.
func (p *Port) ready(c *call, deadline <-chan time.Time) (idle bool, err error) {
	switch {
	case !c.commit.Empty() && (p.conn == nil || !p.conn.guarded):
		p.r.fact(NoWatch)
		return false, exchange.ErrNoWatch
	case p.conn == nil && len(c.keys) == 0:
		return true, nil
	case p.conn == nil:
		return false, p.connect(c, deadline)
	}
	c.s = p.conn
	return c.commit.Empty() && len(c.keys) == 0 && !p.conn.pending, nil
}

func (p *Port) connect(c *call, deadline <-chan time.Time) error {
	c.s = &session{gone: make(chan struct{})}
	c.done = make(chan outcome, 1)
	p.r.begin()
	go c.dial()
	out := p.await(c, deadline, false)
	if out.err == nil {
		p.conn = c.s
	}
	return out.err
}

// send runs the exchange. What the connection is believed to hold is set first
// to the worst case.
func (p *Port) send(c *call, deadline <-chan time.Time) outcome {
	c.s.guarded = false
	c.s.pending = c.s.pending || len(c.keys) > 0
	if isClosed(c.s.gone) {
		// It died while it was idle, which only a write finds out.
		p.leave(c)
		return outcome{err: &exchange.ConnError{Sent: true, Err: errCut}}
	}
	c.done = make(chan outcome, 1)
	p.r.begin()
	go c.run()
	out := p.await(c, deadline, true)
	if out.err == nil {
		c.s.pending = len(c.keys) > 0
		c.s.guarded = c.s.pending
	}
	return out
}

// await waits for the answer. If none comes, the connection is given up.
func (p *Port) await(c *call, deadline <-chan time.Time, sent bool) outcome {
	var err error
	select {
	case out := <-c.done:
		return out
	case <-c.s.gone:
		err = errCut
	case <-deadline:
		err = errTimeout
	case <-p.quit:
		err = errClosing
	case <-p.node.killed:
		err = ErrKilled
	}
	select {
	case out := <-c.done: // in the same moment; select picks any
		if !errors.Is(err, ErrKilled) {
			return out
		}
	default:
	}
	if errors.Is(err, errTimeout) {
		p.r.fact(TimedOut)
	}
	p.leave(c)
	return outcome{err: &exchange.ConnError{Sent: sent, Err: err}}
}

// leave gives up the connection of a call. The wire may still carry its request.
func (p *Port) leave(c *call) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	c.left = true
	p.conn = nil
	if c.ended || c.done == nil {
		p.r.forgetLocked(c.s)
	}
}

// Close gives the connection back. An exchange under way ends with an error.
func (p *Port) Close() {
	p.closing.Do(func() { close(p.quit) })
	p.hangUp()
}

// hangUp closes the connection, unless an exchange is on it, which will do so.
func (p *Port) hangUp() {
	select {
	case p.turn <- struct{}{}:
	default:
		return
	}
	defer func() { <-p.turn }()
	if p.conn == nil {
		return
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.forgetLocked(p.conn)
	p.conn = nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
