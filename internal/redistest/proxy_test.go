package redistest

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// proxied returns a server, a proxy before it, and a client that goes through it.
func proxied(t *testing.T) (*Server, *Proxy, rueidis.Client) {
	t.Helper()
	s := Start(t)
	p := NewProxy(t, s.Addr())
	option := s.ClientOption()
	option.InitAddress = []string{p.Addr()}
	option.PipelineMultiplex = -1 // one connection
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return s, p, client
}

// incr tries to add 1 to n, for a moment.
func incr(t *testing.T, client rueidis.Client) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	return client.Do(ctx, client.B().Incr().Key("n").Build()).Error()
}

// reaches waits until the server's n has the value; "" is none.
func reaches(t *testing.T, s *Server, want string) {
	t.Helper()
	require.Eventually(t, func() bool { return get(t, s, "n") == want }, 20*time.Second, 10*time.Millisecond)
}

// works waits until a command gets through again. Earlier connections may have to
// fail first.
func works(t *testing.T, client rueidis.Client) {
	t.Helper()
	require.Eventually(t, func() bool { return incr(t, client) == nil }, 20*time.Second, 10*time.Millisecond)
}

func TestProxyLosesTheReplyOfACommandThatWasCarriedOut(t *testing.T) {
	t.Parallel()
	s, p, client := proxied(t)
	require.NoError(t, incr(t, client))
	p.CutAfterDown(0)
	require.Error(t, incr(t, client))
	reaches(t, s, "2")
	works(t, client) // the limit is used up
}

func TestProxyLosesARequestBeforeItIsCarriedOut(t *testing.T) {
	t.Parallel()
	s, p, client := proxied(t)
	require.NoError(t, incr(t, client))
	p.CutAfterUp(0)
	require.Error(t, incr(t, client))
	require.Equal(t, "1", get(t, s, "n"))
	works(t, client)
}

func TestProxyDeliversARequestAfterItsSenderGaveUp(t *testing.T) {
	t.Parallel()
	s, p, client := proxied(t)
	require.NoError(t, incr(t, client))
	p.PauseUpstream()
	require.Error(t, incr(t, client))
	client.Close()
	require.Equal(t, "1", get(t, s, "n"))
	p.Resume()
	reaches(t, s, "2")
}

func TestProxyCutThrowsAwayWhatWasHeldBack(t *testing.T) {
	t.Parallel()
	s, p, client := proxied(t)
	require.NoError(t, incr(t, client))
	p.PauseUpstream()
	require.Error(t, incr(t, client))
	p.Cut()
	p.Resume()
	require.Equal(t, "1", get(t, s, "n"))
	works(t, client)
	require.Greater(t, p.Connections(), 1)
}

func TestProxyHoldsBackReplies(t *testing.T) {
	t.Parallel()
	s, p, client := proxied(t)
	require.NoError(t, incr(t, client))
	_, before := p.Bytes()
	p.PauseDownstream()
	require.Error(t, incr(t, client))
	reaches(t, s, "2")
	_, after := p.Bytes()
	require.Equal(t, before, after)
	p.Resume()
	works(t, client)
}

func TestProxyCutsInTheMiddleOfAReply(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Do(t, "SET", "long", "0123456789")
	p := NewProxy(t, s.Addr())
	p.CutAfterDown(7)
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GETSET long x\r\n"))
	require.NoError(t, err)
	reply, _ := io.ReadAll(conn) // ends with EOF or a reset, as the kernel likes
	require.Equal(t, "$10\r\n01", string(reply))
	require.Equal(t, "x", get(t, s, "long"))
}

func TestProxyEndsWhileItHoldsBytesBack(t *testing.T) {
	t.Parallel()
	_, p, client := proxied(t)
	p.PauseUpstream()
	p.PauseDownstream()
	require.Error(t, incr(t, client))
	p.close() // hangs, and leaks, if a pump doesn't notice
}

func TestProxyPausesInTheMiddleOfAReplyAndDeliversTheRest(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Do(t, "SET", "long", "0123456789")
	p := NewProxy(t, s.Addr())
	reached := p.PauseAfterDown(7)
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GETSET long x\r\n"))
	require.NoError(t, err)
	begun := make([]byte, 7)
	_, err = io.ReadFull(conn, begun)
	require.NoError(t, err)
	<-reached
	_, down := p.Bytes()
	require.EqualValues(t, 7, down)
	p.Resume()
	rest := make([]byte, 10)
	_, err = io.ReadFull(conn, rest)
	require.NoError(t, err)
	require.Equal(t, "$10\r\n0123456789\r\n", string(begun)+string(rest))
}
