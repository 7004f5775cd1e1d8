package pubsub

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// soon waits for something that must not hang.
func soon(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		require.FailNow(t, what+" hangs")
	}
}

func TestNoHandlerRunsAfterItsCloseReturned(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client)
		stop := make(chan struct{})
		var publisher sync.WaitGroup
		publisher.Go(func() { publishNumbers(s, stop) })
		defer publisher.Wait()
		defer close(stop)
		for range 100 {
			var closed, late atomic.Bool
			called := make(chan struct{}, 1)
			sub, err := s.Subscribe(t.Context(), "news", Handler{Message: func(string) {
				select {
				case called <- struct{}{}:
				default:
				}
				if closed.Load() {
					late.Store(true)
				}
			}})
			require.NoError(t, err)
			<-called
			sub.Close()
			closed.Store(true)
			require.False(t, late.Load())
		}
	})
}

func TestHandlerMayCloseItsOwnSubscription(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client)
		var sub atomic.Pointer[Subscription]
		closed := make(chan struct{}, 10)
		got, err := s.Subscribe(t.Context(), "news", Handler{Message: func(string) {
			sub.Load().Close()
			closed <- struct{}{}
		}})
		require.NoError(t, err)
		sub.Store(got)
		for range 3 {
			require.NoError(t, s.Publish(t.Context(), "news", "x"))
		}
		soon(t, "Close inside its handler", func() { <-closed })
		soon(t, "Close outside", got.Close)
		require.Empty(t, closed, "no further message after the Close")
	})
}

func TestHandlersThatCloseEachOtherDoNotDeadlock(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client)
		var subs [2]atomic.Pointer[Subscription]
		var both, ended sync.WaitGroup
		both.Add(2)
		ended.Add(2)
		for i := range subs {
			sub, err := s.Subscribe(t.Context(), "news", Handler{Message: func(string) {
				both.Done()
				both.Wait()
				subs[1-i].Load().Close()
				ended.Done()
			}})
			require.NoError(t, err)
			subs[i].Store(sub)
		}
		require.NoError(t, s.Publish(t.Context(), "news", "x"))
		soon(t, "mutual Close", ended.Wait)
	})
}

func TestHandlerMayCloseTheService(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s, err := New(t.Context(), client)
		require.NoError(t, err)
		closed := make(chan error, 1)
		_, err = s.Subscribe(t.Context(), "news", Handler{Message: func(string) { closed <- s.Close() }})
		require.NoError(t, err)
		require.NoError(t, s.Publish(t.Context(), "news", "x"))
		soon(t, "Service.Close inside a handler", func() { require.NoError(t, <-closed) })
		require.NoError(t, s.Close())
	})
}

func TestCloseWhileTheServerIsStopped(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, server *redisServer, client rueidis.Client) {
		s, err := New(t.Context(), client)
		require.NoError(t, err)
		subscribe(t, s, "news")
		server.pause()
		start := time.Now()
		soon(t, "Close", func() { require.NoError(t, s.Close()) })
		t.Logf("closed after %v", time.Since(start))
		server.resume()
	})
}

func TestCloseNamesAStuckHandlerInsteadOfHanging(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s, err := New(t.Context(), client, WithConnectTimeout(2*time.Second))
		require.NoError(t, err)
		free, inside := make(chan struct{}), make(chan struct{})
		_, err = s.Subscribe(t.Context(), "news", Handler{Message: func(string) { close(inside); <-free }})
		require.NoError(t, err)
		require.NoError(t, s.Publish(t.Context(), "news", "x"))
		<-inside
		require.ErrorContains(t, s.Close(), "still busy")
		close(free)
		require.NoError(t, s.Close(), "the end is waited for again")
	})
}

func TestCloseWhileReconnectingToAStoppedServer(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, server *redisServer, client rueidis.Client) {
		s, err := New(t.Context(), client, WithHeartbeat(50*time.Millisecond), WithBackoff(time.Millisecond, time.Millisecond))
		require.NoError(t, err)
		r := subscribe(t, s, "news")
		server.pause()
		r.expect(t, "<down>")
		start := time.Now()
		soon(t, "Close", func() { require.NoError(t, s.Close()) })
		t.Logf("closed after %v", time.Since(start))
		server.resume()
	})
}

func TestCloseRacingSubscribePublishAndReconnect(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		for range 30 {
			s, err := New(t.Context(), client, WithBackoff(time.Millisecond, time.Millisecond))
			require.NoError(t, err)
			var busy sync.WaitGroup
			var rounds atomic.Int64
			for worker := range 8 {
				busy.Go(func() { churn(t, s, fmt.Sprint("channel-", worker%3), &rounds) })
			}
			busy.Go(func() {
				_ = client.Do(context.Background(), client.B().Arbitrary("CLIENT", "KILL", "TYPE", "pubsub").Build())
			})
			require.Eventually(t, func() bool { return rounds.Load() > 50 }, patience, time.Millisecond)
			soon(t, "Close", func() {
				var closers sync.WaitGroup
				errs := make(chan error, 3)
				for range cap(errs) {
					closers.Go(func() { errs <- s.Close() })
				}
				closers.Wait()
				for range cap(errs) {
					require.NoError(t, <-errs)
				}
			})
			require.Empty(t, s.inside, "a handler's goroutine is left")
			soon(t, "Subscribe after Close", busy.Wait)
		}
	})
}

// churn subscribes, publishes and closes until the service is closed.
func churn(t *testing.T, s *Service, channel string, rounds *atomic.Int64) {
	for {
		got := make(chan struct{}, 1)
		sub, err := s.Subscribe(context.Background(), channel, Handler{Message: func(string) {
			select {
			case got <- struct{}{}:
			default:
			}
		}})
		if err != nil {
			assert.ErrorIs(t, err, ErrClosed)
			return
		}
		_ = s.Publish(context.Background(), channel, "x")
		rounds.Add(1)
		sub.Close()
	}
}

func TestSubscribeFromInsideAHandler(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client)
		inner := newRecorder()
		outcome := make(chan error, 1)
		_, err := s.Subscribe(t.Context(), "outer", Handler{Message: func(string) {
			_, err := s.Subscribe(context.Background(), "inner", inner.handler())
			outcome <- err
		}})
		require.NoError(t, err)
		require.NoError(t, s.Publish(t.Context(), "outer", "x"))
		soon(t, "Subscribe inside a handler", func() { require.NoError(t, <-outcome) })
		require.NoError(t, s.Publish(t.Context(), "inner", "y"))
		inner.expect(t, "y")
	})
}
