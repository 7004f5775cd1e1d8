package redistx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// maxStale is how many connections one dial takes from the pool before it gives
// up: after a restart of the server every idle one fails once.
const maxStale = 4

// identityLasts is how long what INFO said of the server counts for further
// exchanges on the same connection. One connection leads to one start of one
// server, so its run id cannot change under it; only something that speaks Redis
// in between could pass the connection on, and this is how soon that is noticed.
// The INFO of each exchange would be a fifth of what the server does for it.
const identityLasts = time.Second

// conn is a dedicated connection. Its fields belong to the holder of the turn,
// and after that to the goroutine that ends it.
type conn struct {
	dedicated rueidis.DedicatedClient
	release   func()
	pending   bool // the server may hold watches for it
	guarded   bool // the last exchange watched and read without an error

	runID  string // as INFO said last
	uptime int64
	asked  time.Time // when INFO was asked for last, and answered; zero: never
}

func (c *conn) identified(now time.Time) bool {
	return !c.asked.IsZero() && now.Sub(c.asked) < identityLasts
}

// end gives the connection back to the pool if it is certainly clean, and closes
// it otherwise: a pool hands on a WATCH, or an open MULTI, to its next user.
func (c *conn) end(polite bool, unwatch rueidis.Completed) {
	if polite && c.unwatched(unwatch) {
		c.release()
		return
	}
	c.dedicated.Close()
}

func (c *conn) unwatched(unwatch rueidis.Completed) bool {
	if !c.pending {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), unwatchTimeout)
	defer cancel()
	answer := c.dedicated.Do(ctx, unwatch)
	return expectOK(&answer, "UNWATCH") == nil
}

// dialing is one attempt to get a connection; its result is guarded by Port.mu.
type dialing struct {
	done chan struct{} // closed when conn and err are set
	conn *conn
	err  error
}

func (d *dialing) failed() bool {
	select {
	case <-d.done:
		return d.err != nil
	default:
		return false
	}
}

// connect waits for a connection. It is called with the turn.
func (p *Port) connect(ctx context.Context) (*conn, error) {
	d, err := p.dial()
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(p.dialTimeout)
	defer timer.Stop()
	start := time.Now()
	select {
	case <-d.done:
		return p.adopt(d)
	case <-p.quit:
		return nil, exchange.ErrClosed
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, dialError(fmt.Errorf(
		"the client's pool of dedicated connections gave none within %s: it is exhausted, or the server doesn't answer",
		time.Since(start).Round(time.Millisecond)))
}

// dial starts an attempt, or joins the one that an earlier exchange gave up
// waiting for: Dedicate cannot be told to stop, and a second goroutine would only
// wait behind the first. An attempt that failed in the meantime is old news.
func (p *Port) dial() (*dialing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, exchange.ErrClosed
	}
	if p.dialing == nil || p.dialing.failed() {
		p.dialing = &dialing{done: make(chan struct{})}
		go p.run(p.dialing)
	}
	return p.dialing, nil
}

// run ends either in a result for whoever calls adopt, or, if the port was closed
// while Dedicate blocked, by ending the late connection itself.
func (p *Port) run(d *dialing) {
	c, err := p.dedicate()
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(d.done)
	if p.closed && c != nil {
		p.retire(c, true)
		c, err = nil, exchange.ErrClosed
	}
	d.conn, d.err = c, err
}

// adopt makes the connection of an ended attempt the port's own.
func (p *Port) adopt(d *dialing) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, exchange.ErrClosed // Close has ended d.conn
	}
	p.dialing = nil
	p.conn = d.conn
	return d.conn, d.err
}

// dedicate takes a slot and a connection that answers. A slot that comes without
// a connection is given up again.
func (p *Port) dedicate() (c *conn, err error) {
	select {
	case p.slots <- struct{}{}:
	case <-p.quit:
		return nil, exchange.ErrClosed
	}
	for range maxStale {
		if c, err = p.try(); err == nil {
			return c, nil
		}
		if !stale(err) {
			break
		}
	}
	<-p.slots
	return nil, err
}

// try takes one connection from the pool. The UNWATCH finds out whether it lives,
// and undoes what its last user may have left: a WATCH is dropped, an open MULTI
// shows by its QUEUED.
func (p *Port) try() (*conn, error) {
	c := &conn{}
	c.dedicated, c.release = p.client.Dedicate()
	ctx, cancel := context.WithTimeout(context.Background(), p.dialTimeout)
	defer cancel()
	answer := c.dedicated.Do(ctx, p.fixed.unwatch)
	err := p.judgeFirst(&answer)
	if err != nil {
		c.end(false, p.fixed.unwatch)
		return nil, err
	}
	return c, nil
}

func (p *Port) judgeFirst(answer *rueidis.RedisResult) error {
	if err := answer.NonRedisError(); err != nil {
		if reply, ok := redisError(err); ok {
			return refused("the connection", reply, exchange.Nothing)
		}
		return dialError(err)
	}
	err := expectOK(answer, "UNWATCH")
	var refusal *exchange.ServerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refusal):
		if p.lenient && refusal.Kind == exchange.NoPerm {
			return nil
		}
		return err
	}
	return dialError(errLeftMulti)
}

// stale says that a connection was dead, or spoilt, before we got it.
func stale(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, errLeftMulti)
}

// drop gives up c at once, unless Close was faster. The next exchange dials.
func (p *Port) drop(c *conn) {
	p.mu.Lock()
	mine := p.conn == c
	if mine {
		p.conn = nil
	}
	p.mu.Unlock()
	if mine {
		p.retire(c, false)
	}
}

// retire ends c in a goroutine, as it may take a second, and then gives up its slot.
func (p *Port) retire(c *conn, polite bool) {
	go func() {
		defer func() { <-p.slots }()
		c.end(polite, p.fixed.unwatch)
	}()
}

// Close gives the connection back to the client's pool, or closes it if it is
// busy or doesn't answer. It returns after a second and a half at the latest,
// and may be called again and from any goroutine; an exchange under way ends
// with an error, later ones with exchange.ErrClosed.
//
// If the pool is exhausted, the one goroutine that waits for it outlives Close:
// it ends when the pool gives it a connection, which it hands back, or when the
// client is closed.
func (p *Port) Close() {
	if !p.shut() {
		<-p.ended
		return
	}
	defer close(p.ended)
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	for range maxConns { // holding every slot: nothing is being dialed, used or closed
		select {
		case p.slots <- struct{}{}:
		case <-timer.C:
			return
		}
	}
}

// shut takes the connection from the port, and has it ended; false if that was done before.
func (p *Port) shut() bool {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return false
	}
	p.closed = true
	close(p.quit)
	c, d := p.conn, p.dialing
	p.conn, p.dialing = nil, nil
	unfetched := d != nil && d.conn != nil
	p.mu.Unlock()

	// With the turn in hand no exchange can be on the connection, now or later.
	// Without it one is, and closing the connection under it ends it.
	idle := p.turn.TryLock()
	if idle {
		p.turn.Unlock()
	}
	if c != nil {
		p.retire(c, idle)
	}
	if unfetched {
		p.retire(d.conn, true)
	}
	return true
}
