// Package locktest is the conformance suite of the lock service: what its public
// API promises, tried on a Redis.
//
// It gives [Exercise], which runs the suite on a [Backend]: [InBubble], an embedded
// miniredis on the fake clock of testing/synctest, where an hour of leases takes
// milliseconds and times are exact; or [OnRedis], a real server. Other tests of the
// service may use the same surroundings through [Bubble] and [Env].
//
// It does not look inside the service: a scenario uses package lockservice as a user
// would, and Redis as an operator would. It proves nothing about schedules that did
// not happen to occur; that is what package sim is for.
//
// # Invariants
//
//   - A scenario is named for its hazard, and for the sentence or public report
//     behind it in a comment.
//   - A scenario has a key prefix of its own. One that hurts the server (restart,
//     FLUSHALL) says so in its table, and has a server of its own.
//   - No scenario asserts how long something took on a real server, except by
//     generous bounds; in the bubble, times are exact.
package locktest
