// Package lease is the trust window of a holder: how long it may believe that
// it holds a lock, by its own clock, without hearing from Redis.
//
// It gives pure arithmetic on local time. It has no clock and no state.
//
// # The window
//
//	local time   asked ────────── reply ─────────────── trust ends      lease ends
//	                 └─ TIME at Redis, somewhere in here      └─ margin ─┘
//
// Redis counts the lease from its TIME, which it read some time after the
// holder had asked for it. So the holder, who counts from the moment it asked,
// is never later than Redis. The margin covers that two clocks run at different
// rates. Local time can only end the trust sooner, never stretch it.
//
// Invariant: the window ends before the lease does, whatever the delays, and it is
// not empty: at least three quarters of the lease.
package lease
