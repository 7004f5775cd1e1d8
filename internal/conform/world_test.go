package conform

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/redistx"
	"github.com/redislockservice/redislockservice/internal/sim"
)

// nodes is how many ports each world has.
const nodes = 2

// world is one of the things that are compared.
type world interface {
	name() string
	port(node int) lane.Port
	// What somebody else does.
	set(key, value string, ttl time.Duration)
	del(key string)
	touch(key string, ttl time.Duration)
	list(key string)
	flush()
	kill()
	deny(command string)
	allow()
	// look is what a key holds, and roughly for how long.
	look(key string) string
}

// short is the one expiry that a sequence waits for; the other is out of reach.
const (
	short = 300 * time.Millisecond
	long  = time.Hour
)

func describe(value string, exists bool, left time.Duration) string {
	switch {
	case !exists:
		return "missing"
	case left <= 0:
		return fmt.Sprintf("%q for ever", value)
	case left > short:
		return fmt.Sprintf("%q for long", value)
	}
	return fmt.Sprintf("%q for a moment", value)
}

// simWorld is the port in memory.
type simWorld struct {
	r     *sim.Redis
	ports [nodes]*sim.Port
}

func newSimWorld(t *testing.T) *simWorld {
	t.Helper()
	w := &simWorld{r: sim.NewRedis()}
	for i := range w.ports {
		w.ports[i] = w.r.Port()
		t.Cleanup(w.ports[i].Close)
	}
	return w
}

func (w *simWorld) name() string                           { return "sim" }
func (w *simWorld) port(node int) lane.Port                { return w.ports[node] }
func (w *simWorld) set(key, value string, d time.Duration) { w.r.Put(key, []byte(value), d) }
func (w *simWorld) del(key string)                         { w.r.Delete(key) }
func (w *simWorld) touch(key string, d time.Duration)      { w.r.Touch(key, d) }
func (w *simWorld) list(key string)                        { w.r.PutOther(key) }
func (w *simWorld) flush()                                 { w.r.FlushAll() }
func (w *simWorld) kill()                                  { w.r.CutAll() }
func (w *simWorld) deny(command string)                    { w.r.Refuse(exchange.NoPerm, strings.ToUpper(command)) }
func (w *simWorld) allow()                                 { w.r.Accept() }

func (w *simWorld) look(key string) string {
	value, ok := w.r.Get(key)
	if ok && value == nil {
		return "a list"
	}
	return describe(string(value), ok, w.r.TTL(key))
}

// redisWorld is the real port, on whatever speaks the protocol.
type redisWorld struct {
	t     *testing.T
	what  string
	admin rueidis.Client
	ports [nodes]*redistx.Port
	user  string // may be changed by the administrator; empty: no users here
	conns *connections
}

func newRedisWorld(t *testing.T, what string, admin rueidis.Client, option rueidis.ClientOption) *redisWorld {
	t.Helper()
	w := &redisWorld{t: t, what: what, admin: admin, user: option.Username, conns: &connections{}}
	option.ForceSingleClient, option.DisableCache, option.PipelineMultiplex = true, true, -1
	option.Dialer.KeepAlive = time.Hour // no PING of its own
	option.DialCtxFn = w.conns.dial
	for i := range w.ports {
		client, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		w.ports[i] = redistx.New(client, redistx.Options{})
		t.Cleanup(w.ports[i].Close)
	}
	return w
}

func (w *redisWorld) name() string            { return w.what }
func (w *redisWorld) port(node int) lane.Port { return w.ports[node] }

func (w *redisWorld) do(args ...string) rueidis.RedisMessage {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	msg, err := w.admin.Do(ctx, w.admin.B().Arbitrary(args...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		w.t.Errorf("%s: %v: %v", w.what, args, err)
	}
	return msg
}

func (w *redisWorld) set(key, value string, d time.Duration) {
	if d == 0 {
		w.do("SET", key, value)
		return
	}
	w.do("SET", key, value, "PX", strconv.FormatInt(d.Milliseconds(), 10))
}

func (w *redisWorld) del(key string) { w.do("DEL", key) }
func (w *redisWorld) touch(key string, d time.Duration) {
	w.do("PEXPIRE", key, strconv.FormatInt(d.Milliseconds(), 10))
}

// list replaces the key in one step, as the port in memory does.
func (w *redisWorld) list(key string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	b := w.admin.B()
	for _, r := range w.admin.DoMulti(ctx, b.Arbitrary("DEL").Keys(key).Build(), b.Arbitrary("RPUSH").Keys(key).Args("x").Build()) {
		if err := r.Error(); err != nil {
			w.t.Errorf("%s: RPUSH: %v", w.what, err)
		}
	}
}

// flush deletes one by one on miniredis, whose FLUSHDB goes unnoticed by a WATCH of
// a key that was there. On a real server such a WATCH fails.
func (w *redisWorld) flush() {
	if w.user != "" {
		w.do("FLUSHDB")
		return
	}
	for _, key := range keys {
		w.do("DEL", key)
	}
}

// kill has the connections of the ports die while nobody uses them.
func (w *redisWorld) kill() {
	if w.user != "" {
		w.do("CLIENT", "KILL", "USER", w.user)
		return
	}
	w.conns.close()
}

func (w *redisWorld) deny(command string) { w.do("ACL", "SETUSER", w.user, "-"+command) }
func (w *redisWorld) allow() {
	if w.user != "" {
		w.do("ACL", "SETUSER", w.user, "+@all")
	}
}

func (w *redisWorld) look(key string) string {
	kind := w.do("TYPE", key)
	if text, _ := kind.ToString(); text == "list" {
		return "a list"
	}
	value := w.do("GET", key)
	if value.IsNil() {
		return describe("", false, 0)
	}
	text, err := value.ToString()
	if err != nil {
		w.t.Errorf("%s: GET: %v", w.what, err)
	}
	left := w.do("PTTL", key)
	ms, _ := left.AsInt64()
	return describe(text, true, time.Duration(ms)*time.Millisecond)
}

// connections are what a client has open.
type connections struct {
	mu  sync.Mutex // guards the field below
	all []net.Conn
}

func (c *connections) dial(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, conn)
	}
	return conn, err
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.all {
		_ = conn.Close()
	}
	c.all = nil
}

// newMiniWorld is the real port on miniredis, which has no INFO server of its own.
func newMiniWorld(t *testing.T) *redisWorld {
	t.Helper()
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	require.NoError(t, m.Start())
	t.Cleanup(m.Close)
	m.Server().SetPreHook(func(p *miniserver.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
			return false
		}
		p.WriteBulk("# Server\r\nredis_version:7.0.15\r\nrun_id:" + strings.Repeat("1", 40) + "\r\nuptime_in_seconds:100\r\n")
		return true
	})
	option := rueidis.ClientOption{InitAddress: []string{m.Addr()}, ForceSingleClient: true, DisableCache: true}
	admin, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	return newRedisWorld(t, "miniredis", admin, option)
}

// kindOf is what is compared of an error.
func kindOf(err error) string {
	var conn *exchange.ConnError
	var refused *exchange.ServerError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, exchange.ErrNoWatch):
		return "nothing watched"
	case errors.As(err, &refused):
		return fmt.Sprintf("%s refused: %v, applied %d", refused.Command, refused.Kind, refused.Applied)
	case errors.As(err, &conn):
		return fmt.Sprintf("connection failed, sent %v", conn.Sent)
	}
	return "some error"
}
