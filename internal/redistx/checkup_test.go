package redistx

import (
	"net"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/keyspace"
)

func appKeys(t testing.TB) keyspace.Space {
	t.Helper()
	keys, err := keyspace.New("app")
	require.NoError(t, err)
	return keys
}

func checkUp(t testing.TB, client rueidis.Client) (Report, error) {
	t.Helper()
	return CheckUp(within(t, bound), client, appKeys(t), "n1")
}

func problems(t testing.TB, err error) []string {
	t.Helper()
	var unsuitable *Unsuitable
	require.ErrorAs(t, err, &unsuitable, "not an Unsuitable: %v", err)
	require.True(t, unsuitable.Permanent())
	require.NotContains(t, err.Error(), "secret")
	for _, p := range unsuitable.Problems {
		require.ErrorContains(t, err, p)
	}
	return unsuitable.Problems
}

func TestCheckUpOfAGoodServerDisturbsNobody(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	lockUser(t, admin)
	got := make(chan rueidis.PubSubMessage, 16)
	subscribed := make(chan struct{})
	ctx := rueidis.WithOnSubscriptionHook(within(t, bound), func(rueidis.PubSubSubscription) { close(subscribed) })
	ended := make(chan struct{})
	listener := newClient(t, s.addr)
	go func() {
		defer close(ended)
		_ = listener.Receive(ctx, listener.B().Psubscribe().Pattern("*").Build(), func(m rueidis.PubSubMessage) { got <- m })
	}()
	<-subscribed
	report, err := checkUp(t, newClient(t, s.addr, as("locks", "secret"), poolOf(1)))
	require.NoError(t, err)
	require.Equal(t, "master", report.Role)
	require.Len(t, report.RunID, 40)
	require.NotEmpty(t, report.Version)
	require.Positive(t, report.Micros)
	require.Equal(t, "noeviction", report.MaxMemoryPolicy)
	require.Empty(t, report.Warnings)
	left, err := do(t, admin, "DBSIZE").AsInt64()
	require.NoError(t, err)
	require.Zero(t, left)
	do(t, admin, "PUBLISH", "{app}:waiting", "first")
	require.Equal(t, "first", (<-got).Message)
	listener.Close()
	<-ended
}

func TestCheckUpNamesEveryMissingRight(t *testing.T) {
	t.Parallel()
	cases := []struct {
		rules string
		want  []string // each in a problem of its own
	}{
		{"-info", []string{"INFO: allow +info"}},
		{"-time", []string{"TIME: allow +time"}},
		{"-watch", []string{"WATCH: allow +watch"}},
		{"-unwatch", []string{"UNWATCH: allow +unwatch"}},
		{"-get", []string{"GET: allow +get"}},
		{"-mget", []string{"MGET: allow +mget"}},
		{"-exists", []string{"EXISTS: allow +exists"}},
		{"-set", []string{"SET: allow +set"}},
		{"-del", []string{"DEL: allow +del"}},
		{"-multi", []string{"MULTI: allow +multi"}},
		{"-exec", []string{"EXEC: allow +exec"}},
		{"-publish", []string{"PUBLISH: allow +publish"}},
		{"-subscribe", []string{"SUBSCRIBE: allow +subscribe"}},
		{"-multi -exec -watch -subscribe", []string{"may not run MULTI", "EXEC", "WATCH", "SUBSCRIBE"}},
		{"resetchannels &{app}:wake:*", []string{`PUBLISH on channel "{app}:waiting": allow &{app}:*`, `SUBSCRIBE on channel "{app}:waiting"`}},
		{"resetchannels &{app}:waiting", []string{`PUBLISH on channel "{app}:wake:n1"`, `SUBSCRIBE on channel "{app}:wake:n1"`}},
		{"resetkeys", []string{`WATCH on key "{app}:selftest:n1": allow ~{app}:*`, "GET on key", "MGET on key", "EXISTS on key", "SET on key", "DEL on key"}},
		{"-@all", []string{"INFO", "TIME", "may not run WATCH", "UNWATCH", "GET", "MGET", "EXISTS", "may not run SET", "DEL", "MULTI", "EXEC", "PUBLISH", "SUBSCRIBE"}},
	}
	s := startServer(t)
	admin := newClient(t, s.addr)
	for _, c := range cases {
		lockUser(t, admin, strings.Fields(c.rules)...)
		_, err := checkUp(t, newClient(t, s.addr, as("locks", "secret")))
		found := problems(t, err)
		require.Len(t, found, len(c.want), "%s: %q", c.rules, found)
		for _, want := range c.want {
			require.Contains(t, strings.Join(found, "\n"), want, "%s: no %q in %q", c.rules, want, found)
		}
		if ttl, _ := do(t, admin, "PTTL", "{app}:selftest:n1").AsInt64(); ttl != -2 {
			require.Positive(t, ttl, "%s: the scratch key never goes", c.rules)
		}
	}
}

func TestCheckUpRefusesAReplica(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	do(t, admin, "REPLICAOF", "127.0.0.1", "1")
	report, err := checkUp(t, newClient(t, s.addr))
	require.Equal(t, []string{"it is a replica: use the master"}, problems(t, err))
	require.Equal(t, "slave", report.Role)
}

func TestCheckUpRefusesAClusterNode(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--cluster-enabled", "yes")
	_, err := checkUp(t, newClient(t, s.addr))
	require.Equal(t, []string{clusterProblem}, problems(t, err))
}

type clusterClient struct{ rueidis.Client }

func (clusterClient) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

func TestCheckUpRefusesAClusterClient(t *testing.T) {
	t.Parallel()
	_, err := checkUp(t, clusterClient{})
	require.Equal(t, []string{clusterProblem}, problems(t, err))
}

func TestCheckUpWarnsOfEviction(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--maxmemory-policy", "allkeys-lru")
	admin := newClient(t, s.addr)
	report, err := checkUp(t, newClient(t, s.addr))
	require.NoError(t, err)
	require.Empty(t, report.Warnings, "without a limit nothing is evicted")
	do(t, admin, "CONFIG", "SET", "maxmemory", "100mb")
	report, err = checkUp(t, newClient(t, s.addr))
	require.NoError(t, err)
	require.Len(t, report.Warnings, 1)
	require.Contains(t, report.Warnings[0], `"allkeys-lru"`)
}

func TestCheckUpOfAFullServerIsNoPermanentError(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	do(t, newClient(t, s.addr), "CONFIG", "SET", "maxmemory", "1")
	_, err := checkUp(t, newClient(t, s.addr))
	refusal := serverError(t, err)
	require.Equal(t, exchange.OOM, refusal.Kind)
	require.False(t, refusal.Permanent())
}

func TestCheckUpTellsLoginAndNetworkFromRights(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--requirepass", "secret")
	for words, opt := range map[string]func(*rueidis.ClientOption){"NOAUTH": poolOf(1), "WRONGPASS": as("default", "hunter2")} {
		_, err := checkUp(t, newClient(t, s.addr, opt))
		refusal := serverError(t, err)
		require.Equal(t, exchange.NoAuth, refusal.Kind)
		require.ErrorContains(t, err, words)
		require.True(t, refusal.Permanent())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	_, err = checkUp(t, newClient(t, addr))
	require.False(t, connError(t, err).Sent)
}

func TestCheckUpIsBoundedOnAHungServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	s.pause()
	defer s.resume()
	ctx := within(t, bound/10)
	_, err := CheckUp(ctx, client, appKeys(t), "n1")
	require.False(t, connError(t, err).Sent)
}

// TestCheckUpUnderstandsOtherServers: what some leave out is no problem.
func TestCheckUpUnderstandsOtherServers(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(p *miniserver.Peer, cmd string, args ...string) bool {
		if cmd != "INFO" || len(args) != 1 || args[0] != "server" {
			return false
		}
		p.WriteBulk("# Server\r\nrun_id:abc\r\nuptime_in_seconds:77\r\n")
		return true
	})
	report, err := checkUp(t, newClient(t, m.Addr()))
	require.NoError(t, err)
	require.Equal(t, "abc", report.RunID)
	require.Equal(t, int64(77), report.Uptime)
	require.Empty(t, report.Role)
	require.Len(t, report.Warnings, 1) // it tells no version
}

func TestCheckUpRefusesAServerThatTellsNoRunID(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	_, err := checkUp(t, newClient(t, m.Addr())) // refuses INFO server
	require.Len(t, problems(t, err), 1)
	require.ErrorContains(t, err, "INFO server")
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]string{
		"redis_version:6.2.0":                         "6.2.0",
		"txt:# Server\r\nredis_version:10.0.1":        "10.0.1",
		"redis_version:7.2.4\r\nvalkey_version:8.1.1": "8.1.1",
		"redis_version:255.255.255":                   "255.255.255",
	} {
		e := &examination{}
		e.server(info + "\r\nrun_id:x\r\nuptime_in_seconds:-3\r\n")
		require.Empty(t, e.problems)
		require.Equal(t, want, e.report.Version)
		require.Equal(t, int64(-3), e.report.Uptime)
	}
	for _, old := range []string{"6.0.16", "5.0", "6", "x.y"} {
		e := &examination{}
		e.server("redis_version:" + old + "\r\nrun_id:x\r\nuptime_in_seconds:1\r\n")
		require.Len(t, e.problems, 1, old)
	}
}

// TestCheckUpFindsAWatchThatGuardsNothing, as behind a proxy that spreads commands over connections.
func TestCheckUpFindsAWatchThatGuardsNothing(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	m.Server().SetPreHook(func(p *miniserver.Peer, cmd string, args ...string) bool {
		switch cmd {
		case "WATCH":
			p.WriteOK()
		case "INFO":
			p.WriteBulk("redis_version:7.0.0\r\nrun_id:abc\r\nuptime_in_seconds:77\r\n")
		default:
			return false
		}
		return true
	})
	_, err := checkUp(t, newClient(t, m.Addr()))
	require.ErrorContains(t, err, "WATCH doesn't guard EXEC")
	require.Len(t, problems(t, err), 1)
}
