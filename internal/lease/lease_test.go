package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTrustEndsBeforeTheLeaseWhateverTheDelay(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{200 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, time.Hour} {
		for _, delay := range []time.Duration{0, time.Microsecond, time.Millisecond, time.Second, time.Minute} {
			asked := 7 * time.Hour
			readAtRedis := asked + delay // the latest that Redis can have read its clock
			require.LessOrEqual(t, TrustEnd(asked, lease), readAtRedis+lease-MinMargin)
			require.LessOrEqual(t, TrustEnd(asked, lease), readAtRedis+lease-lease/50)
		}
	}
}

func TestAGrantIsWorthwhileWhileHalfTheLeaseRemains(t *testing.T) {
	t.Parallel()
	lease := 10 * time.Second
	end := TrustEnd(0, lease)
	require.True(t, Worthwhile(0, end, lease))
	require.True(t, Worthwhile(lease/2, end, lease))
	require.False(t, Worthwhile(lease/2+time.Nanosecond, end, lease))
	require.False(t, Worthwhile(lease, end, lease))
}

func TestSeveralRetriesFitBeforeTrustEnds(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{200 * time.Millisecond, time.Second, 3 * time.Second, time.Minute} {
		interval := lease / 2
		require.True(t, LeavesRetry(lease, interval), lease)
		delay := RetryDelay(lease, interval)
		require.Positive(t, delay)
		require.LessOrEqual(t, delay, time.Second)
		require.LessOrEqual(t, delay, interval)
		require.Less(t, interval+2*delay, TrustEnd(0, lease))
	}
}

func TestAnIntervalThatLeavesNoRetryIsTold(t *testing.T) {
	t.Parallel()
	require.False(t, LeavesRetry(time.Second, 950*time.Millisecond))
	require.False(t, LeavesRetry(100*time.Millisecond, 50*time.Millisecond))
	require.True(t, LeavesRetry(time.Minute, 57*time.Second))
	require.False(t, LeavesRetry(time.Minute, 58*time.Second))
}

// Only job locks may be so short: a margin of MinMargin would leave nothing.
func TestAShortLeaseIsTrustedForThreeQuarters(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{4 * time.Millisecond, 40 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond} {
		require.Equal(t, 3*lease/4, TrustEnd(0, lease), lease)
		require.True(t, Worthwhile(0, TrustEnd(0, lease), lease))
		require.False(t, Worthwhile(lease/2+1, TrustEnd(0, lease), lease))
		require.False(t, LeavesRetry(lease, time.Millisecond) && lease <= 100*time.Millisecond, "too short to be renewed")
	}
}

// Redis' clock is cut to milliseconds: a lease of 2 ms that is granted at 0.9 ms ends
// for Redis at 2.
func TestTrustEndsBeforeALeaseThatCountsFromACutClock(t *testing.T) {
	t.Parallel()
	for lease := time.Millisecond; lease <= 300*time.Millisecond; lease += time.Millisecond {
		for asked := time.Duration(0); asked < 2*time.Millisecond; asked += 7 * time.Microsecond {
			ends := asked.Truncate(time.Millisecond) + lease
			require.Less(t, TrustEnd(asked, lease), max(ends, asked+1), "lease %v, granted at %v", lease, asked)
		}
	}
	require.False(t, Worthwhile(0, TrustEnd(0, time.Millisecond), time.Millisecond), "there is nothing to trust in")
}

func TestALeaseShorterThanTheIntervalIsNotWatchedInABusyLoop(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 30 * time.Second, 31 * time.Second} {
		require.GreaterOrEqual(t, RetryDelay(lease, 30*time.Second), 10*time.Millisecond, lease)
	}
}
