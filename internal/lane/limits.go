package lane

import (
	"errors"
	"fmt"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// What no clock and no service writes is refused when it is read. The rules add
// to these numbers: an overflow would make a held lock look free, a new token
// older than the last, or the time that Redis is to keep a key negative.
const (
	maxMoment = lockrules.Millis(1) << 53 // also what readers in other languages can tell apart
	maxSpan   = lockrules.Millis(1) << 42 // 139 years; as a time.Duration it fits
	maxCount  = int64(1) << 62
)

type numberCheck struct{ errs []error }

func (c *numberCheck) moment(what string, m lockrules.Millis) {
	c.within(what, int64(m), int64(maxMoment))
}

func (c *numberCheck) span(what string, m lockrules.Millis) { c.within(what, int64(m), int64(maxSpan)) }

func (c *numberCheck) within(what string, n, limit int64) {
	if n < 0 || n >= limit {
		c.errs = append(c.errs, fmt.Errorf("%s in the record is %d, which can't be", what, n))
	}
}

func (c *numberCheck) holding(h *lockrules.Holding) {
	c.moment("the time of a grant", h.AcquiredAt)
	if h.ExpiresAt != nil {
		c.moment("an expiry", *h.ExpiresAt)
	}
	if h.ReleasedAt != nil {
		c.moment("the time of a release", *h.ReleasedAt)
	}
	c.span("a lease", h.LeaseMillis)
	c.within("a fencing token", h.FencingToken, maxCount)
	c.within("a count of renewals", h.Renewals, maxCount)
}

// checkNumbers looks at every number that the rules compute with.
func checkNumbers(rec *lockrules.Record) error {
	var c numberCheck
	c.within("the fencing token", rec.FencingToken, maxCount)
	if rec.WriteOwner != nil {
		c.holding(rec.WriteOwner)
	}
	for i := range rec.ReadOwners {
		c.holding(&rec.ReadOwners[i])
	}
	for i := range rec.Waiting {
		m := &rec.Waiting[i]
		c.moment("the beginning of a wait", m.Since)
		c.moment("the end of a wait", m.Until)
		c.span("the time that a waiting mark lasts", m.LastsMillis)
	}
	return errors.Join(c.errs...)
}
