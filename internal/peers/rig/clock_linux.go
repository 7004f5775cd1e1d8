package rig

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now is the time of CLOCK_MONOTONIC: one clock for all processes of the machine.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // the kernel has it since 2.6
	}
	return time.Duration(ts.Nano())
}

// SleepUntil returns at, or soon after, a moment of [Now].
func SleepUntil(at time.Duration) { time.Sleep(at - Now()) }

// CPU is the processor time this process has used.
func CPU() time.Duration {
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
