// Package conform holds the port in memory to the truth. It has no code but tests.
//
// The same random sequences of exchanges, other clients' commands, expiries, lost
// connections and missing rights run against the port of package sim, against the
// real port on miniredis, and against the real port on a real server. After each
// step the replies are compared, and what the keys hold.
//
// What is not compared: the texts of errors; how long anything takes; the faults
// that only the port in memory has. Where miniredis differs from Redis, the test
// says so and why.
package conform
