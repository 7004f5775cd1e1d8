package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

func TestBubbleRunsOnFakeTime(t *testing.T) {
	t.Parallel()
	began := time.Now()
	Bubble(t, func(t *testing.T, e *Env) {
		svc := e.NewService()
		acquired, err := svc.TryWriteLock(t.Context(), []string{"a"}, func(_ context.Context, has lockservice.HasLock) error {
			e.Pass(time.Hour)
			require.True(t, has())
			return nil
		})
		require.NoError(t, err)
		require.True(t, acquired)
		require.NotNil(t, e.Record("a"))
		e.Pass(31 * time.Second)
		require.Nil(t, e.Record("a"), "a released record is kept for 30 s")
	})
	require.Less(t, time.Since(began), time.Minute)
}

func TestBubbleGhostOfAPausedServerIsDelivered(t *testing.T) {
	t.Parallel()
	Bubble(t, func(t *testing.T, e *Env) {
		client := e.Client()
		dedicated, give := client.Dedicate()
		require.NoError(t, dedicated.Do(t.Context(), dedicated.B().Ping().Build()).Error())
		e.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, dedicated.Do(ctx, dedicated.B().Set().Key("k").Value("v").Build()).Error())
		give()
		require.Empty(t, e.Get("k"))
		e.Unpause()
		e.Pass(time.Second)
		require.Equal(t, "v", e.Get("k"), "what was sent to a paused server is carried out afterwards")
	})
}

func TestBubbleLosesTheReplyButNotTheCommand(t *testing.T) {
	t.Parallel()
	Bubble(t, func(t *testing.T, e *Env) {
		client := e.Client()
		e.LoseReplyTo("SET")
		require.Error(t, client.Do(t.Context(), client.B().Set().Key("k").Value("v").Build()).Error())
		require.Equal(t, "v", e.Get("k"))
		require.NoError(t, client.Do(t.Context(), client.B().Set().Key("k").Value("w").Build()).Error(), "once")
	})
}

func TestBubbleRestartIsAnotherRunThatJustStarted(t *testing.T) {
	t.Parallel()
	Bubble(t, func(t *testing.T, e *Env) {
		svc := e.NewService()
		e.Restart(false)
		require.False(t, isReady(t, svc))
		began := time.Now()
		require.NoError(t, svc.WaitUntilReady(t.Context()))
		require.InDelta(t, 61, time.Since(began).Seconds(), 1)
	})
}

func isReady(t *testing.T, svc *lockservice.RedisLockService) bool {
	acquired, err := svc.TryWriteLock(t.Context(), []string{"ready"}, func(context.Context, lockservice.HasLock) error { return nil })
	require.NoError(t, err)
	return acquired
}
