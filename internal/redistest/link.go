package redistest

import (
	"net"
	"sync"
)

// link is one client's connection through a [Proxy].
type link struct {
	client  net.Conn
	server  net.Conn
	once    sync.Once     // closes the three below
	severed chan struct{} // closed by cut, so that a pump that holds bytes back ends
}

func (l *link) cut() {
	l.once.Do(func() {
		close(l.severed)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		server, err := net.Dial("tcp", p.upstream)
		if err != nil {
			_ = client.Close() // as near to "refused" as a proxy gets
			continue
		}
		p.connect(&link{client: client, server: server, severed: make(chan struct{})})
	}
}

func (p *Proxy) connect(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.cut()
		return
	}
	p.total++
	p.links[l] = struct{}{}
	var pumps sync.WaitGroup
	pumps.Go(func() { p.pump(l, &p.up, l.client, l.server) })
	pumps.Go(func() { p.pump(l, &p.down, l.server, l.client) })
	p.running.Go(func() {
		pumps.Wait()
		l.cut()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
	})
}

// pump carries bytes in one direction until its source ends or the link is cut. The
// end of the source is passed on as such only after what came before it: that is
// how a request of a client that has long given up still reaches the server.
func (p *Proxy) pump(l *link, d *direction, from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.deliver(l, d, to, buffer[:n]) {
			return
		}
		if err != nil {
			if tcp, ok := to.(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
			return
		}
	}
}

// deliver reports whether the pump may go on.
func (p *Proxy) deliver(l *link, d *direction, to net.Conn, chunk []byte) bool {
	for len(chunk) > 0 {
		// A gate that was open when it was asked for may be replaced right after:
		// such a chunk counts as sent before the pause.
		select {
		case <-p.gate(d):
		case <-l.severed:
			return false
		}
		n, cut := p.allow(d, len(chunk))
		if n > 0 {
			if _, err := to.Write(chunk[:n]); err != nil {
				l.cut()
				return false
			}
		}
		if cut {
			p.Cut()
			return false
		}
		chunk = chunk[n:]
	}
	return true
}
