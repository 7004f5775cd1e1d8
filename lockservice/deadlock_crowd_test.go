package lockservice_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
	"github.com/redislockservice/redislockservice/pubsub"
)

// Ten thousand plain waiters of one process neither flood the channel nor hold
// up the detection of a deadlock among others.
func TestTenThousandPlainWaitersDontFloodTheChannel(t *testing.T) {
	t.Parallel()
	const waiters = 10_000
	server := redistest.Start(t)
	// A lease that a machine busy with ten thousand goroutines can renew in time.
	svcs := services(t, server, server.URL(), 3, lockservice.WithPollDelay(time.Second), lockservice.WithLeaseTime(20*time.Second))
	listener, err := pubsub.New(t.Context(), server.Client(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	var bytes, messages atomic.Int64
	_, err = listener.Subscribe(t.Context(), "{deadlocks}:waiting", pubsub.Handler{Message: func(m string) {
		bytes.Add(int64(len(m)))
		messages.Add(1)
	}})
	require.NoError(t, err)

	held, err := svcs[0].Acquire(t.Context(), []lockservice.Lock{lockservice.WriteLock("crowd")})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var entered atomic.Int64
	for range waiters {
		all.Go(func() {
			entered.Add(1)
			_, _ = svcs[0].TryWriteLock(ctx, []string{"crowd"}, func(context.Context, lockservice.HasLock) error { return nil }, lockservice.WithTimeout(time.Minute))
		})
	}
	require.Eventually(t, func() bool { return entered.Load() == waiters }, time.Minute, time.Millisecond)

	began, from, fromMessages := time.Now(), bytes.Load(), messages.Load()
	var slowest time.Duration
	for range 5 {
		errs, took := crossing(t, svcs[1], svcs[2], time.Minute, "beside-the-crowd")
		require.Equal(t, 1, victims(errs), "%v", errs)
		slowest = max(slowest, took)
	}
	errs, took := crossing(t, svcs[0], svcs[2], time.Minute, "in-the-crowd")
	require.Equal(t, 1, victims(errs), "%v", errs)
	slowest = max(slowest, took)
	time.Sleep(3*time.Second - min(time.Since(began), 3*time.Second)) // poll: the time over which the messages are counted
	seconds := time.Since(began).Seconds()
	t.Logf("%d plain waiters and 6 deadlocks: %.0f bytes/s and %.1f messages/s on the channel; slowest detection %v",
		waiters, float64(bytes.Load()-from)/seconds, float64(messages.Load()-fromMessages)/seconds, slowest.Round(time.Millisecond))
	cancel()
	all.Wait()
	require.NoError(t, held.Release(t.Context()))
}
