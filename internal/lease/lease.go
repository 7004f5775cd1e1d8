package lease

import "time"

// MinMargin is the least time by which trust ends before the lease.
const MinMargin = 50 * time.Millisecond

// Margin is the time by which trust ends before the lease: two percent of it, at
// least MinMargin, but never more than a quarter of it. The quarter is for leases
// shorter than four times MinMargin, which only job locks may have: nothing would
// be left of them. It is never less than what cutting Redis' clock to milliseconds
// takes from a lease.
func Margin(lease time.Duration) time.Duration {
	return max(lease/50, min(MinMargin, lease/4), min(cut, lease))
}

// cut is how much sooner a lease may end for Redis than it should: a grant at
// 1.9 ms counts from 1.
const cut = time.Millisecond

// TrustEnd is the local time until which a holder may believe that it holds a
// lock, asked being the local time at or before which Redis read its clock.
func TrustEnd(asked, lease time.Duration) time.Duration { return asked + lease - Margin(lease) }

// Worthwhile says whether enough is left of a grant to start work on it: half
// of the lease. A grant whose reply came later than that is given back.
func Worthwhile(now, trustEnd, lease time.Duration) bool {
	return now < trustEnd && trustEnd-now >= lease/2-Margin(lease)
}

// RetryDelay is how long after a failed renewal the next attempt is made: a
// second, or the renewal interval if that is shorter, and never so long that
// not several attempts fit into what is left of the lease. A lease that is only
// watched may be shorter than the interval; it is not watched in a busy loop.
func RetryDelay(lease, interval time.Duration) time.Duration {
	return max(min(time.Second, interval, (lease-Margin(lease)-interval)/3), minRetryDelay)
}

// minRetryDelay is below what any lease that [LeavesRetry] comes to.
const minRetryDelay = 10 * time.Millisecond

// LongestInterval is the longest renewal interval that leaves time to try a
// failed renewal again before trust ends. It is negative for leases so short that
// none does.
func LongestInterval(lease time.Duration) time.Duration {
	return lease - 2*max(Margin(lease), MinMargin)
}

// LeavesRetry says whether a failed renewal can be tried again before trust ends.
func LeavesRetry(lease, interval time.Duration) bool { return interval <= LongestInterval(lease) }
