package locktest

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

// OnRedis is a real server of package redistest, whose Main has to be the TestMain.
// Leases are short there, since they pass in real time.
func OnRedis() Backend {
	return Backend{name: redisName, run: func(t *testing.T, s scenario) {
		env := newEnv(t, &realServer{server: serverFor(t, s)}, redistest.Prefix(t))
		env.Lease, env.Poll = 2*time.Second, 5*time.Second
		s.run(t, env)
	}}
}

func serverFor(t *testing.T, s scenario) *redistest.Server {
	switch {
	case s.disk:
		return redistest.Start(t, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	case s.hurts:
		return redistest.Start(t)
	}
	return redistest.Shared(t)
}

// realServer is a real server.
type realServer struct{ server *redistest.Server }

func (r *realServer) client(t testing.TB, change func(*rueidis.ClientOption)) (rueidis.Client, error) {
	option := r.server.ClientOption()
	change(&option)
	return newClient(t, option)
}

// newClient closes the client when the test ends. With a server that can't be
// reached, rueidis may return a client beside the error.
func newClient(t testing.TB, option rueidis.ClientOption) (rueidis.Client, error) {
	client, err := rueidis.NewClient(option)
	if client != nil {
		t.Cleanup(client.Close)
	}
	return client, err
}

func (r *realServer) do(t testing.TB, args ...string) rueidis.RedisMessage {
	t.Helper()
	return r.server.Do(t, args...)
}

func (r *realServer) restart(t testing.TB, keepData bool) {
	if keepData {
		r.server.Restart(t)
	} else {
		r.server.RestartEmpty(t)
	}
}

func (r *realServer) cut(t testing.TB)     { r.server.Kill(t) }
func (r *realServer) heal(t testing.TB)    { r.server.Start(t) }
func (r *realServer) pause(t testing.TB)   { r.server.Pause(t) }
func (r *realServer) unpause(t testing.TB) { r.server.Unpause(t) }

// commands is how many commands the server has run, without those of the suite itself.
func (e *Env) commands() map[string]int64 {
	e.T.Helper()
	r, ok := e.server.(*realServer)
	require.True(e.T, ok, "only on a real server")
	return r.server.CommandStats(e.T)
}
