// Package lockservice lets goroutines, processes and machines agree, through one
// Redis, on who may do what.
//
// # What it does not promise
//
//   - Exclusion against a process that goes on working after its HasLock turned
//     false, because it was paused or doesn't look. That is what fencing tokens
//     are for: hand the token to the storage and let it refuse older ones. See
//     the package fencing.
//   - Anything over a split brain of several Redis servers.
//   - Redis Cluster. Several locks are one transaction, and that needs one server.
//
// # What it gives
//
// Read (shared) and write (exclusive) locks, several at once, all or none. A
// lease on each, renewed while the protected code runs. Word, at once, when a
// lock is lost. Deadlocks found across nodes. Safety over restarts and data loss
// of the server. A fencing token with each acquisition. Job locks, for a
// scheduled task that is to run once per tick. Records that tell who held what,
// when, and how it ended.
//
//	acquired, err := svc.TryWriteLock(ctx, []string{"customer-42", "invoice-7"},
//		func(ctx context.Context, hasLock lockservice.HasLock) error {
//			// all locks are held here
//			return doWork(ctx)
//		}, lockservice.WithTimeout(10*time.Second))
//
// # Identity
//
// A goroutine has no id in Go: the [context.Context] stands for the thread. The
// context that protected code is given carries its acquisitions. A nested call
// made with it reuses what they hold, acquires only what is missing, and
// releases just that. Whoever calls with another context is somebody else, also
// on the same goroutine, and waits. Goroutines that share a context are inside
// the same outer acquisition, but hold nothing of each other's nested ones. The
// chain is of one service: a nested call goes to the same *[RedisLockService].
//
// # State of an acquisition
//
//	         grant            Release, end of the code
//	(none) ─────────▶ held ─────────────────────────────▶ released
//	                   │  trust ends, renewal finds the record
//	                   │  gone or another's, server restarted,
//	                   │  WithMaxHold is over
//	                   ├─────────────────────────────────▶ lost
//	                   │  Close gave up waiting
//	                   └─────────────────────────────────▶ closed
//
// Only held may change; the three others are final. HasLock is true only in
// held, and only until the trust window ends by local time, whatever Redis, the
// network or the scheduler do meanwhile.
//
// # Lock order
//
// RedisLockService.mu, then Acquisition.mu. Neither is held while Redis is
// asked, while the lane is called, or while code of the user runs.
package lockservice
