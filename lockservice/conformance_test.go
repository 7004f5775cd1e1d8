package lockservice_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/internal/redistest"
)

// The promises of the public API are tried on fake time, where they are exact, and on
// a real server, where they are real. The scenarios are in package locktest.

func TestConformanceInBubble(t *testing.T) {
	t.Parallel()
	locktest.Exercise(t, locktest.InBubble())
}

func TestConformanceOnRedis(t *testing.T) {
	t.Parallel()
	t.Run("Suite", func(t *testing.T) { locktest.Exercise(t, locktest.OnRedis()) })

	stats := redistest.Shared(t).CommandStats(t)
	require.Positive(t, stats["exec"])
	for _, script := range []string{"eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro", "script", "function"} {
		require.NotContains(t, stats, script, "no scripts, anywhere")
	}
}
