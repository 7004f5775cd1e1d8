package lockservice

import "time"

// clock is local time that also passes while the machine sleeps.
type clock struct {
	base      time.Time
	suspended time.Duration // at base
}

// clockStart keeps local time away from zero, so that no moment before the
// clock was made is negative.
const clockStart = time.Hour

func newClock() *clock { return &clock{base: time.Now(), suspended: suspended()} }

// now is the monotonic clock, plus what it has slept through.
func (c *clock) now() time.Duration {
	return clockStart + time.Since(c.base) + max(suspended()-c.suspended, 0)
}
