package pubsub

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/redislockservice/redislockservice/internal/faketime"
)

// link is the way to miniredis; a test can cut it.
type link struct {
	mini *miniredis.Miniredis

	mu    sync.Mutex // guards the fields below
	dead  bool       // dials fail
	conns []net.Conn
}

func (l *link) dial(context.Context, string, *net.Dialer) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, fmt.Errorf("link cut")
	}
	conn, err := l.mini.Dial()
	l.conns = append(l.conns, conn)
	return conn, err
}

// cut breaks all connections, and all dials for as long as dead is set.
func (l *link) cut(dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = dead
	for _, conn := range l.conns {
		_ = conn.Close()
	}
	l.conns = nil
}

func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
}

// inBubble runs a test on miniredis and the bubble's clock, with both protocols.
func inBubble(t *testing.T, test func(t *testing.T, l *link, client rueidis.Client)) {
	for name, always := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &link{mini: miniredis.NewMiniRedis()}
				client, err := rueidis.NewClient(rueidis.ClientOption{
					InitAddress: []string{"mini:0"}, AlwaysRESP2: always,
					ForceSingleClient: true, DisableCache: true,
					DialCtxFn: func(ctx context.Context, a string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
						return l.dial(ctx, a, d)
					},
				})
				require.NoError(t, err)
				test(t, l, client)
				client.Close()
				// The client leaves timers behind that end within this time.
				faketime.Pass(time.Minute)
			})
		})
	}
}

func TestBubbleMessagesArriveInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *link, client rueidis.Client) {
		s, err := New(t.Context(), client)
		require.NoError(t, err)
		r := newRecorder()
		_, err = s.Subscribe(t.Context(), "news", r.handler())
		require.NoError(t, err)
		for i := range 100 {
			require.NoError(t, s.Publish(t.Context(), "news", fmt.Sprint(i)))
		}
		for i := range 100 {
			r.expect(t, fmt.Sprint(i))
		}
		require.NoError(t, s.Close())
	})
}

func TestBubbleIdleHourKeepsTheSubscription(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *link, client rueidis.Client) {
		s, err := New(t.Context(), client)
		require.NoError(t, err)
		r := newRecorder()
		_, err = s.Subscribe(t.Context(), "news", r.handler())
		require.NoError(t, err)
		faketime.Pass(time.Hour)
		require.NoError(t, s.Publish(t.Context(), "news", "still there"))
		r.expect(t, "still there")
		require.NoError(t, s.Close())
	})
}

func TestBubbleOutageIsOneDownOneUpAndTwoWarnings(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *link, client rueidis.Client) {
		core, logs := observer.New(zapcore.WarnLevel)
		s, err := New(t.Context(), client, WithLogger(zap.New(core)))
		require.NoError(t, err)
		r := newRecorder()
		_, err = s.Subscribe(t.Context(), "news", r.handler())
		require.NoError(t, err)

		l.cut(true)
		faketime.Pass(time.Hour)
		r.expect(t, "<down>")
		require.Empty(t, r.events, "an hour of failed attempts is one outage")
		_, err = s.Subscribe(t.Context(), "other", r.handler())
		require.ErrorContains(t, err, "link cut", "says why it took too long")
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no deadline of the caller's was exceeded")

		l.heal()
		faketime.Pass(time.Minute)
		r.expect(t, "<up>")
		require.Equal(t, 2, logs.Len(), "%v", logs.All())
		require.NoError(t, s.Publish(t.Context(), "news", "after"))
		r.expect(t, "after")
		require.NoError(t, s.Close())
	})
}

func TestBubbleSlowHandlerIsToldOnceThatMessagesWereDropped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *link, client rueidis.Client) {
		s, err := New(t.Context(), client, WithQueueLength(4))
		require.NoError(t, err)
		slow, fast := newRecorder(), newRecorder()
		var cause error
		h := slow.handler()
		h.Message = func(payload string) {
			faketime.Pass(time.Second)
			slow.events <- payload
		}
		h.Down = func(err error) { cause = err; slow.events <- "<down>" }
		_, err = s.Subscribe(t.Context(), "news", h)
		require.NoError(t, err)
		_, err = s.Subscribe(t.Context(), "news", fast.handler())
		require.NoError(t, err)

		start := time.Now()
		for i := range 20 {
			require.NoError(t, s.Publish(t.Context(), "news", fmt.Sprint(i)))
			fast.expect(t, fmt.Sprint(i)) // keeps up, so that its short queue never fills
		}
		require.Zero(t, time.Since(start), "the fast handler waited for the slow one")
		faketime.Pass(time.Minute)
		// Between four, the queue, and five, with the one in the handler's hands.
		slow.expect(t, "0", "1", "2", "3")
		if e := slow.next(t); e == "4" {
			slow.expect(t, "<down>", "<up>")
		} else {
			require.Equal(t, "<down>", e)
			slow.expect(t, "<up>")
		}
		require.ErrorIs(t, cause, ErrOverflow)
		require.Empty(t, slow.events)
		require.NoError(t, s.Publish(t.Context(), "news", "later"))
		faketime.Pass(time.Minute)
		slow.expect(t, "later")
		require.NoError(t, s.Close())
	})
}

// A connection that was given up on may still be read: a stopped server that goes
// on sends what stood in its buffers.
func TestBubbleNothingFromAGivenUpConnectionCounts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *link, client rueidis.Client) {
		s, err := New(t.Context(), client)
		require.NoError(t, err)
		r := newRecorder()
		_, err = s.Subscribe(t.Context(), "news", r.handler())
		require.NoError(t, err)
		old := s.conn
		l.cut(true)
		r.expect(t, "<down>")
		s.confirmed(old, "news")
		s.dispatch(old, "news", "stale")
		l.heal()
		r.expect(t, "<up>")
		s.dispatch(old, "news", "stale")
		err = s.Publish(t.Context(), "news", "fresh")
		for range 10 { // a shared connection that died with the cut fails once, whenever it is next used
			if err == nil {
				break
			}
			faketime.Pass(10 * time.Millisecond)
			err = s.Publish(t.Context(), "news", "fresh")
		}
		require.NoError(t, err)
		r.expect(t, "fresh")
		require.NoError(t, s.Close())
	})
}

func TestBubbleCloseWaitsForTheRunningHandler(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *link, client rueidis.Client) {
		s, err := New(t.Context(), client)
		require.NoError(t, err)
		free, closed := make(chan struct{}), make(chan struct{})
		calls := 0
		sub, err := s.Subscribe(t.Context(), "news", Handler{Message: func(string) { calls++; <-free }})
		require.NoError(t, err)
		require.NoError(t, s.Publish(t.Context(), "news", "taken"))
		require.NoError(t, s.Publish(t.Context(), "news", "queued"))
		synctest.Wait()
		go func() { sub.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			require.FailNow(t, "Close returned while the handler was running")
		default:
		}
		close(free)
		<-closed
		require.Equal(t, 1, calls, "what was queued is dropped")
		require.NoError(t, s.Close())
	})
}

func TestBubbleMessagesAreASignOfLifeWhileAnAnswerIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &connection{}
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		go c.watchSilence(ctx, cancel, time.Second)
		for range 10 {
			faketime.Pass(700 * time.Millisecond)
			c.heard.Add(1)
		}
		require.NoError(t, ctx.Err())
		faketime.Pass(3 * time.Second)
		require.ErrorIs(t, context.Cause(ctx), errSilent)
	})
}

func TestBubbleSubscribeGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *link, client rueidis.Client) {
		s, err := New(t.Context(), client)
		require.NoError(t, err)
		l.cut(true)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err = s.Subscribe(ctx, "news", newRecorder().handler())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 3*time.Second, time.Since(start))
		require.Empty(t, s.channels, "nothing stays registered")
		require.NoError(t, s.Close())
	})
}

func TestBubbleAfterCloseEverythingIsErrClosed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, l *link, client rueidis.Client) {
		s, err := New(t.Context(), client)
		require.NoError(t, err)
		sub, err := s.Subscribe(t.Context(), "news", newRecorder().handler())
		require.NoError(t, err)
		l.cut(true)
		synctest.Wait()
		waiting := make(chan error, 1)
		go func() {
			_, err := s.Subscribe(t.Context(), "other", newRecorder().handler())
			waiting <- err
		}()
		synctest.Wait()
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-waiting, ErrClosed)
		_, err = s.Subscribe(t.Context(), "news", newRecorder().handler())
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, s.Publish(t.Context(), "news", "x"), ErrClosed)
		require.NoError(t, s.Close(), "idempotent")
		sub.Close()
		sub.Close()
	})
}
