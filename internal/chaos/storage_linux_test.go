package chaos_test

import (
	"bufio"
	"encoding/json"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redislockservice/redislockservice/internal/chaos"
)

// monotonic is one clock for all processes of the machine.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// serveStorage gives the workers access to the storage, over a socket that no
// fault touches. Requests and answers are a JSON object a line.
func serveStorage(t *testing.T, s *chaos.Storage, socket string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	var running sync.WaitGroup
	var mu sync.Mutex // guards conns
	conns := make(map[net.Conn]struct{})
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			mu.Lock()
			conns[conn] = struct{}{}
			mu.Unlock()
			running.Go(func() {
				serveClient(s, conn)
				mu.Lock()
				defer mu.Unlock()
				delete(conns, conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
}

func serveClient(s *chaos.Storage, conn net.Conn) {
	defer conn.Close()
	requests, answers := json.NewDecoder(bufio.NewReader(conn)), json.NewEncoder(conn)
	for {
		var a chaos.Access
		if requests.Decode(&a) != nil || answers.Encode(s.Do(a)) != nil {
			return
		}
	}
}

// storageClient is one client's connection to the storage.
type storageClient struct {
	socket  string
	conn    net.Conn
	out     *json.Encoder
	answers *json.Decoder
}

func (c *storageClient) do(a chaos.Access) (chaos.Answer, bool) {
	var answer chaos.Answer
	if c.conn == nil {
		conn, err := net.Dial("unix", c.socket)
		if err != nil {
			return answer, false
		}
		c.conn, c.out, c.answers = conn, json.NewEncoder(conn), json.NewDecoder(bufio.NewReader(conn))
	}
	if c.out.Encode(a) != nil || c.answers.Decode(&answer) != nil {
		c.close()
		return answer, false
	}
	return answer, true
}

func (c *storageClient) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// readAll reads both cells of each name, and tells which reads were refused. A cell
// that refuses isn't written later.
func (c *storageClient) readAll(wants []chaos.Want, token int64, id string) (seen map[string]string, refused []chaos.Event) {
	seen = make(map[string]string)
	for _, want := range wants {
		for _, fenced := range []bool{true, false} {
			before := monotonic()
			answer, ok := c.do(chaos.Access{Name: want.Name, Fenced: fenced, Token: token})
			switch {
			case ok && answer.Refused:
				refused = append(refused, chaos.Event{Kind: chaos.EventStore, ID: id, Name: want.Name, At: before, Until: monotonic(), Refused: true})
			case ok:
				seen[cellKey(want.Name, fenced)] = answer.Head
			}
		}
	}
	return seen, refused
}

// writeAll replaces what was read, and returns what became of the fenced writes.
func (c *storageClient) writeAll(wants []chaos.Want, token int64, id string, seen map[string]string) []chaos.Event {
	var out []chaos.Event
	for _, want := range wants {
		for _, fenced := range []bool{true, false} {
			base, ok := seen[cellKey(want.Name, fenced)]
			if !ok {
				continue
			}
			before := monotonic()
			answer, ok := c.do(chaos.Access{Name: want.Name, Fenced: fenced, Write: true, Token: token, Base: base, ID: id})
			if ok && fenced {
				out = append(out, chaos.Event{Kind: chaos.EventStore, ID: id, Name: want.Name, At: before, Until: monotonic(), Refused: answer.Refused})
			}
		}
	}
	return out
}

func cellKey(name string, fenced bool) string {
	if fenced {
		return name + " fenced"
	}
	return name
}
