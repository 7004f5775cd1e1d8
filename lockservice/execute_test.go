package lockservice_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/lockservice"
)

func TestExecuteRunsOnOneInstanceAndIsSkippedAtOnceOnOthers(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		r := starts(t, t.Context(), a, time.Minute, 0)
		began := time.Now()
		require.False(t, ticks(t, b, time.Minute, 0))
		require.Zero(t, time.Since(began), "one attempt, no waiting")
		require.Empty(t, infoOf(t, b).Waiting, "one attempt leaves no mark")
		require.NoError(t, r.finish(nil))
		require.True(t, ticks(t, b, time.Minute, 0), "the lock is released with the end of the task")
	})
}

func TestExecuteCrashedHolderKeepsOthersOutUntilAtMostAndNoLonger(t *testing.T) {
	t.Parallel()
	for _, atMost := range []time.Duration{time.Second, 10 * time.Minute, 6 * time.Hour} {
		t.Run(atMost.String(), func(t *testing.T) {
			t.Parallel()
			locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
				a, b := newQuietService(e), newQuietService(e)
				r := starts(t, t.Context(), a, atMost, 0)
				began := time.Now()
				e.Pass(10 * time.Millisecond)
				crash(e, a)
				_ = r.finish(nil)
				e.Pass(time.Until(began.Add(atMost - time.Millisecond)))
				require.False(t, ticks(t, b, atMost, 0))
				e.Pass(time.Millisecond)
				require.Equal(t, lockservice.HoldingCrashed, stateOf(t, b))
				require.True(t, ticks(t, b, atMost, 0))
			})
		})
	}
}

// gocron#841: a job of milliseconds ran on every instance in turn.
func TestExecuteShortTaskRunsOncePerTickOverSkewedInstances(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		var runs int
		for i := range 3 {
			if i > 0 {
				e.Pass(200 * time.Millisecond)
			}
			ran, err := e.NewService().Execute(t.Context(), job, time.Minute, time.Second, func(context.Context) error {
				e.Pass(5 * time.Millisecond)
				return nil
			})
			require.NoError(t, err)
			if ran {
				runs++
			}
		}
		require.Equal(t, 1, runs)
	})
}

// The positive control of the test above.
func TestExecuteShortTaskWithoutAtLeastRunsOnEachSkewedInstance(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		require.True(t, ticks(t, e.NewService(), time.Minute, 0))
		e.Pass(200 * time.Millisecond)
		require.True(t, ticks(t, e.NewService(), time.Minute, 0))
	})
}

func TestExecuteReturnsWithTheTaskAndKeepsTheLockForAtLeast(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		began := time.Now()
		require.True(t, ticks(t, a, time.Minute, 1500*time.Millisecond))
		require.Zero(t, time.Since(began), "atLeast stays behind in the record")
		require.False(t, ticks(t, a, time.Minute, 0), "also for the instance that ran")
		e.Pass(1499 * time.Millisecond)
		require.False(t, ticks(t, b, time.Minute, 0))
		e.Pass(time.Millisecond)
		require.True(t, ticks(t, b, time.Minute, 0))
	})
}

func TestExecuteTaskLongerThanAtLeastReleasesAtOnce(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		r := starts(t, t.Context(), a, time.Minute, time.Second)
		e.Pass(1001 * time.Millisecond)
		require.NoError(t, r.finish(nil))
		require.True(t, ticks(t, b, time.Minute, 0))
	})
}

func TestExecuteHoldsForAtLeastWhenItEqualsAtMost(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		require.True(t, ticks(t, svc, time.Minute, time.Minute))
		e.Pass(time.Minute - time.Millisecond)
		require.False(t, ticks(t, svc, time.Minute, time.Minute))
		e.Pass(time.Millisecond)
		require.True(t, ticks(t, svc, time.Minute, time.Minute))
	})
}

// The grant is decided on records that were read before; the reply to its EXEC comes
// late. Counted from the decision, atLeast would be too short by that time.
func TestExecuteAtLeastCountsFromTheStartOfTheTaskNotOfTheCall(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		require.True(t, ticks(t, a, time.Minute, 0)) // now a has the record at hand
		const slow = 400 * time.Millisecond
		e.Pause()
		go func() {
			e.Pass(slow)
			e.Unpause()
		}()
		r := starts(t, t.Context(), a, time.Minute, time.Second)
		began := time.Now()
		require.NoError(t, r.finish(nil))
		e.Pass(time.Until(began.Add(time.Second - time.Millisecond)))
		require.False(t, ticks(t, b, time.Minute, 0))
		e.Pass(slow + 3*time.Millisecond) // where in that round trip the lock was granted, nobody knows
		require.True(t, ticks(t, b, time.Minute, 0))
	})
}

// A task in a hurry: the lock is free, and the record says how it ended, whichever
// way it did.
func TestExecuteEveryEndOfTheTaskReleasesButNotBeforeAtLeast(t *testing.T) {
	t.Parallel()
	errTask := errors.New("task failed")
	ends := map[lockservice.HoldingState]func(t *testing.T, svc service){
		lockservice.HoldingOK: func(t *testing.T, svc service) {
			require.True(t, ticks(t, svc, time.Minute, time.Second, lockservice.WithKeepLockData()))
		},
		lockservice.HoldingError: func(t *testing.T, svc service) {
			ran, err := svc.Execute(t.Context(), job, time.Minute, time.Second, func(context.Context) error { return errTask })
			require.True(t, ran)
			require.Equal(t, errTask, err, "the very error, unwrapped")
		},
		lockservice.HoldingPanic: func(t *testing.T, svc service) {
			require.PanicsWithValue(t, "at night", func() {
				_, _ = svc.Execute(t.Context(), job, time.Minute, time.Second, func(context.Context) error { panic("at night") })
			})
		},
		"panic by Goexit": func(t *testing.T, svc service) {
			returned, ended := false, make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = svc.Execute(t.Context(), job, time.Minute, time.Second, func(context.Context) error {
					runtime.Goexit()
					return nil
				})
				returned = true
			}()
			<-ended
			require.False(t, returned)
		},
	}
	for state, end := range ends {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
				a, b := e.NewService(), e.NewService()
				end(t, a)
				require.Contains(t, state, stateOf(t, b))
				require.False(t, ticks(t, b, time.Minute, 0))
				e.Pass(time.Second)
				require.True(t, ticks(t, b, time.Minute, 0))
			})
		})
	}
}

func TestExecuteResultTellsNilFromSkipped(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		r := starts(t, t.Context(), svc, time.Minute, 0)
		null := func(context.Context) (*string, error) { return nil, nil }
		result, ran, err := lockservice.ExecuteWithResult(t.Context(), svc, job, time.Minute, 0, null)
		require.NoError(t, err)
		require.Nil(t, result)
		require.False(t, ran, "skipped")
		require.NoError(t, r.finish(nil))
		result, ran, err = lockservice.ExecuteWithResult(t.Context(), svc, job, time.Minute, 0, null)
		require.NoError(t, err)
		require.Nil(t, result)
		require.True(t, ran, "nil is what the task returned")
	})
}

func TestExecuteResultComesThroughBesideTheError(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		errTask := errors.New("half of it")
		result, ran, err := lockservice.ExecuteWithResult(t.Context(), e.NewService(), job, time.Minute, 0,
			func(context.Context) (int, error) { return 21, errTask })
		require.Equal(t, 21, result)
		require.True(t, ran)
		require.Equal(t, errTask, err)
	})
}

func TestExecuteOverrunEndsTheContextAndFreesTheLock(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		began := time.Now()
		r := starts(t, t.Context(), a, 10*time.Minute, time.Minute)
		deadline, ok := r.ctx.Deadline()
		require.True(t, ok)
		require.Equal(t, began.Add(10*time.Minute-12*time.Second), deadline, "2 % before the lease ends")
		e.Pass(time.Until(deadline) - time.Millisecond)
		require.False(t, r.lost())
		e.Pass(time.Millisecond)
		require.True(t, r.lost())
		require.ErrorIs(t, r.ctx.Err(), context.DeadlineExceeded)
		require.False(t, ticks(t, b, 10*time.Minute, 0), "between the end of trust and of the lease")
		e.Pass(time.Until(began.Add(10 * time.Minute)))

		next := starts(t, t.Context(), b, 10*time.Minute, 0)
		require.Greater(t, next.token, r.token)
		before := e.Get(e.Key(job))
		errTask := errors.New("and late")
		err := r.finish(errTask)
		require.ErrorIs(t, err, errTask)
		require.ErrorIs(t, err, lockservice.ErrLockLost)
		require.Equal(t, before, e.Get(e.Key(job)), "the late release touches nothing")
		require.False(t, next.lost())
		require.False(t, ticks(t, a, time.Minute, 0))
		require.NoError(t, next.finish(nil))
	})
}

// Also if nobody has taken the lock since: the record goes on saying that the run did
// not end in time.
func TestExecuteLateReleaseTouchesNothingWhenTheLockIsStillFree(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		r := starts(t, t.Context(), svc, time.Minute, time.Minute, lockservice.WithKeepLockData())
		e.Pass(time.Minute)
		before := e.Get(e.Key(job))
		require.ErrorIs(t, r.finish(nil), lockservice.ErrLockLost)
		require.Equal(t, before, e.Get(e.Key(job)))
		require.Equal(t, lockservice.HoldingCrashed, stateOf(t, svc))
		require.True(t, ticks(t, svc, time.Minute, 0))
	})
}

func TestExecuteOverrunTaskThatHeedsItsContextReleasesAndIsRecordedAsLost(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		ran, err := svc.Execute(t.Context(), job, time.Minute, 0, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.True(t, ran)
		require.ErrorIs(t, err, lockservice.ErrLockLost)
		require.Equal(t, lockservice.HoldingLost, stateOf(t, svc))
		require.True(t, ticks(t, svc, time.Minute, 0))
	})
}

func TestExecuteTwoTicksOnOneInstanceAreTwoHolders(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		first := starts(t, t.Context(), svc, time.Minute, 0)
		require.False(t, ticks(t, svc, time.Minute, 0), "the same instance is somebody else")
		e.Pass(time.Minute)
		second := starts(t, t.Context(), svc, time.Minute, 0)
		require.Greater(t, second.token, first.token)
		require.ErrorIs(t, first.finish(nil), lockservice.ErrLockLost)
		require.False(t, second.lost(), "the first tick must not release the second's lock")
		require.False(t, ticks(t, svc, time.Minute, 0))
		require.NoError(t, second.finish(nil))
	})
}

func TestExecuteCallerWhoLeavesStillReleases(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		ctx, cancel := context.WithCancel(t.Context())
		errTask := errors.New("told to stop")
		ran, err := a.Execute(ctx, job, time.Hour, time.Second, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), context.Canceled) {
				return errors.New("the caller's own cause is what counts")
			}
			return errTask
		})
		require.True(t, ran)
		require.Equal(t, errTask, err, "not lost, so nothing is joined")
		e.Pass(time.Second)
		require.True(t, ticks(t, b, time.Minute, 0))
		ran, err = a.Execute(ctx, job, time.Hour, 0, done)
		require.False(t, ran)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, lockservice.ErrNotAcquired)
	})
}

func TestExecuteCloseCutsTheJobOffAndLeavesItsLock(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		r := starts(t, t.Context(), a, 10*time.Minute, 0)
		e.Close(a)
		require.ErrorIs(t, context.Cause(r.ctx), lockservice.ErrClosed)
		require.ErrorIs(t, r.finish(nil), lockservice.ErrLockLost)
		require.False(t, ticks(t, b, time.Minute, 0), "its code may have been running on")
		ran, err := a.Execute(t.Context(), job, time.Minute, 0, done)
		require.False(t, ran)
		require.ErrorIs(t, err, lockservice.ErrClosed)
	})
}

func TestExecuteCloseWaitsForTheJob(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		r := starts(t, t.Context(), a, 10*time.Minute, 0)
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = a.Close(context.Background())
		}()
		e.Pass(5 * time.Minute)
		require.False(t, r.lost())
		require.NoError(t, r.finish(nil))
		<-closed
		require.True(t, ticks(t, b, time.Minute, 0))
	})
}
