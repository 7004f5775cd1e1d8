// Package redistx is the port to a real Redis, on rueidis: the only code that
// names WATCH, MULTI, EXEC, TIME and INFO. Bytes in, bytes out; it knows nothing
// of locks.
//
// # What it gives
//
// [Port.Exchange] is one round trip on one dedicated connection that the port
// keeps:
//
//	[MULTI, SET…, DEL…, PUBLISH…, EXEC]   a commit, guarded by the WATCH of the exchange before
//	or [UNWATCH]                          when there is nothing to commit and a WATCH is pending
//	[WATCH keys…, GET each, TIME, and INFO server if that is due]
//
// From three keys on it is MGET and EXISTS in place of the GETs. MGET shows a key
// of a foreign type as missing; where the two don't agree on how many keys there
// are, a second round trip reads each by its GET.
//
// INFO says which start of which server answers. It is asked on each new
// connection, and after a second ([identityLasts]); in between its answer counts.
//
// [CheckUp] asks a server, before the first exchange, whether it is fit to be
// used, and names everything that is not.
//
// # What it does not give
//
//   - No retry of a commit: after a connection error its outcome is unknown, and
//     only the caller knows how to find out. The errors, which are those of
//     package exchange, say what is known.
//   - No use by several goroutines at a time: a second Exchange waits for the first.
//   - A cancelled ctx does not cut an exchange short that has been sent; its
//     deadline does. rueidis watches only deadlines as long as a connection has no
//     goroutines of its own, and those goroutines would double the cost.
//
// # State of a connection
//
//	          dial, UNWATCH answered OK
//	(none) ───────────────────────────▶ clean ◀───────────────┐
//	   ▲                                  │ WATCH sent          │ EXEC or UNWATCH answered,
//	   │ anything unexpected              ▼                     │ nothing watched again
//	   └─────────────────────────────── pending ──────────────┘
//	                                      │ every read of the same exchange answered
//	                                      ▼
//	                                    guarded: the next exchange may commit
//
// # Invariants
//
//   - EXEC is only sent on a connection whose last exchange watched and read
//     without any error. A commit at any other time is exchange.ErrNoWatch, and not sent.
//     So a reconnect between read and commit can never lose the guard.
//   - MULTI … EXEC is one DoMulti. Between two, rueidis' own PING could land
//     inside, and a MULTI left open would reach the pool's next user.
//   - A connection goes back to the pool only after UNWATCH (or EXEC) has been
//     answered; otherwise it is closed.
//   - Every ctx given to rueidis has a deadline.
//   - At most one goroutine waits in Dedicate, which knows no ctx and blocks for
//     as long as the client's pool is empty; at most [maxConns] connections of
//     one port are being dialed, used or closed at a time.
//
// # Locks
//
// Order: Port.turn, then Port.mu. Neither is taken by the goroutines that close
// connections; mu is never held over I/O.
package redistx
