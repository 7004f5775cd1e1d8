// Package redistest gives tests a real Redis server that they may hurt.
//
// It gives [Start], a server of the test's own that can be stopped, killed,
// paused and restarted on the same address with or without its data; [Shared],
// one server per test process for tests that only need a key prefix of their own
// ([Prefix]); [Main] for TestMain; and [Proxy], a TCP proxy that loses what the
// test tells it to lose.
//
// It does not give a cluster, a replica or TLS, and it is not for programs: only
// for tests, and only on Unix systems (a binary is paused with SIGSTOP).
//
// # Where the server comes from
//
// A container through testcontainers-go, of the image that REDIS_IMAGE names
// (default redis:7.0). An image that isn't there is pulled; where that fails, the
// script build-image.sh builds a stand-in from Debian's packages. Where there is
// no Docker engine or no image, a redis-server binary on PATH serves. Where
// there's neither, the test fails and says what to install: it is never skipped.
// REDISTEST=docker or REDISTEST=binary forces one of the two.
//
// # Invariants
//
//   - The address of a server is the same over all its restarts. Its port is
//     below the range from which the kernel takes ports for outgoing
//     connections: a client that tries to reconnect while the server is down
//     could otherwise be given just that port, and block the restart.
//   - Every method that starts the server returns only after a PING was answered
//     with PONG, so not while it still loads its data.
//   - Containers and processes end with the test that started them, also when it
//     fails. What an interrupted run left behind is removed by a later one:
//     containers by their label once they are an hour old. A binary is killed by
//     the kernel together with the test process (on Linux).
//   - A server has no locks of its own: one test drives it. [Shared] may be
//     called by tests at the same time.
package redistest
