// Package peers measures how closely the next holder follows one that is cut off,
// stopped or robbed, for this library and for others that renew their locks.
//
// # What it gives
//
// A test, TestGap, run by `make gap`: a holder in a process of its own behind a
// proxy, a contender beside it, one fault, and the time between the last moment at
// which the holder's own signal said that it holds the lock and the contender's
// grant. Less than zero is double holding. The signal is what the library gives its
// user: HasLock here, the context of rueidislock, Done of an etcd session, Until of
// redsync. The table goes into docs/correctness.md.
//
// # What it doesn't give
//
// A judgement of the others: each was made for other promises, and their
// documentation says so. All run on one server, as this library does; redsync on
// several servers, and etcd with several members, are safer than what is measured
// here. There is no check for goroutines left behind: those of the peers aren't
// ours. It is a module of its own so that nobody else has to download its peers.
package peers
