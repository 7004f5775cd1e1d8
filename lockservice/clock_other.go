//go:build !linux

package lockservice

import "time"

// suspended is not known on this system. Where Go's monotonic clock stops while
// the machine sleeps, a lock that was lost during the sleep is noticed by the
// first renewal after it.
func suspended() time.Duration { return 0 }
