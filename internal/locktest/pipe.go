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
		n, err := p.Conn.Read(b)
		p.mu.Lock()
		deaf := p.deaf
		p.mu.Unlock()
		if err != nil || !deaf {
			return n, err
		}
	}
}

// Close lets nothing be read from now on. The connection ends once what is queued
// has been delivered.
func (p *pipe) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.deaf = true, true
	p.signal()
	return p.Conn.SetReadDeadline(time.Unix(1, 0))
}

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
				time.Sleep(time.Millisecond) // on fake time: until the server has worked on it
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
	ghost := p.closed
	p.mu.Unlock()
	if ghost {
		// The client reads no more; without a reader the server would hang.
		_ = p.Conn.SetReadDeadline(time.Time{})
		go func() { _, _ = io.Copy(io.Discard, p.Conn) }()
	}
	if _, err := p.Conn.Write(chunk); err != nil {
		return false
	}
	if lose {
		time.Sleep(time.Millisecond) // on fake time: until the server has worked on it
	}
	return !lose
}
