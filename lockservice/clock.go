package lockservice

import (
	"sync/atomic"
	"time"
)

// clock is local time that also passes while the machine sleeps. Go's monotonic
// clock does not, so what was slept is added. To ask the system for that costs
// microseconds; so it is asked only when the wall clock, which is at hand with
// every reading, has moved against the monotonic one: a sleep moves it, and so
// does whoever sets it.
type clock struct {
	base  time.Time
	began time.Duration // what had been slept at base

	moved atomic.Int64 // by how much the wall clock had moved when slept was read
	slept atomic.Int64 // since base
}

const (
	// clockStart keeps local time away from zero, so that no moment before the
	// clock was made is negative.
	clockStart = time.Hour
	// wallMoves is by how much the wall clock may move before it is looked at
	// what was slept. Clocks that are being adjusted stay below it for seconds.
	wallMoves = time.Millisecond
)

func newClock() *clock { return &clock{base: time.Now(), began: suspended()} }

// now is the monotonic clock, plus what it has slept through.
func (c *clock) now() time.Duration {
	t := time.Now()
	mono := t.Sub(c.base)
	wall := time.Duration(t.UnixNano() - c.base.UnixNano())
	if moved := wall - mono - time.Duration(c.moved.Load()); moved > wallMoves || moved < -wallMoves {
		// In this order: who sees the one must see the other.
		c.slept.Store(int64(max(suspended()-c.began, 0)))
		c.moved.Store(int64(wall - mono))
	}
	return clockStart + mono + time.Duration(c.slept.Load())
}
