package redistx

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// Unsuitable is everything that CheckUp found wrong with a server or its user.
type Unsuitable struct {
	Problems []string
}

func (e *Unsuitable) Error() string {
	return "the Redis server cannot be used: " + strings.Join(e.Problems, "; ")
}

// Permanent is always true: somebody has to change the set-up.
func (e *Unsuitable) Permanent() bool { return true }

var (
	errProtocol  = errors.New("an answer is not what the protocol promises")
	errLeftMulti = errors.New("the pool gave a connection inside somebody's open MULTI")
	errNoRunID   = errors.New("INFO server gives no run_id")
	errNoUptime  = errors.New("INFO server gives no uptime_in_seconds")
)

// dialError: no connection was to be had, so nothing was sent.
func dialError(err error) error {
	return &exchange.ConnError{Err: fmt.Errorf("no connection to Redis: %w", conceal(err))}
}

// brokenError: the connection failed, or became unusable, after something was sent.
func brokenError(err error) error {
	return &exchange.ConnError{Sent: true, Err: fmt.Errorf("connection to Redis: %w", conceal(err))}
}

// conceal keeps context errors from being matched. The ctx of an exchange is not
// that of the caller who waits for a lock, and the client's own timeouts look
// like context.DeadlineExceeded, too.
func conceal(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return concealed{err}
	}
	return err
}

// concealed has the words of an error, and no Unwrap.
type concealed struct{ err error }

func (e concealed) Error() string { return e.err.Error() }
