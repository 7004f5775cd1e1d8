package redistx

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

func TestSnapshotShowsValuesTimeAndServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	do(t, client, "SET", "a", "1\x00\xff")
	do(t, client, "RPUSH", "list", "x")
	do(t, client, "SET", "empty", "")
	snap := read(t, p, "a", "missing", "list", "empty")
	require.Equal(t, exchange.Value{Data: []byte("1\x00\xff"), Exists: true}, snap.Values[0])
	require.Equal(t, exchange.Value{}, snap.Values[1])
	require.True(t, snap.Values[2].Exists)
	require.ErrorContains(t, snap.Values[2].Err, "WRONGTYPE")
	require.True(t, snap.Values[3].Exists)
	require.Empty(t, snap.Values[3].Data)
	require.NoError(t, snap.Values[3].Err)
	require.InDelta(t, time.Now().UnixMicro(), snap.Micros, float64(bound.Microseconds()))
	require.Len(t, snap.RunID, 40)
	require.GreaterOrEqual(t, snap.Uptime, int64(0))
}

func TestCommitAppliesAllOfItAndPublishes(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	do(t, client, "SET", "gone1", "x")
	do(t, client, "SET", "gone2", "x")
	read(t, p, "a", "b", "gone1", "gone2")

	got := make(chan string, 1)
	subscribed := make(chan struct{})
	ctx, cancel := context.WithCancel(rueidis.WithOnSubscriptionHook(within(t, bound), func(rueidis.PubSubSubscription) { close(subscribed) }))
	listening := make(chan error, 1)
	go func() {
		listening <- client.Receive(ctx, client.B().Subscribe().Channel("ch").Build(), func(m rueidis.PubSubMessage) { got <- m.Message })
	}()
	<-subscribed
	committed, snap, err := p.Exchange(within(t, bound), &exchange.Writes{
		Sets:      []exchange.Set{{Key: "a", Value: []byte("1"), TTL: time.Hour}, {Key: "b", Value: []byte("2")}, {Key: "c", Value: []byte("3"), TTL: time.Nanosecond}},
		Deletes:   []string{"gone1", "gone2"},
		Publishes: []exchange.Publish{{Channel: "ch", Message: "hello"}},
	}, []string{"a"})
	require.NoError(t, err)
	require.True(t, committed)
	require.Equal(t, "1", string(snap.Values[0].Data))
	require.Equal(t, "hello", <-got)
	cancel()
	require.Error(t, <-listening)
	ttl, err := do(t, client, "PTTL", "a").AsInt64()
	require.NoError(t, err)
	require.InDelta(t, time.Hour.Milliseconds(), ttl, float64(bound.Milliseconds()))
	require.Equal(t, "2", get(t, client, "b"))
	ttl, err = do(t, client, "PTTL", "b").AsInt64()
	require.NoError(t, err)
	require.Equal(t, int64(-1), ttl)
	require.Equal(t, "(nil)", get(t, client, "gone1"))
	require.Equal(t, "(nil)", get(t, client, "gone2"))
}

func TestConflictIsNoErrorAndItsSnapshotIsGood(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	read(t, p, "a")
	do(t, client, "SET", "a", "faster")
	committed, snap, err := p.Exchange(within(t, bound), set("a", "mine"), []string{"a"})
	require.NoError(t, err)
	require.False(t, committed)
	require.Equal(t, "faster", string(snap.Values[0].Data))
	require.Equal(t, "faster", get(t, client, "a"))

	// The snapshot of the conflict is watched: the next commit may rest on it.
	committed, _, err = p.Exchange(within(t, bound), set("a", "mine"), nil)
	require.NoError(t, err)
	require.True(t, committed)
	require.Equal(t, "mine", get(t, client, "a"))
}

func TestWatchIsArmedAgainByTheReadOfACommit(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	read(t, p, "a")
	committed, _, err := p.Exchange(within(t, bound), set("a", "1"), []string{"a"})
	require.NoError(t, err)
	require.True(t, committed)
	do(t, client, "SET", "a", "foreign")
	committed, _, err = p.Exchange(within(t, bound), set("a", "2"), nil)
	require.NoError(t, err)
	require.False(t, committed)
	require.Equal(t, "foreign", get(t, client, "a"))
}

func TestCommitWithoutAWatchIsNeverSent(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	refusedUnsent := func() {
		t.Helper()
		committed, _, err := p.Exchange(within(t, bound), set("a", "unguarded"), []string{"a"})
		require.False(t, committed)
		require.ErrorIs(t, err, exchange.ErrNoWatch)
		require.Equal(t, "(nil)", get(t, client, "a"))
	}
	refusedUnsent() // no connection yet
	read(t, p, "b")
	_, _, err := p.Exchange(within(t, bound), nil, nil)
	require.NoError(t, err)
	refusedUnsent() // the watches were dropped
	read(t, p, "b")
	_, _, err = p.Exchange(within(t, bound), set("b", "1"), nil)
	require.NoError(t, err)
	refusedUnsent() // the commit used the watches up
}

func TestWatchesOfAnUncommittedBatchAreDropped(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	read(t, p, "old")
	read(t, p, "a")
	do(t, client, "SET", "old", "touched")
	committed, _, err := p.Exchange(within(t, bound), set("a", "1"), nil)
	require.NoError(t, err)
	require.True(t, committed)
}

func TestNothingToDoSendsNothing(t *testing.T) {
	t.Parallel()
	client := newClient(t, "127.0.0.1:1")
	p := newPort(t, client)
	committed, _, err := p.Exchange(within(t, bound), &exchange.Writes{}, nil)
	require.NoError(t, err)
	require.False(t, committed)
}

func TestDoneCtxSendsNothingAndKeepsTheGuard(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	read(t, p, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := p.Exchange(ctx, set("a", "1"), nil)
	failure := connError(t, err)
	require.False(t, failure.Sent)
	require.True(t, failure.NothingApplied())
	require.NotErrorIs(t, err, context.Canceled)
	committed, _, err := p.Exchange(t.Context(), set("a", "2"), nil) // no deadline: the port's own
	require.NoError(t, err)
	require.True(t, committed)
}

func TestExchangesAtTheSameTimeTakeTurns(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	results := make(chan error, 8)
	for range cap(results) {
		go func() {
			_, _, err := p.Exchange(context.Background(), nil, []string{"a"})
			results <- err
		}()
	}
	for range cap(results) {
		require.NoError(t, <-results)
	}
}

func TestAnswersOutOfPlaceAreNeverTrusted(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr)
	p := newPort(t, client)
	read(t, p, "a")
	// As a proxy might: an open MULTI that the port knows nothing of.
	require.NoError(t, p.conn.dedicated.Do(within(t, bound), client.B().Multi().Build()).Error())
	committed, _, err := p.Exchange(within(t, bound), nil, []string{"b"})
	require.False(t, committed)
	require.ErrorIs(t, err, errProtocol)
	require.ErrorAs(t, err, new(*exchange.ConnError))
	_, _, err = p.Exchange(within(t, bound), set("a", "1"), nil)
	require.ErrorIs(t, err, exchange.ErrNoWatch)
	read(t, p, "a")
}
