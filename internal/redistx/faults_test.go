package redistx

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

func TestLostReplyLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	proxy := startProxy(t, s.addr)
	p := newPort(t, newClient(t, proxy.addr))
	admin := newClient(t, s.addr)
	read(t, p, "a")
	proxy.loseNextExec()
	committed, _, err := p.Exchange(within(t, bound), set("a", "1"), []string{"a"})
	require.False(t, committed)
	failure := connError(t, err)
	require.True(t, failure.Sent)
	require.False(t, failure.NothingApplied())
	require.Equal(t, "1", get(t, admin, "a"), "this time it was applied")
	_, _, err = p.Exchange(within(t, bound), set("a", "2"), nil)
	require.ErrorIs(t, err, exchange.ErrNoWatch, "the guard went with the connection")
	require.Equal(t, "1", string(readAgain(t, p, "a").Values[0].Data))
}

func TestReconnectLosesTheWatchAndSoRefusesTheCommit(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	p := newPort(t, newClient(t, s.addr))
	read(t, p, "a")
	do(t, admin, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	committed, _, err := p.Exchange(within(t, bound), set("a", "1"), []string{"a"})
	require.False(t, committed)
	require.False(t, connError(t, err).NothingApplied())
	_, _, err = p.Exchange(within(t, bound), set("a", "2"), []string{"a"})
	require.ErrorIs(t, err, exchange.ErrNoWatch)
	readAgain(t, p, "a")
	committed, _, err = p.Exchange(within(t, bound), set("a", "3"), nil)
	require.NoError(t, err)
	require.True(t, committed)
}

func TestPoolFullOfDeadConnectionsIsGotOver(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	var releases []func()
	for range maxStale - 1 {
		d, release := dedicate(t, client)
		require.NoError(t, d.Do(within(t, bound), client.B().Ping().Build()).Error())
		releases = append(releases, release)
	}
	for _, release := range releases {
		release()
	}
	s.restart()
	read(t, newPort(t, client), "a") // at the first try
}

func TestHungServerEndsWithTheDeadline(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newPort(t, newClient(t, s.addr))
	read(t, p, "a")
	s.pause()
	_, _, err := p.Exchange(within(t, 50*time.Millisecond), set("a", "1"), []string{"a"})
	failure := connError(t, err)
	require.False(t, failure.NothingApplied())
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	_, _, err = p.Exchange(within(t, 50*time.Millisecond), nil, []string{"a"})
	require.False(t, connError(t, err).Sent)
	s.resume()
	readAgain(t, p, "a")
}

func TestNobodyThereIsADialErrorAndNothingSent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	require.NoError(t, l.Close())
	p := newPort(t, newClient(t, addr))
	_, _, err = p.Exchange(within(t, bound), nil, []string{"a"})
	failure := connError(t, err)
	require.False(t, failure.Sent)
	require.ErrorContains(t, err, "no connection")
}

// TestRefusedCommits has the server refuse a commit for every reason that it has.
func TestRefusedCommits(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		spoil   [][]string
		kind    exchange.Kind
		command string
		mend    [][]string
	}{
		{"out of memory", [][]string{{"CONFIG", "SET", "maxmemory", "1"}}, exchange.OOM, "SET", [][]string{{"CONFIG", "SET", "maxmemory", "0"}}},
		{"replica", [][]string{{"REPLICAOF", "127.0.0.1", "1"}}, exchange.ReadOnly, "SET", [][]string{{"REPLICAOF", "NO", "ONE"}}},
		{"too few replicas", [][]string{{"CONFIG", "SET", "min-replicas-to-write", "1"}}, exchange.NoReplicas, "SET", [][]string{{"CONFIG", "SET", "min-replicas-to-write", "0"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			admin := newClient(t, s.addr)
			p := newPort(t, newClient(t, s.addr))
			read(t, p, "a")
			for _, command := range c.spoil {
				do(t, admin, command...)
			}
			committed, _, err := p.Exchange(within(t, bound), set("a", "1"), nil)
			require.False(t, committed)
			refusal := serverError(t, err)
			require.Equal(t, c.kind, refusal.Kind)
			require.Equal(t, c.command, refusal.Command)
			require.Equal(t, exchange.Nothing, refusal.Applied)
			require.False(t, refusal.Permanent())
			for _, command := range c.mend {
				do(t, admin, command...)
			}
			require.Equal(t, "(nil)", get(t, admin, "a"))
			connectionIsStillGood(t, p)
		})
	}
}

// connectionIsStillGood proves that a refusal left neither MULTI nor WATCH behind.
func connectionIsStillGood(t *testing.T, p *Port) {
	t.Helper()
	before := p.conn
	_, _, err := p.Exchange(within(t, bound), set("b", "1"), nil)
	require.ErrorIs(t, err, exchange.ErrNoWatch)
	read(t, p, "b")
	require.Same(t, before, p.conn, "the connection was given up")
	committed, _, err := p.Exchange(within(t, bound), set("b", "1"), nil)
	require.NoError(t, err)
	require.True(t, committed)
}

// TestOutOfMemoryRefusesEvenADeleteInATransaction: Redis queues nothing at all
// then, as a queue takes memory. A DEL of its own would pass, but unguarded.
func TestOutOfMemoryRefusesEvenADeleteInATransaction(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	do(t, admin, "SET", "a", "1")
	p := newPort(t, newClient(t, s.addr))
	do(t, admin, "CONFIG", "SET", "maxmemory", "1")
	read(t, p, "a") // reading still works
	_, _, err := p.Exchange(within(t, bound), &exchange.Writes{Deletes: []string{"a"}}, nil)
	refusal := serverError(t, err)
	require.Equal(t, "DEL", refusal.Command)
	require.Equal(t, exchange.OOM, refusal.Kind)
	require.True(t, refusal.NothingApplied())
	require.Equal(t, "1", get(t, admin, "a"))
	do(t, admin, "DEL", "a")
	require.Equal(t, "(nil)", get(t, admin, "a"))
}

func TestServerThatCannotPersistRefuses(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--save", "3600 1000", "--dbfilename", "x.rdb")
	admin := newClient(t, s.addr)
	p := newPort(t, newClient(t, s.addr))
	blockRDB(t, s)
	do(t, admin, "BGSAVE")
	var err error
	require.Eventually(t, func() bool { // until the server has noticed
		read(t, p, "a")
		_, _, err = p.Exchange(within(t, bound), set("a", "1"), nil)
		return err != nil
	}, bound, 10*time.Millisecond)
	refusal := serverError(t, err)
	require.Equal(t, exchange.Misconf, refusal.Kind)
	require.Equal(t, "SET", refusal.Command)
	require.True(t, refusal.NothingApplied())
}

func TestLoadingServerIsNotAnEmptyOne(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	do(t, client, "DEBUG", "POPULATE", "2000")
	do(t, client, "SAVE")
	s.restart("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
	var err error
	require.Eventually(t, func() bool { // the first tries may meet the old connection
		_, _, err = p.Exchange(within(t, bound), nil, []string{"key:1"})
		return err == nil || isServerError(err)
	}, bound, time.Millisecond)
	refusal := serverError(t, err)
	require.Equal(t, exchange.Loading, refusal.Kind)
	require.Equal(t, "GET", refusal.Command)
	require.False(t, refusal.Permanent())
	_, _, err = p.Exchange(within(t, bound), set("key:1", "x"), nil)
	require.ErrorIs(t, err, exchange.ErrNoWatch)
	require.True(t, readAgain(t, p, "key:1").Values[0].Exists)
}

func isServerError(err error) bool {
	return errors.As(err, new(*exchange.ServerError))
}

func TestForeignScriptMakesTheServerBusy(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--busy-reply-threshold", "50")
	admin := newClient(t, s.addr)
	p := newPort(t, newClient(t, s.addr))
	read(t, p, "a")
	script := make(chan error, 1)
	go func() {
		script <- admin.Do(within(t, bound), admin.B().Eval().Script("while true do end").Numkeys(0).Build()).Error()
	}()
	other := newClient(t, s.addr)
	require.Eventually(t, func() bool {
		err := other.Do(within(t, bound), other.B().Ping().Build()).Error()
		return err != nil && kindOf(err.Error()) == exchange.Busy
	}, bound, 10*time.Millisecond)
	_, _, err := p.Exchange(within(t, bound), set("a", "1"), nil)
	refusal := serverError(t, err)
	require.Equal(t, exchange.Busy, refusal.Kind)
	require.Equal(t, exchange.Nothing, refusal.Applied)
	do(t, other, "SCRIPT", "KILL")
	require.Error(t, <-script)
	connectionIsStillGood(t, p)
}

func TestNoRoomForAnotherConnection(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	do(t, admin, "CONFIG", "SET", "maxclients", "1")
	p := newPort(t, newClient(t, s.addr))
	_, _, err := p.Exchange(within(t, bound), nil, []string{"a"})
	// The server says why and hangs up; rueidis mostly sees only the latter.
	var known interface{ NothingApplied() bool }
	require.ErrorAs(t, err, &known)
	require.True(t, known.NothingApplied())
	do(t, admin, "CONFIG", "SET", "maxclients", "100")
	readAgain(t, p, "a")
}

func TestMissingLoginIsPermanent(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--requirepass", "secret")
	for words, opt := range map[string]func(*rueidis.ClientOption){"NOAUTH": poolOf(1), "WRONGPASS": as("default", "hunter2")} {
		p := newPort(t, newClient(t, s.addr, opt))
		_, _, err := p.Exchange(within(t, bound), nil, []string{"a"})
		refusal := serverError(t, err)
		require.Equal(t, exchange.NoAuth, refusal.Kind)
		require.ErrorContains(t, err, words)
		require.True(t, refusal.Permanent())
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, err.Error(), "secret")
	}
}
