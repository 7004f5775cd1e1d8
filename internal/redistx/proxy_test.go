package redistx

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

var execCommand = []byte("*1\r\n$4\r\nEXEC\r\n")

// proxy stands between a client and a server, and meddles when it sees an EXEC.
type proxy struct {
	addr     string
	upstream string

	cut atomic.Bool // the next answer is read, thrown away, and the connection closed
	wg  sync.WaitGroup

	mu         sync.Mutex // guards the fields below
	beforeExec func()     // runs once, when all that precedes the EXEC has been answered
	conns      []net.Conn
}

func startProxy(t *testing.T, upstream string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{addr: l.Addr().String(), upstream: upstream}
	p.wg.Go(func() {
		for {
			down, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(down) })
		}
	})
	t.Cleanup(func() { l.Close(); p.closeAll(); p.wg.Wait() })
	return p
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

// loseNextExec has the next EXEC executed and its answer lost.
func (p *proxy) loseNextExec() {
	p.onNextExec(func() { p.cut.Store(true) })
}

// onNextExec runs f between the queued commands and their EXEC.
func (p *proxy) onNextExec(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beforeExec = f
}

func (p *proxy) serve(down net.Conn) {
	up, err := net.Dial("tcp", p.upstream)
	if err != nil {
		down.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, down, up)
	p.mu.Unlock()
	answered := make(chan struct{}, 1<<10) // one element per chunk that came back
	p.wg.Go(func() { p.answers(down, up, answered) })
	p.requests(down, up, answered)
	up.Close()
}

func (p *proxy) requests(down, up net.Conn, answered chan struct{}) {
	buf := make([]byte, 64<<10)
	for {
		n, err := down.Read(buf)
		if err != nil {
			return
		}
		if i := bytes.Index(buf[:n], execCommand); i >= 0 {
			p.meddle(up, buf[:i], answered)
			_, err = up.Write(buf[i:n])
		} else {
			_, err = up.Write(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) meddle(up net.Conn, before []byte, answered chan struct{}) {
	p.mu.Lock()
	f := p.beforeExec
	p.beforeExec = nil
	p.mu.Unlock()
	for len(answered) > 0 {
		<-answered
	}
	if _, err := up.Write(before); err != nil || f == nil {
		return
	}
	<-answered // what precedes is queued
	f()
}

func (p *proxy) answers(down, up net.Conn, answered chan struct{}) {
	defer down.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := up.Read(buf)
		if err != nil {
			close(answered)
			return
		}
		if p.cut.CompareAndSwap(true, false) {
			return // the EXEC was executed, for here is its answer
		}
		// Before the client sees it, so that it cannot be mistaken for an answer to what it sends next.
		select {
		case answered <- struct{}{}:
		default:
		}
		if _, err := down.Write(buf[:n]); err != nil {
			return
		}
	}
}
