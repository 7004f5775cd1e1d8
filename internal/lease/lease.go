package lease

import "time"

// MinMargin is the least time by which trust ends before the lease.
const MinMargin = 50 * time.Millisecond

// Margin is the time by which trust ends before the lease: two percent of it,
// at least MinMargin.
func Margin(lease time.Duration) time.Duration { return max(lease/50, MinMargin) }

// TrustEnd is the local time until which a holder may believe that it holds a
// lock, asked being the local time at or before which Redis read its clock.
func TrustEnd(asked, lease time.Duration) time.Duration { return asked + lease - Margin(lease) }

// Worthwhile says whether enough is left of a grant to start work on it: half
// of the lease. A grant whose reply came later than that is given back.
func Worthwhile(now, trustEnd, lease time.Duration) bool { return trustEnd-now >= lease/2-Margin(lease) }

// RetryDelay is how long after a failed renewal the next attempt is made: a
// second, or the renewal interval if that is shorter, and never so long that
// not several attempts fit into what is left of the lease.
func RetryDelay(lease, interval time.Duration) time.Duration {
	return min(time.Second, interval, (lease-Margin(lease)-interval)/3)
}

// LeavesRetry says whether a failed renewal can be tried again before trust ends.
func LeavesRetry(lease, interval time.Duration) bool { return interval <= lease-2*Margin(lease) }
