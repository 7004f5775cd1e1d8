package pubsub

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryWrongOptionIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := New(context.Background(), nil, WithConnectTimeout(0), WithQueueLength(-1),
		WithHeartbeat(-time.Second), WithBackoff(time.Second, time.Millisecond), WithLogger(nil), nil)
	for _, what := range []string{"connect timeout", "queue length", "heartbeat", "back-off"} {
		require.ErrorContains(t, err, what)
	}
	_, err = New(context.Background(), nil)
	require.ErrorContains(t, err, "client is nil")
}

func TestBackoffStaysWithinItsRange(t *testing.T) {
	t.Parallel()
	c, err := newConfig([]Option{WithBackoff(50*time.Millisecond, 2*time.Second)})
	require.NoError(t, err)
	for attempt := range 1000 {
		d := c.backoff(attempt)
		require.GreaterOrEqual(t, d, 25*time.Millisecond)
		require.LessOrEqual(t, d, 2*time.Second)
		if attempt > 6 {
			require.GreaterOrEqual(t, d, time.Second)
		}
	}
}

func TestTimeoutInsideTheClientIsNotTheCallersDeadline(t *testing.T) {
	t.Parallel()
	dialTimeout := fmt.Errorf("dial: %w", context.DeadlineExceeded)
	require.NotErrorIs(t, foreign(context.Background(), dialTimeout), context.DeadlineExceeded)
	require.ErrorContains(t, foreign(context.Background(), dialTimeout), "dial")
	require.NoError(t, foreign(context.Background(), nil))

	over, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	require.ErrorIs(t, foreign(over, dialTimeout), context.DeadlineExceeded)
}
