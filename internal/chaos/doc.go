// Package chaos judges what lock users did while everything around them broke.
//
// # What it gives
//
// A [History] of calls, holds and answers of HasLock, told by many processes on
// one monotonic clock, and the checkers that find a broken promise in it:
// [Exclusion] and [Together] (certain intervals), [Fencing] with its [Storage],
// [Linear] (porcupine), [Deadlocks], [Answered], [Served], [Idle] and [Jobs]. The
// checkers are pure and are tested with doctored histories. The tests of this package also hold the
// chaos run itself: worker processes, a real Redis, one fault a second; `make
// chaos DUR=1h` runs it for longer.
//
// # What it doesn't give
//
// No proof: a schedule that did not happen is not judged (package sim explores
// those). It judges no durations but with generous bounds.
//
// # The certain interval
//
//	call ───── Got ── true … true ── Until ── false … ── release
//	            └── held for certain ──┘
//
// Got is read after the acquire returned, Until before the last call of HasLock
// that answered true. An acquisition that is lost stays lost, so true at the end
// means held all along. What the code does after Until counts for nothing: it is
// the storage's to refuse. Two certain intervals of one name that conflict and
// overlap are two holders, and nothing else is.
//
// # When an overlap is admitted
//
// One case only: the server loses all its data but goes on running (FLUSHALL),
// and the first to come after that is a process that has never seen the
// service's memory of the server. It can't tell a loss from a first use. Such a
// stretch of time is marked ([Span]) by who provokes it: overlaps in it are
// counted and reported, and only the storage judges. All other faults have to
// pass every checker.
package chaos
