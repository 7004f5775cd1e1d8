package redistx

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// countingClient counts calls of Dedicate.
type countingClient struct {
	rueidis.Client
	calls atomic.Int32
}

func (c *countingClient) Dedicate() (rueidis.DedicatedClient, func()) {
	c.calls.Add(1)
	return c.Client.Dedicate()
}

// dedicate takes a connection from the pool, or fails the test.
func dedicate(t *testing.T, client rueidis.Client) (rueidis.DedicatedClient, func()) {
	t.Helper()
	type pair struct {
		dedicated rueidis.DedicatedClient
		release   func()
	}
	got := make(chan pair, 1)
	go func() {
		d, release := client.Dedicate()
		got <- pair{d, release}
	}()
	select {
	case p := <-got:
		return p.dedicated, p.release
	case <-time.After(bound):
		require.FailNow(t, "the pool gave no connection")
		return nil, nil
	}
}

func TestCloseLeavesNoWatchInThePool(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	client := newClient(t, s.addr, poolOf(1))
	p := newPort(t, client)
	read(t, p, "a")
	p.Close()
	do(t, admin, "SET", "a", "touched")
	next, release := dedicate(t, client)
	defer release()
	answers := next.DoMulti(within(t, bound), client.B().Multi().Build(), client.B().Set().Key("b").Value("1").Build(), client.B().Exec().Build())
	require.NoError(t, answers[2].Error(), "a leaked WATCH aborts the next user's EXEC")
}

func TestWhatTheLastUserLeftInThePoolDoesNoHarm(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	client := newClient(t, s.addr, poolOf(1))
	leave := func(command rueidis.Completed) {
		sloppy, release := dedicate(t, client)
		require.NoError(t, sloppy.Do(within(t, bound), command).Error())
		release()
	}
	leave(client.B().Watch().Key("foreign").Build())
	p := newPort(t, client)
	read(t, p, "a")
	do(t, admin, "SET", "foreign", "1")
	committed, _, err := p.Exchange(within(t, bound), set("a", "1"), nil)
	require.NoError(t, err)
	require.True(t, committed)
	p.Close()

	leave(client.B().Multi().Build())
	p = newPort(t, client)
	require.Equal(t, "1", string(read(t, p, "a").Values[0].Data))
}

func TestExchangeAfterCloseIsRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newPort(t, newClient(t, s.addr))
	read(t, p, "a")
	closed := make(chan struct{})
	for range 4 {
		go func() { p.Close(); closed <- struct{}{} }()
	}
	for range 4 {
		<-closed
	}
	_, _, err := p.Exchange(within(t, bound), set("a", "1"), nil)
	require.ErrorIs(t, err, exchange.ErrClosed)
	_, _, err = p.Exchange(within(t, bound), nil, []string{"a"})
	require.ErrorIs(t, err, exchange.ErrClosed)
}

func TestCloseIsBoundedOnAHungServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newPort(t, newClient(t, s.addr))
	read(t, p, "a")
	s.pause()
	defer s.resume()
	start := time.Now()
	p.Close()
	require.Less(t, time.Since(start), bound)
}

func TestCloseEndsAnExchangeOnAHungServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newPort(t, newClient(t, s.addr, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = 10 * bound }))
	read(t, p, "a")
	s.pause()
	defer s.resume()
	ended := make(chan error, 1)
	go func() {
		_, _, err := p.Exchange(within(t, 10*bound), set("a", "1"), []string{"a"})
		ended <- err
	}()
	require.Eventually(t, func() bool { // the exchange is under way
		idle := p.turn.TryLock()
		if idle {
			p.turn.Unlock()
		}
		return !idle
	}, bound, time.Millisecond)
	p.Close()
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(bound):
		require.FailNow(t, "the exchange goes on after Close")
	}
}

func TestExhaustedPoolIsToldAndPilesUpNoGoroutines(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := &countingClient{Client: newClient(t, s.addr, poolOf(1))}
	_, release := dedicate(t, client)
	client.calls.Store(0)
	p := New(client, Options{DialTimeout: 20 * time.Millisecond})
	t.Cleanup(p.Close)
	for range 5 {
		_, _, err := p.Exchange(within(t, bound), nil, []string{"a"})
		failure := connError(t, err)
		require.False(t, failure.Sent)
		require.ErrorContains(t, err, "pool of dedicated connections gave none within")
	}
	require.Equal(t, int32(1), client.calls.Load())
	release()
	readAgain(t, p, "a")
	require.Equal(t, int32(1), client.calls.Load(), "the late connection is used")
}

func TestExhaustedPoolGivesUpWhenTheCtxEnds(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr, poolOf(1))
	_, release := dedicate(t, client)
	defer release()
	p := New(client, Options{DialTimeout: 10 * bound})
	t.Cleanup(p.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err := p.Exchange(ctx, nil, []string{"a"})
	require.False(t, connError(t, err).Sent)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

func TestConnectionThatComesAfterCloseIsGivenBack(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr, poolOf(1))
	_, release := dedicate(t, client)
	p := New(client, Options{DialTimeout: 20 * time.Millisecond})
	_, _, err := p.Exchange(within(t, bound), nil, []string{"a"})
	require.Error(t, err)
	p.Close()
	release()
	next, release := dedicate(t, client)
	defer release()
	require.NoError(t, next.Do(within(t, bound), client.B().Ping().Build()).Error())
}

func TestCloseEndsTheWaitForAConnection(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr, poolOf(1))
	_, release := dedicate(t, client)
	defer release()
	p := New(client, Options{DialTimeout: 10 * bound})
	ended := make(chan error, 1)
	go func() {
		_, _, err := p.Exchange(within(t, 10*bound), nil, []string{"a"})
		ended <- err
	}()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.dialing != nil
	}, bound, time.Millisecond)
	p.Close()
	require.ErrorIs(t, <-ended, exchange.ErrClosed)
}
