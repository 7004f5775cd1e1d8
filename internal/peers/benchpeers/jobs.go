package main

import "time"

// job is one thing that is measured, for one peer and round at a time.
type job struct {
	key   string
	title string
	skip  func(k kind) bool
	run   func(b *bench, k kind) (values, error)
	// once: it takes long, and has two rounds in a full run and one in a short one.
	once bool
}

func (j job) rounds(l limits) int {
	if j.once {
		return min(l.Long, l.Rounds)
	}
	return l.Rounds
}

// limits are how long each measurement takes.
type limits struct {
	Rounds, Long int
	Alone        time.Duration // jobs a and e
	Crowd        time.Duration // jobs b and g
	HandOff      time.Duration // job c
	LongWait     time.Duration // job c-long
	Loop         time.Duration // the closed loop of job d
	Idle         time.Duration // job f
	Lease        time.Duration // everybody's, but in job f
}

var (
	full = limits{
		Rounds: 5, Long: 2, Lease: 5 * time.Second,
		Alone: 300 * time.Millisecond, Crowd: 400 * time.Millisecond, HandOff: 600 * time.Millisecond,
		LongWait: 1000 * time.Millisecond, Loop: 3 * time.Second, Idle: 10 * time.Second,
	}
	short = limits{
		Rounds: 1, Long: 1, Lease: 3 * time.Second,
		Alone: 100 * time.Millisecond, Crowd: 150 * time.Millisecond, HandOff: 200 * time.Millisecond,
		LongWait: 300 * time.Millisecond, Loop: 400 * time.Millisecond, Idle: 5 * time.Second,
	}
)

var jobs = []job{
	{key: "a", title: "uncontended acquire and release", skip: handOffsOnly, run: jobA},
	{key: "b", title: "64 goroutines, a name each", skip: handOffsOnly, run: jobB},
	{key: "c", title: "hand-off between two processes", skip: roundTrips, run: jobC},
	{key: "c-long", title: "the same, to one who has waited for 150 ms", skip: roundTrips, run: jobCLong, once: true},
	{key: "d", title: "100 waiters of 4 processes on one name, holds of 1 ms", skip: floors, run: jobD},
	{key: "d-loop", title: "the same in a closed loop", skip: floors, run: jobLoop(0), once: true},
	{key: "d-mixed", title: "the same, a fifth of them readers", skip: noReaders, run: jobLoop(5), once: true},
	{key: "e", title: "10 names, all or none", skip: handOffsOnly, run: jobE},
	{key: "g", title: "16 goroutines of 2 processes share a read lock", skip: noReaders, run: jobG},
}

func floors(k kind) bool       { return k.Floor }
func roundTrips(k kind) bool   { return k.Floor && !k.Message }
func handOffsOnly(k kind) bool { return k.Message }
func noReaders(k kind) bool    { return !k.Readers }
