// Package faketime lets time pass in a bubble of testing/synctest. For tests only.
//
// # What it gives
//
// [Pass] is the one way in which tests let time go by: on the bubble's clock it
// takes no real time and ends at its very moment, so nothing is slow and nothing
// depends on how busy the machine is. Outside of a bubble, where it would be a
// sleep that hopes for the best, it panics.
//
// # What it doesn't give
//
// A way to wait for a real server or process: a test polls for what it waits
// for, and says so at the line (package archtest looks for that).
//
// # Invariants
//
// It never returns on a real clock.
//
// # Locks
//
// None.
package faketime
