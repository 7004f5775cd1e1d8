package lockservice

import (
	"context"
	"errors"
	"time"
)

// Execute runs a scheduled task if nobody else does: of all instances that call
// it for one tick of a job, whoever wins runs the task, and the others skip it at
// once. It makes one attempt and never waits.
//
// The job's lock is an ordinary write lock of the name, held for atMost without
// renewal. So whoever crashes, or is cut off, keeps others out until then, and
// nobody for longer. When the task has returned, whichever way, the lock is
// released, but not before atLeast after the start of the task: a task that takes
// milliseconds is not run again by an instance whose clock ticks a little later.
// With atLeast just below an interval, it is "at most once per interval".
// Execute itself returns when the task does.
//
//   - (false, nil): somebody else has the lock, or an earlier run keeps it for its
//     atLeast, or the server has just restarted. The task did not run.
//   - (true, err): the task ran, and err is its own. If the lock was lost before
//     the task returned, err also matches [ErrLockLost]. A panic or
//     runtime.Goexit of the task releases the lock and goes on.
//   - (false, err): the task did not run. err matches [ErrUnavailable],
//     [ErrClosed], [ErrCorruptRecord], or [ErrInvalidArgument] (Redis was not
//     touched then); or [ErrNotAcquired] and ctx's own error.
//
// The task's context has a deadline a little before atMost is over (2 %, at
// least 50 ms, but at most a quarter of it, or 1 ms), and ends with cause ErrLockLost. It
// ends earlier with the same cause if the lock's record is found gone, if the
// server has restarted, or if it could not be asked for as long as the service's
// lease time: every renewal interval the lock is looked at. A task that goes on
// nevertheless runs unprotected; its late release touches nothing, so that it
// can't take the lock from the next run. For its writes there is
// [FencingToken](ctx, name): each call has a token, newer than those before.
//
// Calls nested in the task, with its context, reuse the lock. Execute doesn't
// reuse: a run is never inside another run of the same job. So it returns
// (false, nil) if the chain of ctx holds the write lock of name already; an own
// read lock is no obstacle.
//
// Durations count in milliseconds and are rounded up, atMost to two at least: of one
// nothing would be left to trust in. It must be positive and at most ten years, atLeast from zero to atMost. [WithKeepLockData] keeps the
// record of the last run, and of the last that succeeded, for
// [RedisLockService.GetLockInfo]. [WithTimeout] and [WithMaxHold] are refused.
func (s *RedisLockService) Execute(ctx context.Context, name string, atMost, atLeast time.Duration, task func(ctx context.Context) error, opts ...LockOption) (ran bool, err error) {
	r, err := newJob(name, atMost, atLeast, task == nil, opts)
	if err != nil {
		return false, err
	}
	a, refused, err := s.acquire(ctx, r)
	if err != nil || refused != nil {
		return false, err
	}
	a.countFromNow()
	return true, a.protect(ctx, func(ctx context.Context, _ HasLock) error { return task(ctx) })
}

// ExecuteWithResult is [RedisLockService.Execute] for a task with a result. If
// ran is false the task was skipped and the result is the zero value; a task that
// ran may return the zero value, too, and ran tells the two apart.
func ExecuteWithResult[T any](ctx context.Context, s *RedisLockService, name string, atMost, atLeast time.Duration, task func(context.Context) (T, error), opts ...LockOption) (result T, ran bool, err error) {
	var run func(context.Context) error
	if task != nil {
		run = func(ctx context.Context) (err error) {
			result, err = task(ctx)
			return err
		}
	}
	ran, err = s.Execute(ctx, name, atMost, atLeast, run, opts...)
	return result, ran, err
}

// maxAtMost: a job lock that outlives a crash for longer is a mistake.
const maxAtMost = longest

// newJob checks everything about a job, and reports all that is wrong with it.
func newJob(name string, atMost, atLeast time.Duration, noTask bool, opts []LockOption) (*request, error) {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, invalid(format, args...)) }
	if noTask {
		bad("the task to run is nil")
	}
	wants, err := wantsOf([]Lock{WriteLock(name)})
	errs = append(errs, err)
	switch {
	case atMost <= 0:
		bad("atMost is %v, it must be positive", atMost)
	case atMost > maxAtMost:
		bad("atMost is %v, at most %v are possible", atMost, maxAtMost)
	}
	switch {
	case atLeast < 0:
		bad("atLeast is %v, it may not be negative", atLeast)
	case atLeast > max(atMost, 0):
		bad("atLeast is %v, longer than atMost with %v: the lock would have to outlive its own end", atLeast, atMost)
	}
	cfg, err := newJobConfig(opts)
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &request{wants: wants, opts: cfg, lease: max(ceilMillis(atMost), shortest), watch: true,
		job: jobTerms{holdFor: ceilMillis(atLeast)}}, nil
}

// newJobConfig refuses the options that say otherwise than Execute does.
func newJobConfig(opts []LockOption) (*lockConfig, error) {
	cfg, err := newLockConfig(opts)
	if err != nil {
		return nil, err
	}
	if cfg.timeout != 0 {
		err = invalid("WithTimeout(%v): Execute makes one attempt and never waits; who waits for a job's lock uses TryWriteLock", cfg.timeout)
	}
	if cfg.holdSet {
		err = errors.Join(err, invalid("WithMaxHold(%v): atMost bounds a job", cfg.maxHold))
	}
	return cfg, err
}

// shortest is the shortest lease of a job: see [lease.Margin].
const shortest = 2 * time.Millisecond

// ceilMillis rounds up, so that rounding never lets anybody in too early.
func ceilMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// countFromNow has atLeast count from the start of the task, which is now. The
// record counts it from when it says that the lock was acquired: before the grant
// was decided that we know of, if the reply to a first one was lost. When within
// its round trip a grant's time was read can't be known: it counts from the start
// of it, so that nobody gets in too early.
func (a *Acquisition) countFromNow() {
	if a.job.holdFor > 0 {
		before := time.Duration(a.grant.At-a.grant.Acquired) * time.Millisecond
		a.job.holdFor = ceilMillis(a.job.holdFor + before + a.svc.clock.now() - a.grant.Asked)
	}
}

// overrun is the reason of a job's loss at its deadline.
const overrun = "the job ran longer than its lock lasts"

// endsWithJob gives the context of a job its deadline: the end of trust. Told by
// the deadline, a loss has the same error and cause in the context whether the
// keeper's timer or the context's own fires first.
func (a *Acquisition) endsWithJob(ctx context.Context) context.Context {
	deadline := time.Now().Add(a.jobEnd() - a.svc.clock.now())
	ctx, stop := context.WithDeadlineCause(ctx, deadline, &lostError{reason: overrun})
	cancel := a.cancel
	a.cancel = func(cause error) {
		// Only so near: while the machine sleeps the context's timer stands
		// still, and the keeper's clock doesn't.
		if errors.Is(cause, ErrLockLost) && time.Until(deadline) < deadlineIsNear {
			return
		}
		cancel(cause)
		stop()
	}
	return ctx
}

const deadlineIsNear = 5 * time.Millisecond
