package redistest

import (
	"net"
	"sync"
	"testing"
)

// Proxy stands between a client and a server and loses what a test tells it to lose:
// replies of commands that were carried out, commands that arrive when nobody waits
// for them any more, everything after a given byte. Its address never changes.
//
// A paused direction is a network that is cut without anyone being told: what is
// sent waits, and is delivered after Resume, even if its sender has closed the
// connection since. Cut throws it away.
type Proxy struct {
	listener net.Listener
	upstream string
	running  sync.WaitGroup // accept loop and pumps

	mu     sync.Mutex // guards the fields below
	closed bool
	links  map[*link]struct{}
	up     direction
	down   direction
	total  int
}

// direction is one way through the proxy; guarded by Proxy.mu.
type direction struct {
	open    chan struct{} // closed while bytes may pass; replaced by a pause
	bytes   int64
	limit   int64         // bytes that may still pass before something is done; -1: any
	hold    bool          // at the limit: pause the direction, else cut everything
	reached chan struct{} // closed when there was more than the limit
}

// NewProxy starts a proxy to the server at upstream; it ends with the test.
func NewProxy(t testing.TB, upstream string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: proxy: %v", err)
	}
	p := &Proxy{
		listener: listener,
		upstream: upstream,
		links:    make(map[*link]struct{}),
		up:       direction{open: closedChan(), limit: -1},
		down:     direction{open: closedChan(), limit: -1},
	}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func closedChan() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Addr returns host:port of the proxy, for clients.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// PauseUpstream holds back what clients send from now on.
func (p *Proxy) PauseUpstream() { p.pause(&p.up) }

// PauseDownstream holds back what the server answers from now on.
func (p *Proxy) PauseDownstream() { p.pause(&p.down) }

// Resume delivers what was held back, and lets everything pass again.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range []*direction{&p.up, &p.down} {
		d.limit = -1
		if !isClosed(d.open) {
			close(d.open)
		}
	}
}

// Cut closes all connections and throws away what was held back. New connections are
// accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutLocked()
}

// CutAfterUp lets n more bytes of all clients together reach the server; when there
// is more, it closes all connections, once. With 0 the next request is lost. The
// channel is closed when that happens; a later limit of the direction replaces it.
func (p *Proxy) CutAfterUp(n int64) (reached <-chan struct{}) { return p.limit(&p.up, n, false) }

// CutAfterDown lets n more bytes of the server reach clients; when there is more, it
// closes all connections, once. With 0 the next request is carried out and its reply
// is lost.
func (p *Proxy) CutAfterDown(n int64) (reached <-chan struct{}) { return p.limit(&p.down, n, false) }

// PauseAfterUp lets n more bytes of all clients together reach the server, and holds
// back what comes after them, as PauseUpstream does.
func (p *Proxy) PauseAfterUp(n int64) (reached <-chan struct{}) { return p.limit(&p.up, n, true) }

// PauseAfterDown lets n more bytes of the server reach clients, and holds back what
// comes after them, as PauseDownstream does.
func (p *Proxy) PauseAfterDown(n int64) (reached <-chan struct{}) { return p.limit(&p.down, n, true) }

// Connections returns how many connections were accepted so far.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// Bytes returns how many bytes were delivered in each direction.
func (p *Proxy) Bytes() (up, down int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up.bytes, p.down.bytes
}

func (p *Proxy) pause(d *direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isClosed(d.open) {
		d.open = make(chan struct{})
	}
}

func (p *Proxy) limit(d *direction, n int64, hold bool) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.limit, d.hold, d.reached = n, hold, make(chan struct{})
	return d.reached
}

func (p *Proxy) cutLocked() {
	for l := range p.links {
		l.cut()
	}
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true // for a connection that was accepted just before
	p.cutLocked()
	p.mu.Unlock()
	p.running.Wait()
}

// gate returns the channel that is closed while bytes may pass.
func (p *Proxy) gate(d *direction) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return d.open
}

// allow returns how many of n bytes may pass, and counts them. If it is fewer, the
// limit is used up: the connections have to be cut once those have passed, or the
// direction is paused by now.
func (p *Proxy) allow(d *direction, n int) (allowed int, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.limit >= 0 && int64(n) > d.limit {
		n, cut = int(d.limit), !d.hold
		d.limit = -1
		if d.hold && isClosed(d.open) {
			d.open = make(chan struct{})
		}
		close(d.reached)
	} else if d.limit >= 0 {
		d.limit -= int64(n)
	}
	d.bytes += int64(n)
	return n, cut
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
