package faketime

import "time"

// realFrom is after all that a bubble's clock, which starts with the year 2000, gets to
// in a test, and before now.
var realFrom = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// Pass lets d go by. It panics outside of a bubble.
func Pass(d time.Duration) {
	if time.Now().After(realFrom) {
		panic("faketime: time can only be passed in a bubble of testing/synctest")
	}
	time.Sleep(d)
}
