package pubsub

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// onRedis runs a test on a server of its own, once for each protocol.
func onRedis(t *testing.T, test func(t *testing.T, server *redisServer, client rueidis.Client)) {
	t.Helper()
	for name, always := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startRedis(t)
			server.resp2 = always
			test(t, server, server.client(nil))
		})
	}
}

// poolOfOne makes a client that has a single dedicated connection to give.
func poolOfOne(server *redisServer) rueidis.Client {
	return server.client(func(o *rueidis.ClientOption) { o.BlockingPoolSize = 1 })
}

func subscribe(t *testing.T, s *Service, channel string) *recorder {
	t.Helper()
	r := newRecorder()
	_, err := s.Subscribe(t.Context(), channel, r.handler())
	require.NoError(t, err)
	return r
}

func TestSubscribeReturnsOnceRedisHasConfirmed(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client)
		for i := range 20 {
			channel := fmt.Sprint("channel-", i)
			r := subscribe(t, s, channel)
			require.EqualValues(t, 1, subscribers(t, client, channel))
			require.NoError(t, s.Publish(t.Context(), channel, "x"))
			r.expect(t, "x")
		}
	})
}

func TestTwoHandlersOfAChannelShareOneSubscribe(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client)
		first := subscribe(t, s, "news")
		r := newRecorder()
		second, err := s.Subscribe(t.Context(), "news", r.handler())
		require.NoError(t, err)
		require.EqualValues(t, 1, subscribers(t, client, "news"))
		require.NoError(t, s.Publish(t.Context(), "news", "both"))
		first.expect(t, "both")
		r.expect(t, "both")

		second.Close()
		require.NoError(t, s.Publish(t.Context(), "news", "one"))
		first.expect(t, "one")
		require.Empty(t, r.events)
	})
}

func TestLastCloseLeavesTheChannelAndACloseReopens(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client)
		keep := subscribe(t, s, "keep")
		for range 20 {
			r := newRecorder()
			sub, err := s.Subscribe(t.Context(), "news", r.handler())
			require.NoError(t, err)
			require.NoError(t, s.Publish(t.Context(), "news", "x"))
			r.expect(t, "x")
			sub.Close()
		}
		require.Eventually(t, func() bool { return subscribers(t, client, "news") == 0 }, patience, time.Millisecond)
		require.NoError(t, s.Publish(t.Context(), "keep", "y"))
		keep.expect(t, "y")
	})
}

func TestKilledConnectionTellsEverySubscriberDownThenUp(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client)
		all := []*recorder{subscribe(t, s, "a"), subscribe(t, s, "a"), subscribe(t, s, "b")}
		for round := range 5 {
			require.NoError(t, run(t, client, "CLIENT", "KILL", "TYPE", "pubsub").Error())
			for _, r := range all {
				r.expect(t, "<down>", "<up>")
			}
			message := fmt.Sprint(round)
			require.NoError(t, s.Publish(t.Context(), "a", message))
			require.NoError(t, s.Publish(t.Context(), "b", message))
			for _, r := range all {
				r.expect(t, message)
			}
		}
	})
}

func TestRestartOnTheSamePortBringsAllChannelsBack(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, server *redisServer, client rueidis.Client) {
		s := newPubSub(t, client)
		a, b := subscribe(t, s, "a"), subscribe(t, s, "b")
		server.kill()
		a.expect(t, "<down>")
		b.expect(t, "<down>")
		require.Error(t, s.Publish(t.Context(), "a", "nobody hears"))
		server.restart()
		a.expect(t, "<up>")
		b.expect(t, "<up>")
		publishUntilDone(t, s, "b", "after")
		b.expect(t, "after")
	})
}

// publishUntilDone goes on over the client's shared connections, each of which
// fails once after a restart.
func publishUntilDone(t *testing.T, s *Service, channel, payload string) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Publish(t.Context(), channel, payload) == nil },
		patience, time.Millisecond)
}

func TestStoppedServerIsNoticedAndComesBack(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, server *redisServer, _ rueidis.Client) {
		// The client's own ping would notice too, but not within our patience.
		client := server.client(func(o *rueidis.ClientOption) {
			o.Dialer.KeepAlive, o.ConnWriteTimeout = time.Hour, time.Hour
		})
		s := newPubSub(t, client, WithHeartbeat(500*time.Millisecond))
		r := subscribe(t, s, "news")
		server.pause()
		start := time.Now()
		r.expect(t, "<down>")
		t.Logf("silence noticed after %v", time.Since(start))
		server.resume()
		r.expect(t, "<up>")
		publishUntilDone(t, s, "news", "after")
		r.expect(t, "after")
	})
}

// aclClient may use only channels a*, at first.
func aclClient(t *testing.T, server *redisServer, admin rueidis.Client) rueidis.Client {
	t.Helper()
	require.NoError(t, run(t, admin, "ACL", "SETUSER", "limited", "on", ">secret", "resetchannels", "&a*",
		"+publish", "+subscribe", "+unsubscribe", "+hello").Error())
	return server.client(func(o *rueidis.ClientOption) {
		o.Username, o.Password = "limited", "secret"
	})
}

func TestDeniedChannelFailsItsSubscribeWithTheServersError(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, server *redisServer, admin rueidis.Client) {
		s := newPubSub(t, aclClient(t, server, admin))
		r := subscribe(t, s, "a")
		_, err := s.Subscribe(t.Context(), "b", newRecorder().handler())
		require.ErrorContains(t, err, "NOPERM")
		var refusal *rueidis.RedisError
		require.ErrorAs(t, err, &refusal)
		require.ErrorContains(t, s.Publish(t.Context(), "b", "x"), "NOPERM")

		// Leaving a channel makes the client send a PING, which is denied here.
		sub, err := s.Subscribe(t.Context(), "abandoned", newRecorder().handler())
		require.NoError(t, err)
		sub.Close()
		require.Eventually(t, func() bool { return subscribers(t, admin, "abandoned") == 0 }, patience, time.Millisecond)
		require.NoError(t, s.Publish(t.Context(), "a", "x"))
		r.expect(t, "x")
	})
}

func TestRevokedChannelStaysDownWhileTheOthersComeBack(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, server *redisServer, admin rueidis.Client) {
		s := newPubSub(t, aclClient(t, server, admin), WithBackoff(time.Millisecond, 20*time.Millisecond))
		a, ax := subscribe(t, s, "a"), subscribe(t, s, "ax")
		// Redis cuts the connections that use what is revoked.
		require.NoError(t, run(t, admin, "ACL", "SETUSER", "limited", "resetchannels", "&a").Error())
		a.expect(t, "<down>", "<up>")
		ax.expect(t, "<down>")
		publishUntilDone(t, s, "a", "x")
		a.expect(t, "x")
		_, err := s.Subscribe(t.Context(), "ax", newRecorder().handler())
		require.ErrorContains(t, err, "NOPERM", "a new handler gets the answer at once")
		require.Empty(t, ax.events)

		require.NoError(t, run(t, admin, "ACL", "SETUSER", "limited", "&ax").Error())
		ax.expect(t, "<up>")
		publishUntilDone(t, s, "ax", "y")
		ax.expect(t, "y")
		require.Empty(t, a.events)
	})
}

func TestExhaustedPoolFailsNewAndGetsTheLateConnectionBack(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, server *redisServer, client rueidis.Client) {
		one := poolOfOne(server)
		_, release := one.Dedicate()
		_, err := New(t.Context(), one, WithConnectTimeout(50*time.Millisecond))
		require.ErrorContains(t, err, "pool")
		require.NotErrorIs(t, err, context.DeadlineExceeded)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = New(ctx, one)
		require.ErrorIs(t, err, context.Canceled)

		release()
		// Both that hung give their connection back, so the next has its turn.
		s := newPubSub(t, one, WithConnectTimeout(patience))
		subscribe(t, s, "news")
		require.NoError(t, run(t, client, "CLIENT", "KILL", "TYPE", "pubsub").Error())
		r := subscribe(t, s, "other")
		publishUntilDone(t, s, "other", "one connection is enough to reconnect")
		r.expect(t, "one connection is enough to reconnect")
	})
}

func TestCloseGivesTheConnectionBackAndLeavesTheClientOpen(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, server *redisServer, client rueidis.Client) {
		one := poolOfOne(server)
		for range 5 {
			s, err := New(t.Context(), one)
			require.NoError(t, err)
			subscribe(t, s, "news")
			require.NoError(t, s.Close())
			require.Eventually(t, func() bool { return subscribers(t, client, "news") == 0 }, patience, time.Millisecond)
		}
		require.NoError(t, run(t, one, "PING").Error())
	})
}

func TestUnreachableRedisFailsNew(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := server.client(nil)
	server.kill()
	_, err := New(t.Context(), client)
	require.Error(t, err)
}

func TestHungRedisFailsNewInTime(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, server *redisServer, client rueidis.Client) {
		server.pause()
		_, err := New(t.Context(), client, WithConnectTimeout(100*time.Millisecond))
		require.ErrorIs(t, err, errNotInTime)
		server.resume()
		newPubSub(t, client)
	})
}

// The client's read loop deadlocks if a handler in it uses the client; ours is
// not in it.
func TestBurstWithAHandlerThatPublishesItself(t *testing.T) {
	t.Parallel()
	const burst = 10_000
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client, WithQueueLength(burst))
		echoes := subscribe(t, s, "echo")
		_, err := s.Subscribe(t.Context(), "burst", Handler{Message: func(payload string) {
			if err := s.Publish(context.Background(), "echo", payload); err != nil {
				echoes.events <- err.Error()
			}
		}})
		require.NoError(t, err)
		for i := range burst {
			require.NoError(t, s.Publish(t.Context(), "burst", fmt.Sprint(i)))
		}
		for i := range burst {
			echoes.expect(t, fmt.Sprint(i))
		}
	})
}

func TestStuckHandlerHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	const burst = 5000
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client, WithQueueLength(burst))
		free := make(chan struct{})
		stuck := newRecorder()
		h := stuck.handler()
		h.Message = func(string) { <-free }
		_, err := s.Subscribe(t.Context(), "news", h)
		require.NoError(t, err)
		fast := subscribe(t, s, "news")
		for i := range burst + 10 {
			require.NoError(t, s.Publish(t.Context(), "news", fmt.Sprint(i)))
		}
		for i := range burst + 10 {
			fast.expect(t, fmt.Sprint(i))
		}
		require.Empty(t, stuck.events)
		close(free)
		stuck.expect(t, "<down>", "<up>")
	})
}

func TestNoMessageIsMissingWithoutADown(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, _ *redisServer, client rueidis.Client) {
		s := newPubSub(t, client, WithQueueLength(100_000), WithBackoff(time.Millisecond, time.Millisecond))
		r := subscribe(t, s, "news")
		stop := make(chan struct{})
		var publisher sync.WaitGroup
		publisher.Go(func() { publishNumbers(s, stop) })
		defer publisher.Wait()
		defer close(stop)
		check := gapCheck(t)
		for range 5 {
			for range 500 {
				check(r.next(t))
			}
			require.NoError(t, run(t, client, "CLIENT", "KILL", "TYPE", "pubsub").Error())
		}
		for range 500 {
			check(r.next(t))
		}
	})
}

func publishNumbers(s *Service, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
			_ = s.Publish(context.Background(), "news", fmt.Sprint(i))
		}
	}
}

// gapCheck checks that numbers only rise, and by one unless a Down and an Up stand
// between.
func gapCheck(t *testing.T) func(event string) {
	last, gap := -1, true
	return func(event string) {
		var n int
		if _, err := fmt.Sscan(event, &n); err != nil {
			gap = true
			return
		}
		require.Greater(t, n, last)
		require.True(t, gap || n == last+1, "from %d to %d: messages are missing without a Down", last, n)
		last, gap = n, false
	}
}
