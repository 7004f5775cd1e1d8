package lockservice

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/redislockservice/redislockservice/internal/keyspace"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// Lock is a name and what it is wanted for. Make it with [ReadLock] or [WriteLock].
type Lock struct {
	name string
	mode lockrules.Mode
}

// ReadLock is the shared lock of the name.
func ReadLock(name string) Lock { return Lock{name, lockrules.Read} }

// WriteLock is the exclusive lock of the name.
func WriteLock(name string) Lock { return Lock{name, lockrules.Write} }

// Name is the lock's name.
func (l Lock) Name() string { return l.name }

// IsWrite says whether the lock is exclusive.
func (l Lock) IsWrite() bool { return l.mode == lockrules.Write }

func readLocks(names []string) []Lock  { return locksOf(names, lockrules.Read) }
func writeLocks(names []string) []Lock { return locksOf(names, lockrules.Write) }

func locksOf(names []string, mode lockrules.Mode) []Lock {
	locks := make([]Lock, len(names))
	for i, name := range names {
		locks[i] = Lock{name, mode}
	}
	return locks
}

// wantsOf checks the names and puts them in order, each once. Both modes of one
// name are the write lock.
func wantsOf(locks []Lock) ([]lockrules.Want, error) {
	if len(locks) == 0 {
		return nil, invalid("no lock names are given")
	}
	wants := make([]lockrules.Want, len(locks))
	var errs []error
	for i, l := range locks {
		if err := keyspace.CheckName(l.name); err != nil {
			errs = append(errs, err)
		}
		wants[i] = lockrules.Want{Name: l.name, Mode: l.mode}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, invalid("%w", err)
	}
	slices.SortFunc(wants, func(a, b lockrules.Want) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return int(b.Mode) - int(a.Mode) // write first, so that it is the one kept
	})
	return slices.CompactFunc(wants, func(a, b lockrules.Want) bool { return a.Name == b.Name }), nil
}

func isContextTarget(target error) bool {
	return errors.Is(target, context.Canceled) || errors.Is(target, context.DeadlineExceeded)
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
