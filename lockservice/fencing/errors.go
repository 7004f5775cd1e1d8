package fencing

import (
	"errors"
	"fmt"
)

// ErrStaleToken is matched by the error of a check whose token is smaller than
// the highest one seen: a newer holder has been here, and this one's lock is
// lost. It is final for that token.
var ErrStaleToken = errors.New("fencing: stale token")

// ErrInvalidArgument is matched by the errors of calls that could never work,
// such as an empty resource. The database has not been touched.
var ErrInvalidArgument = errors.New("fencing: invalid argument")

// StaleTokenError says which token was refused, and because of which. It
// matches [ErrStaleToken].
type StaleTokenError struct {
	Resource string // empty if it comes from a Highest
	Token    int64  // the token that was refused
	Highest  int64  // the highest token seen; larger than Token
}

// Error implements error.
func (e *StaleTokenError) Error() string {
	if e.Resource == "" {
		return fmt.Sprintf("%v: %d is older than %d", ErrStaleToken, e.Token, e.Highest)
	}
	return fmt.Sprintf("%v: %d is older than %d, the highest seen for %q", ErrStaleToken, e.Token, e.Highest, e.Resource)
}

// Is reports whether target is ErrStaleToken.
func (e *StaleTokenError) Is(target error) bool { return target == ErrStaleToken }
