package redistx

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// bound is for what must end, but may be slow on a busy machine.
const bound = 20 * time.Second

// server is a redis-server of one test. Its data directory outlives a restart.
type server struct {
	t    testing.TB
	addr string
	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

func startServer(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir()}
	t.Cleanup(s.stop)
	for range 20 {
		// Below the ephemeral range, where a reconnecting client could get the port as its own,
		// and so is the second port, 10,000 above, that a server of a cluster listens on.
		port := 10000 + rand.IntN(11000)
		if !isFree(port + 10000) {
			continue
		}
		if s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port)); s.start(port, args...) {
			return s
		}
	}
	require.FailNow(t, "no free port for redis-server")
	return nil
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func (s *server) start(port int, args ...string) bool {
	s.t.Helper()
	path, err := exec.LookPath("redis-server")
	require.NoError(s.t, err, "these tests need the redis-server binary: install Redis 6.2 or newer (Debian: apt-get install redis-server)")
	base := []string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", s.dir, "--enable-debug-command", "yes"}
	s.cmd = exec.Command(path, append(base, args...)...)
	s.done = make(chan struct{})
	require.NoError(s.t, s.cmd.Start())
	go func(cmd *exec.Cmd, done chan struct{}) { defer close(done); _ = cmd.Wait() }(s.cmd, s.done)
	return s.up()
}

// up waits until the server listens; false if it ended, as it does when the port is taken.
func (s *server) up() bool {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range int(bound / (5 * time.Millisecond)) {
		select {
		case <-s.done:
			return false
		case <-tick.C:
		}
		if c, err := net.Dial("tcp", s.addr); err == nil {
			c.Close()
			return true
		}
	}
	return false
}

func (s *server) stop() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.done
}

func (s *server) restart(args ...string) {
	s.t.Helper()
	s.stop()
	_, port, err := net.SplitHostPort(s.addr)
	require.NoError(s.t, err)
	number, err := strconv.Atoi(port)
	require.NoError(s.t, err)
	require.True(s.t, s.start(number, args...), "redis-server did not come up again")
}

func (s *server) pause()  { require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGSTOP)) }
func (s *server) resume() { require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGCONT)) }

// client connects to addr; opts change the defaults. A failing first dial is no
// failure here: the tests are about what the port says then.
func newClient(t testing.TB, addr string, opts ...func(*rueidis.ClientOption)) rueidis.Client {
	t.Helper()
	option := rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
		BlockingPoolSize: 4, Dialer: net.Dialer{Timeout: 2 * time.Second}, ConnWriteTimeout: 3 * time.Second,
		RingScaleEachConn: 6, ReadBufferEachConn: 16 << 10, WriteBufferEachConn: 16 << 10,
	}
	for _, opt := range opts {
		opt(&option)
	}
	client, err := rueidis.NewClient(option)
	if client == nil {
		require.NoError(t, err)
	}
	t.Cleanup(client.Close)
	return client
}

func poolOf(n int) func(*rueidis.ClientOption) {
	return func(o *rueidis.ClientOption) { o.BlockingPoolSize = n }
}

func as(user, password string) func(*rueidis.ClientOption) {
	return func(o *rueidis.ClientOption) { o.Username, o.Password = user, password }
}

func newPort(t testing.TB, client rueidis.Client) *Port {
	t.Helper()
	p := New(client, Options{DialTimeout: 2 * time.Second})
	t.Cleanup(p.Close)
	return p
}

// do runs a command and fails the test if Redis refuses it.
func do(t testing.TB, client rueidis.Client, args ...string) rueidis.RedisResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	answer := client.Do(ctx, client.B().Arbitrary(args...).Build())
	if err := answer.Error(); !rueidis.IsRedisNil(err) {
		require.NoError(t, err, "%v", args)
	}
	return answer
}

func get(t testing.TB, client rueidis.Client, key string) string {
	t.Helper()
	text, err := do(t, client, "GET", key).ToString()
	if rueidis.IsRedisNil(err) {
		return "(nil)"
	}
	require.NoError(t, err)
	return text
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func set(key, value string) *exchange.Writes {
	return &exchange.Writes{Sets: []exchange.Set{{Key: key, Value: []byte(value)}}}
}

// read watches and reads keys, and fails the test if that doesn't work.
func read(t testing.TB, p *Port, keys ...string) exchange.Snapshot {
	t.Helper()
	committed, snap, err := p.Exchange(within(t, bound), nil, keys)
	require.NoError(t, err)
	require.False(t, committed)
	require.Len(t, snap.Values, len(keys))
	return snap
}

// readAgain reads until it works, as a lane does after a connection error.
func readAgain(t testing.TB, p *Port, keys ...string) exchange.Snapshot {
	t.Helper()
	var snap exchange.Snapshot
	require.Eventually(t, func() bool {
		var err error
		_, snap, err = p.Exchange(within(t, time.Second), nil, keys)
		return err == nil
	}, bound, 10*time.Millisecond)
	return snap
}

func serverError(t testing.TB, err error) *exchange.ServerError {
	t.Helper()
	var refusal *exchange.ServerError
	require.ErrorAs(t, err, &refusal, "not a ServerError: %v", err)
	return refusal
}

func connError(t testing.TB, err error) *exchange.ConnError {
	t.Helper()
	var failure *exchange.ConnError
	require.ErrorAs(t, err, &failure, "not a ConnError: %v", err)
	return failure
}

// lockUser makes a user with all the rights that a port needs on {app}:*, and extra rules.
func lockUser(t testing.TB, admin rueidis.Client, rules ...string) {
	t.Helper()
	args := []string{"ACL", "SETUSER", "locks", "reset", "on", ">secret", "-@all", "resetchannels", "~{app}:*", "&{app}:*",
		"+hello", "+get", "+mget", "+exists", "+set", "+del", "+watch", "+unwatch", "+multi", "+exec", "+time", "+info", "+publish", "+subscribe", "+ping"}
	do(t, admin, append(args, rules...)...)
}

// blockRDB puts a directory where the server wants to write its snapshot.
func blockRDB(t *testing.T, s *server) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "x.rdb", "full"), 0o755))
}
