package locktest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// pipe is a client's end of a connection to miniredis. It has a buffer, as a socket
// has, so that what was sent while the server was paused reaches it afterwards, also
// if the client has closed the connection since.
type pipe struct {
	net.Conn
	mini *mini

	mu     sync.Mutex // guards the fields below
	queue  [][]byte
	closed bool // by the client
	deaf   bool // replies are lost

	work chan struct{} // one slot: queue or closed has changed
	dead chan struct{} // closed by kill
	once sync.Once     // of kill
}

func newPipe(conn net.Conn, m *mini) *pipe {
	p := &pipe{Conn: conn, mini: m, work: make(chan struct{}, 1), dead: make(chan struct{})}
	go p.pump()
	return p
}

// Write queues a copy of the bytes.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.isDead() {
		return 0, net.ErrClosed
	}
	p.queue = append(p.queue, bytes.Clone(b))
	p.signal()
	return len(b), nil
}

// Read throws replies away if they are to be lost.
func (p *pipe) Read(b []byte) (int, error) {
	for {
		if closed, _ := p.state(); closed {
			return 0, net.ErrClosed
		}
		n, err := p.Conn.Read(b)
		switch closed, deaf := p.state(); {
		case closed:
			return 0, net.ErrClosed
		case err != nil || !deaf:
			return n, err
		}
	}
}

func (p *pipe) state() (closed, deaf bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed, p.deaf
}

// Close lets nothing be read from now on. The connection ends once what is queued
// has been delivered; until then, replies and messages are thrown away: the server
// would hang, with all its clients, if nobody read them.
func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	p.signal()
	_ = p.Conn.SetReadDeadline(time.Unix(1, 0)) // ends a Read under way
	_ = p.Conn.SetReadDeadline(time.Time{})
	go func() { _, _ = io.Copy(io.Discard, p.Conn) }()
	return nil
}

// SetReadDeadline and SetDeadline are for the client: they don't reach who throws
// away what comes after Close.
func (p *pipe) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return net.ErrClosed
	}
	return p.Conn.SetReadDeadline(t)
}

func (p *pipe) SetDeadline(t time.Time) error { return p.SetReadDeadline(t) }

// kill breaks the connection, and loses what is queued.
func (p *pipe) kill() {
	p.once.Do(func() {
		close(p.dead)
		_ = p.Conn.Close()
		p.mini.forget(p)
	})
}

func (p *pipe) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

func (p *pipe) signal() {
	select {
	case p.work <- struct{}{}:
	default:
	}
}

// pump delivers what is queued, while the server isn't paused.
func (p *pipe) pump() {
	defer p.kill()
	for {
		select {
		case <-p.work:
		case <-p.dead:
			return
		}
		for {
			chunk, closed := p.next()
			if chunk == nil && closed {
				pass(time.Millisecond) // on fake time: until the server has worked on it
				return
			}
			if chunk == nil {
				break
			}
			if !p.deliver(chunk) {
				return
			}
		}
	}
}

func (p *pipe) next() (chunk []byte, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return nil, p.closed
	}
	chunk = p.queue[0]
	p.queue = p.queue[1:]
	return chunk, p.closed
}

func (p *pipe) deliver(chunk []byte) bool {
	if gate := p.mini.gate(); gate != nil {
		select {
		case <-gate:
		case <-p.dead:
			return false
		}
	}
	lose := p.mini.losesReplyTo(chunk)
	p.mu.Lock()
	p.deaf = p.deaf || lose
	p.mu.Unlock()
	if _, err := p.Conn.Write(chunk); err != nil {
		return false
	}
	if lose {
		pass(time.Millisecond) // on fake time: until the server has worked on it
	}
	return !lose
}
