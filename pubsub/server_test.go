package pubsub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// patience bounds every wait for something that must happen.
const patience = 30 * time.Second

// redisServer is a redis-server child process on a port of its own, which it keeps
// over a restart. It is the test's own: nobody else's process is touched.
type redisServer struct {
	t     *testing.T
	port  int
	cmd   *exec.Cmd
	resp2 bool // what its clients speak
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	s := &redisServer{t: t}
	for range 50 {
		// Below the ephemeral range: while the server is down, a client that dials
		// it from that range can connect to itself and keep the port.
		s.port = 20000 + rand.IntN(11000)
		if portIsFree(s.port) && s.start() {
			t.Cleanup(s.kill)
			return s
		}
	}
	require.FailNow(t, "no redis-server came up")
	return nil
}

func portIsFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func (s *redisServer) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// start reports whether the process became ready; false if it ended, as it does
// when another test took the port.
func (s *redisServer) start() bool {
	s.t.Helper()
	path, err := exec.LookPath("redis-server")
	require.NoError(s.t, err, "these tests need a real server: install the package redis-server (Debian, Ubuntu) or redis")
	s.cmd = exec.Command(path, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", os.TempDir(), "--daemonize", "no")
	require.NoError(s.t, s.cmd.Start())
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if s.isMine() {
			return true
		}
		if s.cmd.Process.Signal(syscall.Signal(0)) != nil {
			break
		}
		pause()
	}
	s.kill()
	return false
}

// isMine asks for the pid, for the port may be another's.
func (s *redisServer) isMine() bool {
	conn, err := net.DialTimeout("tcp", s.addr(), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = fmt.Fprint(conn, "INFO server\r\n")
	reply := make([]byte, 4096)
	n, _ := conn.Read(reply)
	var pid int
	for line := range splitLines(reply[:n]) {
		_, _ = fmt.Sscanf(line, "process_id:%d", &pid)
	}
	return pid == s.cmd.Process.Pid
}

func (s *redisServer) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig))
}

func (s *redisServer) pause()  { s.t.Helper(); s.signal(syscall.SIGSTOP) }
func (s *redisServer) resume() { s.t.Helper(); s.signal(syscall.SIGCONT) }

func (s *redisServer) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

func (s *redisServer) restart() {
	s.t.Helper()
	s.kill()
	require.Eventually(s.t, s.start, patience, 10*time.Millisecond)
}

// protocols are the two ways in which the client keeps subscriptions.
var protocols = map[string]bool{"RESP3": false, "RESP2": true}

func (s *redisServer) client(change func(*rueidis.ClientOption)) rueidis.Client {
	s.t.Helper()
	option := rueidis.ClientOption{
		InitAddress: []string{s.addr()}, ForceSingleClient: true, DisableCache: true,
		AlwaysRESP2: s.resp2,
	}
	if change != nil {
		change(&option)
	}
	client, err := rueidis.NewClient(option)
	require.NoError(s.t, err)
	s.t.Cleanup(client.Close)
	return client
}

func newPubSub(t *testing.T, client rueidis.Client, opts ...Option) *Service {
	t.Helper()
	s, err := New(t.Context(), client, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// run is one command on a connection of the test's own client.
func run(t *testing.T, client rueidis.Client, words ...string) rueidis.RedisResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return client.Do(ctx, client.B().Arbitrary(words...).Build())
}

// subscribers asks the server how many connections have a channel subscribed.
func subscribers(t *testing.T, client rueidis.Client, channel string) int64 {
	t.Helper()
	counts, err := run(t, client, "PUBSUB", "NUMSUB", channel).AsIntMap()
	require.NoError(t, err)
	return counts[channel]
}
