package redistx

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// tally counts how increments of one key ended.
type tally struct{ committed, unknown int }

// increment adds one to key until the port is closed, each time as a guarded commit.
func increment(p *Port, key string, count *tally) {
	for {
		_, snap, err := p.Exchange(context.Background(), nil, []string{key})
		if errors.Is(err, exchange.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		n, _ := strconv.Atoi(string(snap.Values[0].Data))
		committed, _, err := p.Exchange(context.Background(), set(key, strconv.Itoa(n+1)), nil)
		var failure *exchange.ConnError
		switch {
		case committed:
			count.committed++
		case errors.As(err, &failure) && !failure.NothingApplied():
			count.unknown++
		}
	}
}

// TestNoIncrementIsLostOrCountedTwice has two ports compete for a key while their
// connections are killed, and closes them at work.
func TestNoIncrementIsLostOrCountedTwice(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	admin := newClient(t, s.addr)
	client := newClient(t, s.addr)
	for round := range 5 {
		key := "n" + strconv.Itoa(round)
		var counts [2]tally
		var ports [2]*Port
		var wg sync.WaitGroup
		for i := range ports {
			ports[i] = New(client, Options{})
			wg.Go(func() { increment(ports[i], key, &counts[i]) })
		}
		for kill := range 10 {
			do(t, admin, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			require.Eventually(t, func() bool { // it goes on afterwards
				n, _ := strconv.Atoi(get(t, admin, key))
				return n > 5*kill
			}, bound, time.Millisecond)
		}
		for _, p := range ports {
			p.Close()
		}
		wg.Wait()
		n, err := strconv.Atoi(get(t, admin, key))
		require.NoError(t, err)
		committed := counts[0].committed + counts[1].committed
		require.GreaterOrEqual(t, n, committed, "an increment was lost: a commit was not guarded")
		require.LessOrEqual(t, n, committed+counts[0].unknown+counts[1].unknown)
	}
}

func TestPlainRESP2(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr, poolOf(1), func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true })
	_, err := checkUp(t, client)
	require.NoError(t, err)
	for range 2 { // the second port uses the first one's connection
		p := New(client, Options{})
		read(t, p, "a")
		committed, snap, err := p.Exchange(within(t, bound), set("a", "1"), []string{"a"})
		require.NoError(t, err)
		require.True(t, committed)
		require.Equal(t, "1", string(snap.Values[0].Data))
		do(t, newClient(t, s.addr), "SET", "a", "2")
		committed, _, err = p.Exchange(within(t, bound), set("a", "3"), nil)
		require.NoError(t, err)
		require.False(t, committed)
		p.Close()
	}
}

// TestConnectionWithGoroutinesOfItsOwn: so is every one of a client with AlwaysPipelining.
func TestConnectionWithGoroutinesOfItsOwn(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	client := newClient(t, s.addr, poolOf(1), func(o *rueidis.ClientOption) { o.AlwaysPipelining = true })
	p := newPort(t, client)
	read(t, p, "a")
	s.pause()
	_, _, err := p.Exchange(within(t, bound/400), set("a", "1"), []string{"a"})
	require.False(t, connError(t, err).NothingApplied())
	s.resume()
	_, _, err = p.Exchange(within(t, bound), set("a", "2"), nil)
	require.ErrorIs(t, err, exchange.ErrNoWatch)
	readAgain(t, p, "a")
	committed, _, err := p.Exchange(within(t, bound), set("a", "3"), nil)
	require.NoError(t, err)
	require.True(t, committed)
}
