// Package lockrules is the lock record and its rules: who may have a lock, and
// what a record looks like afterwards.
//
// It gives pure functions, values in and values out. It has no clock, context,
// goroutine or client: Redis time is an argument, and records come and go as Go
// values. Of JSON it knows the names of a record's fields, and how to write one. It never changes its arguments; what it returns shares parts
// with them, so callers treat every record as read-only.
//
// # Compatibility
//
// What a request meets in a record, and whether it may be granted. "Own" is a
// holding of the request's own chain (the acquisitions of the calls around it),
// "other" is anybody else's. Only what is alive counts: now < expiresAt.
//
//	                          wanted: read        wanted: write
//	nothing                   granted             granted
//	own read                  granted (reuse)     granted (upgrade)
//	own write                 granted (reuse)     granted (reuse)
//	other reads               granted             blocked
//	own read + other reads    granted (reuse)     blocked until the others leave
//	other writes              blocked             blocked
//	other waits to write      blocked             granted
//	 … and own read           granted             granted (an upgrade isn't blocked by a waiting writer)
//	 … who came no earlier    once it starves     granted
//	own node's writer waits   judged by what is parked on the node, not by its mark
//
// Several locks are granted together or not at all.
//
// # Whose turn it is
//
// Up to 25 ms of waiting ([StarvesAfter]) it is a race that writers win against
// readers. Whoever has waited longer starves, and age decides: a reader goes past
// the writers that came no earlier, and a writer that could be granted leaves the
// lock to a node whose eldest has waited longer by as much ([GoesFirst]). The rules
// only say so; for how long a node that doesn't come is waited for, and that nested
// calls and single attempts don't stand back, is up to who asks.
//
// # Invariants
//
//   - At any time a record has, besides the holdings of one chain, either one
//     live writer or any number of live readers.
//   - An acquisition's id is in all records of its request or in none (but for
//     names that its chain writes already: those are reused, not written).
//   - The fencing token of a record never falls, and every grant's token is
//     higher than every token that its records have seen.
//   - Being alive is judged by the expiry in the record, never by the reader's
//     own lease time; an expiry further away than the holding's own lease means
//     that Redis' clock went back, and counts as one lease from now.
//   - A waiting writer blocks new readers, never itself and never its own chain;
//     its mark blocks nobody once it has lapsed.
//   - Once it starves, whoever has waited for longest of all is kept out by those
//     who hold only, and stands back for nobody.
//   - Every operation may run twice: an acquire that finds its id holding is
//     granted, a release that finds it released is done. So an operation whose
//     reply was lost simply runs again.
//   - A renewal never brings back what is gone and never shortens what is there.
package lockrules
