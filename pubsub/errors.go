package pubsub

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned when the service is closed.
	ErrClosed = errors.New("pubsub: closed")

	// ErrOverflow is what Down is called with when messages were dropped because
	// the handler was too slow.
	ErrOverflow = errors.New("pubsub: handler too slow, messages dropped")

	errSilent    = errors.New("the server does not answer")
	errLost      = errors.New("connection lost")
	errNotInTime = errors.New("not done within the connect timeout")
)

// foreign hides that err is a context error unless ctx itself is over: a dial
// timeout inside the client matches context.DeadlineExceeded too, and the caller
// would take it for the end of its own ctx.
func foreign(ctx context.Context, err error) error {
	isContext := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if err == nil || !isContext || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("timeout inside the client: %s", err.Error())
}
