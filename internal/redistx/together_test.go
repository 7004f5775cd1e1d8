package redistx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// Many keys are read by MGET, to which a list looks like nothing. It must not be
// written over.
func TestForeignTypeAmongManyKeysIsNotTakenForAMissingKey(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	do(t, client, "RPUSH", "list", "x")
	do(t, client, "SET", "b", "1")
	read(t, p, "other")
	for range 2 { // once alone, once along with a commit
		committed, snap, err := p.Exchange(within(t, bound), set("other", "x"), []string{"missing", "list", "b", "other"})
		require.NoError(t, err)
		require.True(t, committed)
		require.Equal(t, exchange.Value{}, snap.Values[0])
		require.True(t, snap.Values[1].Exists)
		require.ErrorContains(t, snap.Values[1].Err, "WRONGTYPE")
		require.Equal(t, "1", string(snap.Values[2].Data))
		require.Len(t, snap.RunID, 40)
		require.Positive(t, snap.Micros)
	}
}

// The second round trip belongs to the WATCH of the first.
func TestKeysReadOneByOneAreWatchedSinceTheFirstRoundTrip(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	do(t, client, "RPUSH", "list", "x")
	keys := []string{"a", "b", "list"}
	read(t, p, keys...)
	do(t, client, "SET", "b", "touched")
	committed, _, err := p.Exchange(within(t, bound), set("a", "1"), nil)
	require.NoError(t, err)
	require.False(t, committed, "a conflict")
	read(t, p, keys...)
	committed, _, err = p.Exchange(within(t, bound), set("a", "1"), nil)
	require.NoError(t, err)
	require.True(t, committed)
}

func TestDeniedReadOfManyKeysIsNamed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	do(t, admin, "RPUSH", "{app}:lock:list", "x")
	for rule, command := range map[string]string{"-mget": "MGET", "-exists": "EXISTS", "-get": "GET"} {
		lockUser(t, admin)
		p := newPort(t, newClient(t, s.addr, as("locks", "secret")))
		read(t, p, key)
		do(t, admin, "ACL", "SETUSER", "locks", rule)
		committed, snap, err := p.Exchange(within(t, bound), set(key, "1"), []string{key, "{app}:lock:a", "{app}:lock:list"})
		refusal := serverError(t, err)
		require.Equal(t, command, refusal.Command)
		require.Equal(t, exchange.Maybe, refusal.Applied)
		require.True(t, committed)
		require.Empty(t, snap.Values)
		_, _, err = p.Exchange(within(t, bound), set(key, "2"), nil)
		require.ErrorIs(t, err, exchange.ErrNoWatch)
		p.Close()
	}
}
