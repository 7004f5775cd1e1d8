package lockservice

import (
	"context"
	"errors"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// Protected is code that runs while locks are held. ctx carries the identity:
// nested calls made with it reuse the locks. It is cancelled with cause
// [ErrLockLost] if a lock is lost, and when the code has returned.
type Protected = func(ctx context.Context, hasLock HasLock) error

// TryWriteLock runs fn while it holds the write locks of all names, and releases
// them afterwards, also if fn panics or calls runtime.Goexit. It waits for them up
// to [WithTimeout]; the default is a single attempt.
//
//   - (false, nil): the locks were not to be had in time, or the chain of ctx
//     has lost one of them. fn did not run.
//   - (true, err): fn ran, and err is its own. If a lock was lost before it was
//     released, err also matches [ErrLockLost].
//   - (false, err): fn did not run. err matches [ErrDeadlock]; [ErrNotAcquired]
//     and the error of ctx if that was done first; [ErrClosed]; [ErrUnavailable];
//     [ErrCorruptRecord]; or [ErrInvalidArgument].
//
// A failed release doesn't change the result: it is logged and goes on in the
// background until the lease would have ended.
func (s *RedisLockService) TryWriteLock(ctx context.Context, names []string, fn Protected, opts ...LockOption) (acquired bool, err error) {
	return s.TryLock(ctx, writeLocks(names), fn, opts...)
}

// TryReadLock is [RedisLockService.TryWriteLock] with read locks, which are
// shared: any number of readers hold them at once, while nobody writes. While
// somebody waits to write, no new reader gets in.
func (s *RedisLockService) TryReadLock(ctx context.Context, names []string, fn Protected, opts ...LockOption) (acquired bool, err error) {
	return s.TryLock(ctx, readLocks(names), fn, opts...)
}

// TryLock is [RedisLockService.TryWriteLock] with read and write locks mixed.
// Both modes of one name are its write lock.
func (s *RedisLockService) TryLock(ctx context.Context, locks []Lock, fn Protected, opts ...LockOption) (acquired bool, err error) {
	if fn == nil {
		return false, invalid("the code to run is nil")
	}
	r, err := s.newRequest(locks, opts)
	if err != nil {
		return false, err
	}
	return s.run(ctx, r, fn)
}

func (s *RedisLockService) run(ctx context.Context, r *request, fn Protected) (ran bool, err error) {
	a, refused, err := s.acquire(ctx, r)
	if err != nil || refused != nil {
		return false, err
	}
	return true, a.protect(ctx, fn)
}

// protect runs the code and releases. The release is deferred and nothing is
// recovered, so a panic or Goexit goes on with its own value and stack.
func (a *Acquisition) protect(ctx context.Context, fn Protected) (err error) {
	a.closure = true
	outcome, text := lockrules.Panic, ""
	defer func() {
		a.finish(ctx, outcome, text)
		if a.result != nil {
			err = joinLoss(err, a.result)
		}
	}()
	err = fn(a.ctx, a.HasLock)
	outcome, text = lockrules.OK, ""
	if err != nil {
		outcome, text = lockrules.Error, a.errorText(err)
	}
	return err
}

// joinLoss adds the loss to the code's own error, which stays as it is.
func joinLoss(err, loss error) error {
	if err == nil {
		return loss
	}
	return errors.Join(err, loss)
}

// errorText is what is kept of the code's error in the record.
func (a *Acquisition) errorText(err error) string {
	limit := a.opts.errBytes
	if limit == 0 {
		return ""
	}
	text := err.Error()
	if len(text) > limit {
		text = text[:limit]
	}
	return toValidUTF8(text)
}

// TryWriteLockWithResult is [RedisLockService.TryWriteLock] for code with a
// result, which is the zero value if the code did not run.
func TryWriteLockWithResult[T any](ctx context.Context, s *RedisLockService, names []string, fn func(context.Context, HasLock) (T, error), opts ...LockOption) (result T, acquired bool, err error) {
	return TryLockWithResult(ctx, s, writeLocks(names), fn, opts...)
}

// TryReadLockWithResult is [RedisLockService.TryReadLock] for code with a result.
func TryReadLockWithResult[T any](ctx context.Context, s *RedisLockService, names []string, fn func(context.Context, HasLock) (T, error), opts ...LockOption) (result T, acquired bool, err error) {
	return TryLockWithResult(ctx, s, readLocks(names), fn, opts...)
}

// TryLockWithResult is [RedisLockService.TryLock] for code with a result.
func TryLockWithResult[T any](ctx context.Context, s *RedisLockService, locks []Lock, fn func(context.Context, HasLock) (T, error), opts ...LockOption) (result T, acquired bool, err error) {
	if fn == nil {
		return result, false, invalid("the code to run is nil")
	}
	acquired, err = s.TryLock(ctx, locks, func(ctx context.Context, hasLock HasLock) (err error) {
		result, err = fn(ctx, hasLock)
		return err
	}, opts...)
	return result, acquired, err
}
