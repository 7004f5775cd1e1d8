package lockservice

import (
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// suspended is how long the machine has slept since it was started: what
// CLOCK_BOOTTIME counts and CLOCK_MONOTONIC, Go's clock, does not.
//
// The goroutine, or the whole process, may be stopped between the two readings,
// and what it was stopped for must not be taken for sleep: a moment that is read
// too late would stretch a holder's trust. So the monotonic clock is read on
// both sides, and a reading that took long is repeated.
func suspended() time.Duration {
	var slept time.Duration
	for range 5 {
		before, ok1 := readClock(clockMonotonic)
		boot, ok2 := readClock(clockBoottime)
		after, ok3 := readClock(clockMonotonic)
		if !ok1 || !ok2 || !ok3 {
			return 0
		}
		slept = boot - after
		if after-before < readQuickly {
			break
		}
	}
	if slept < 2*readQuickly {
		return 0 // never slept: it is just the time between the readings
	}
	return slept
}

const readQuickly = time.Millisecond

func readClock(id uintptr) (time.Duration, bool) {
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano()), errno == 0
}
