package locktest

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/faketime"
)

// Bubble runs f in a bubble of testing/synctest, on a miniredis of its own that has
// been up for an hour. Time is fake for all of them, and goes on when nobody has
// anything to do. Leases are the default of a minute.
func Bubble(t *testing.T, f func(t *testing.T, env *Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &mini{}
		// Registered first, so it comes last: the clients leave timers behind that
		// end within this time, and a paused server has to deliver what it holds.
		t.Cleanup(func() {
			m.unpause(t)
			faketime.Pass(time.Minute)
		})
		m.open(t)
		env := newEnv(t, m, "bubble")
		env.Lease, env.Poll, env.Fake = time.Minute, 5*time.Second, true
		f(t, env)
	})
}

// pass lets time go by: the bubble's, or real time where there is no other way.
func pass(d time.Duration) {
	time.Sleep(d) // poll: a lease of a real server runs out by time alone
}

// settle waits until nobody in the bubble has anything to do without time going on.
func settle() { synctest.Wait() }

// mini is a miniredis that answers INFO server and can be hurt. Its clients dial
// through pipes, which have no buffer: see pipe.
type mini struct {
	redis *miniredis.Miniredis
	admin rueidis.Client

	mu    sync.Mutex    // guards the fields below
	run   int           // counts the starts
	start time.Time     // of this run
	down  bool          // dials fail
	held  chan struct{} // nil, or open while the server is paused
	lose  string        // the reply to the next such command is lost
	conns map[*pipe]struct{}

	counts map[string]int // of commands
}

func (m *mini) open(t *testing.T) {
	m.redis, m.start = miniredis.NewMiniRedis(), time.Now().Add(-time.Hour)
	m.conns, m.counts = make(map[*pipe]struct{}), make(map[string]int)
	m.redis.ClockTTL(true)
	var err error
	m.admin, err = newClient(t, miniOption(func() (net.Conn, error) {
		conn, err := m.redis.Dial() // the first one starts the server
		m.redis.Server().SetPreHook(m.hook)
		return conn, err
	}))
	require.NoError(t, err)
}

// hook counts commands, and serves the section of INFO that miniredis doesn't have.
func (m *mini) hook(p *miniserver.Peer, cmd string, args ...string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[cmd]++
	if cmd != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
		return false
	}
	p.WriteBulk(fmt.Sprintf("# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:%040d\r\nuptime_in_seconds:%d\r\n",
		m.run, int(time.Since(m.start).Seconds())))
	return true
}

func miniOption(dial func() (net.Conn, error)) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{"mini:0"}, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return dial() },
	}
}

func (m *mini) client(t testing.TB, change func(*rueidis.ClientOption)) (rueidis.Client, error) {
	option := miniOption(m.dial)
	change(&option)
	return newClient(t, option)
}

func (m *mini) do(t testing.TB, args ...string) rueidis.RedisMessage {
	t.Helper()
	msg, err := m.admin.Do(context.Background(), m.admin.B().Arbitrary(args...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		require.NoError(t, err, "%s", args[0])
	}
	return msg
}

func (m *mini) dial() (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("connection refused")}
	}
	conn, err := m.redis.Dial()
	if err != nil {
		return nil, err
	}
	p := newPipe(conn, m)
	m.conns[p] = struct{}{}
	return p, nil
}

func (m *mini) forget(p *pipe) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, p)
}

func (m *mini) restart(t testing.TB, keepData bool) {
	m.cut(t)
	m.mu.Lock()
	m.run++
	m.start = time.Now()
	m.mu.Unlock()
	if !keepData {
		m.do(t, "FLUSHALL")
	}
	m.heal(t)
}

func (m *mini) cut(testing.TB) {
	m.mu.Lock()
	m.down = true
	var all []*pipe
	for p := range m.conns {
		all = append(all, p)
	}
	m.mu.Unlock()
	for _, p := range all {
		p.kill()
	}
}

func (m *mini) heal(testing.TB) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = false
}

func (m *mini) pause(testing.TB) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = make(chan struct{})
}

func (m *mini) unpause(testing.TB) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held != nil {
		close(m.held)
	}
	m.held = nil
}

// gate is nil, or closed when the server goes on.
func (m *mini) gate() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// loseReply has the server carry out the next command of a name, and break the
// connection instead of answering.
func (m *mini) loseReply(command string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lose = command
}

func (m *mini) losesReplyTo(chunk []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lose == "" || !bytes.Contains(chunk, []byte("\r\n"+m.lose+"\r\n")) {
		return false
	}
	m.lose = ""
	return true
}

// commandsInBubble counts the commands of a name so far.
func (e *Env) commandsInBubble(name string) int {
	m := e.server.(*mini)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[name]
}
