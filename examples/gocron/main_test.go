package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
	"github.com/redislockservice/redislockservice/lockservice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStory(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, redisenv.Tell(t.Context(), &out, tell))
	t.Log(out.String())
	require.Equal(t, 4, strings.Count(out.String(), "runs the job"))
	require.Contains(t, out.String(), "its lock is free again: true")
	require.Contains(t, out.String(), "the job is told: lockservice: lock lost")
}

// newService is an instance without a scheduler.
func newService(t *testing.T) *lockservice.RedisLockService {
	t.Helper()
	redis, err := redisenv.Open()
	require.NoError(t, err)
	t.Cleanup(redis.Close)
	svc, _, err := redis.Service(t.Context(), "worker")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, svc.Close(context.Background())) })
	return svc
}

func TestUnlockWithADoneContextReleases(t *testing.T) {
	t.Parallel()
	l := newLocker(newService(t), time.Minute, 0)
	ctx, cancel := context.WithCancel(t.Context())
	lock, err := l.Lock(ctx, "job")
	require.NoError(t, err)
	_, err = l.Lock(t.Context(), "job")
	require.ErrorIs(t, err, errSkipped)
	cancel()
	_ = lock.Unlock(ctx)
	next, err := l.Lock(t.Context(), "job")
	require.NoError(t, err)
	_ = next.Unlock(t.Context())
}
