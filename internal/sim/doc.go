// Package sim is a Redis in memory, at the level of transactions, with faults on
// demand, and a scheduler that explores what can happen. For tests only.
//
// # What it gives
//
// [Redis] models one server: keys with versions and expiries, WATCH as Redis
// means it, TIME, INFO server, publish and subscribe, crashes, restarts with or
// without the data. [Port] is one node's way to it and has the verb that redistx
// has on a real server: the same order of events, the same errors (of package
// exchange), the same states of a connection.
//
// A [Gate] is asked before each step of an exchange and before each message is
// delivered. It says when the step happens, by blocking or by a delay, and what
// goes wrong at it. Without one nothing goes wrong and nothing takes time.
//
// [Explore] runs nodes under a gate of its own that lets one step happen at a
// time, chosen by a seed. The same seed gives the same run.
//
// Everything works inside a testing/synctest bubble, where time is the bubble's,
// and outside of one.
//
// # What it doesn't give
//
//   - Commands. The unit is what one exchange sends; there is no other way in,
//     but for the functions that play somebody else (Put, Delete, Touch, FlushAll).
//   - A real pause of a node: its replies and messages are held back, but the
//     timers in its code run on.
//   - Redis Cluster, split brain, more than one database, memory limits other
//     than by refusing.
//
// # An exchange
//
//	Port.Exchange                      the wire (a goroutine)                gate is asked
//	  no connection ───────────────────▶ connect                             Dial
//	  send ────────────────────────────▶ request arrives: MULTI … EXEC       Request, then Late if the client has gone
//	                                     WATCH, GET, GET, …, TIME, INFO      Read, before each key and before TIME
//	  returns ◀────────────────────────  reply arrives                       Reply
//
// The wire outlives the call: a caller that has run into its deadline, or whose
// connection has died, has a request under way that may be applied yet.
//
// # Invariants
//
//   - A commit is applied whole or not at all, but for the fault Revoke and a
//     refused MULTI, as on a real server.
//   - A commit is applied only if it was sent on a connection whose last exchange
//     watched and read without an error, and if no key of that WATCH has been
//     touched since, by whatever: a set to the same value, a changed expiry, a
//     delete, an eviction, FLUSHALL, an expiry.
//   - A key that was missing at WATCH isn't touched by FLUSHALL, nor by deletes.
//   - After EXEC, whatever its outcome, the connection watches nothing but what
//     the same exchange watches afterwards.
//   - What was sent on a connection that the server has closed is never applied.
//
// # Locks
//
// Redis.mu guards all state of the model and is held for moments only: never
// while the gate is asked, a handler is called or anything is waited for.
// Port.turn (a channel, since a bubble's time stands still while somebody waits
// for a mutex) is taken before it.
package sim
