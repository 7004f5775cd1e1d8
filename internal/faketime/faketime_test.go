package faketime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTimePassesInABubble(t *testing.T) {
	t.Parallel()
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		before := time.Now()
		Pass(5 * 365 * 24 * time.Hour)
		require.Equal(t, 5*365*24*time.Hour, time.Since(before))
	})
	require.Less(t, time.Since(began), time.Hour)
}

// A sleep on the real clock is a test that fails on a busy machine.
func TestTimeIsNotPassedOutsideOfABubble(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() { Pass(time.Nanosecond) })
}
