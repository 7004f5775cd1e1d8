// Package lane is a process' one queue to Redis for its locks.
//
// # What it gives
//
// Operations (acquire, release, renew, read) that many goroutines ask for at
// once are run in batches: the records they need are read under WATCH, the
// rules decide in order, each seeing what the one before did, and what changed
// is committed in one transaction, together with the read for what comes next.
// So a hundred goroutines cost the round trips of one, and an acquire or a
// release of a lone caller costs one round trip, since its record was watched
// and read along with the commit before.
//
// An acquire that can't be granted is parked, in arrival order, and its node's
// mark is written into the records it waits for. It is tried again when
// somebody lets go (this process hands the lock over in the releasing
// transaction; other nodes publish to those whose marks they see), when
// something in its way lapses, and with each poll. Once somebody on another node
// starves, this one lets it go first, for a moment.
//
// # What it doesn't give
//
// It has no rules of its own (lockrules has), names no Redis command (the port
// does), and knows neither contexts' identities nor leases' ends: callers do.
//
// # One carrier
//
// The lane has no goroutine for its work. The first caller that has some
// carries the batch of all who have, and hands the baton on when its own
// operation is answered; a background goroutine carries for timers, wake-ups
// and callers who have left. While Redis is slow or out of reach only the
// background goroutine carries, so that a caller who is cancelled can leave at
// once: the client can't abandon a read of a connection before its deadline.
//
// # Invariants
//
//   - An operation is answered only by data that EXEC has validated, or that
//     was read after the operation was queued.
//   - A conflict is never an answer. The batch is decided again.
//   - After an error with a commit under way the outcome is unknown. The same
//     operations run again; they are idempotent by acquisition id. If the caller
//     of such an acquire has left, a release by its id takes its place, and it
//     writes its keys even if it finds nothing: an EXEC that still sits in a
//     socket's buffer would otherwise be applied later; the write makes its
//     WATCH fail.
//   - Nothing is granted after its deadline, except by a first attempt.
//   - Whatever the end of a waiter, its node's mark is weakened or removed in
//     a transaction that also wakes those who had stepped down for it.
//
// # Locks
//
// Lane.mu guards the queue and each operation's phase; it is never held during
// an exchange or a call out. What only the carrier touches (snapshot, parked
// operations, outage) is guarded by the baton, Lane.running.
package lane
