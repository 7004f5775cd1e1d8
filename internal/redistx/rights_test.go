package redistx

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

const key = "{app}:lock:a"

func writesOfAllKinds() *exchange.Writes {
	return &exchange.Writes{
		Sets:      []exchange.Set{{Key: key, Value: []byte("1")}},
		Deletes:   []string{"{app}:lock:b"},
		Publishes: []exchange.Publish{{Channel: "{app}:wake:n", Message: "a"}},
	}
}

// TestDeniedCommandIsNamed takes each right away while a guarded commit is at hand.
func TestDeniedCommandIsNamed(t *testing.T) {
	t.Parallel()
	cases := []struct {
		rule, command string
		outcome       exchange.Applied
		applied       bool
	}{
		{"-set", "SET", exchange.Nothing, false},
		{"-del", "DEL", exchange.Nothing, false},
		{"-publish", "PUBLISH", exchange.Nothing, false},
		{"-exec", "EXEC", exchange.Nothing, false},
		{"-multi", "MULTI", exchange.Partly, true}, // the rest runs at once
		{"resetkeys", "SET", exchange.Nothing, false},
		{"resetchannels", "PUBLISH", exchange.Nothing, false},
		// The commit goes through, and the read after it doesn't.
		{"-watch", "WATCH", exchange.Maybe, true},
		{"-get", "GET", exchange.Maybe, true},
		{"-time", "TIME", exchange.Maybe, true},
		{"-info", "INFO", exchange.Maybe, true},
	}
	s := startServer(t)
	admin := newClient(t, s.addr)
	for _, c := range cases { // one after the other: they share the user
		lockUser(t, admin)
		do(t, admin, "DEL", key)
		p := newPort(t, newClient(t, s.addr, as("locks", "secret")))
		read(t, p, key)
		do(t, admin, "ACL", "SETUSER", "locks", c.rule)
		p.conn.asked = time.Time{} // INFO is due
		committed, snap, err := p.Exchange(within(t, bound), writesOfAllKinds(), []string{key})
		refusal := serverError(t, err)
		require.Equal(t, c.command, refusal.Command, c.rule)
		require.Equal(t, exchange.NoPerm, refusal.Kind, c.rule)
		require.True(t, refusal.Permanent(), c.rule)
		require.Equal(t, c.outcome, refusal.Applied, c.rule)
		require.Equal(t, c.outcome == exchange.Maybe, committed, c.rule)
		require.Empty(t, snap.Values)
		require.Equal(t, c.applied, get(t, admin, key) == "1", c.rule)
		_, _, err = p.Exchange(within(t, bound), writesOfAllKinds(), nil)
		require.ErrorIs(t, err, exchange.ErrNoWatch, "%s: nothing may rest on a read that failed", c.rule)
		lockUser(t, admin)
		readAgain(t, p, key)
		p.Close()
	}
}

func TestDeniedUnwatchIsNamed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	lockUser(t, admin)
	p := newPort(t, newClient(t, s.addr, as("locks", "secret")))
	read(t, p, key)
	do(t, admin, "ACL", "SETUSER", "locks", "-unwatch")
	_, _, err := p.Exchange(within(t, bound), nil, []string{key})
	require.Equal(t, "UNWATCH", serverError(t, err).Command)
	_, _, err = p.Exchange(within(t, bound), writesOfAllKinds(), nil)
	require.ErrorIs(t, err, exchange.ErrNoWatch)
	p.Close() // and so the connection is closed, not given back
}

// TestRightsLostBetweenQueueAndExec: Redis applies the rest of the transaction.
func TestRightsLostBetweenQueueAndExec(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	proxy := startProxy(t, s.addr)
	admin := newClient(t, s.addr)
	for _, c := range []struct{ rule, command string }{{"-set", "SET"}, {"-del", "DEL"}, {"-publish", "PUBLISH"}, {"resetkeys", "SET"}} {
		lockUser(t, admin)
		p := newPort(t, newClient(t, proxy.addr, as("locks", "secret")))
		read(t, p, key)
		proxy.onNextExec(func() { do(t, admin, "ACL", "SETUSER", "locks", c.rule) })
		committed, _, err := p.Exchange(within(t, bound), writesOfAllKinds(), nil)
		require.False(t, committed)
		refusal := serverError(t, err)
		require.Equal(t, c.command, refusal.Command)
		require.Equal(t, exchange.Partly, refusal.Applied)
		require.False(t, refusal.NothingApplied())
		p.Close()
	}
}

// TestWatchOfAFailedReadIsDroppedToo: the WATCH was answered, the GET was denied.
func TestWatchOfAFailedReadIsDroppedToo(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	lockUser(t, admin, "-get")
	p := newPort(t, newClient(t, s.addr, as("locks", "secret")))
	_, _, err := p.Exchange(within(t, bound), nil, []string{"{app}:lock:other"})
	require.Equal(t, "GET", serverError(t, err).Command)
	lockUser(t, admin)
	read(t, p, key)
	do(t, admin, "SET", "{app}:lock:other", "touched")
	committed, _, err := p.Exchange(within(t, bound), writesOfAllKinds(), nil)
	require.NoError(t, err)
	require.True(t, committed)
}
