package lockservice_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/lockservice"
)

func TestExecuteBadArgumentsAreRefusedBeforeRedisIsTouched(t *testing.T) {
	t.Parallel()
	calls := map[string]struct {
		name            string
		atMost, atLeast time.Duration
		task            func(context.Context) error
		opts            []lockservice.LockOption
	}{
		"atMost is 0s":        {job, 0, 0, done, nil},
		"atMost is -1s":       {job, -time.Second, 0, done, nil},
		"at most 87600h0m0s":  {job, math.MaxInt64, 0, done, nil},
		"atLeast is -1ns":     {job, time.Minute, -1, done, nil},
		"longer than atMost":  {job, time.Minute, time.Minute + 1, done, nil},
		"task to run is nil":  {job, time.Minute, 0, nil, nil},
		"lock name is empty":  {"", time.Minute, 0, done, nil},
		"at most 512":         {strings.Repeat("x", 513), time.Minute, 0, done, nil},
		"not valid UTF-8":     {"\xff", time.Minute, 0, done, nil},
		"never waits":         {job, time.Minute, 0, done, []lockservice.LockOption{lockservice.WithTimeout(time.Second)}},
		"may not be negative": {job, time.Minute, 0, done, []lockservice.LockOption{lockservice.WithTimeout(-1)}},
		"atMost bounds a job": {job, time.Minute, 0, done, []lockservice.LockOption{lockservice.WithMaxHold(time.Second)}},
		"0 to 1024":           {job, time.Minute, 0, done, []lockservice.LockOption{lockservice.WithKeepError(-1)}},
	}
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		e.Cut() // whoever touches Redis now gets ErrUnavailable, after a while
		began := time.Now()
		for text, c := range calls {
			ran, err := svc.Execute(t.Context(), c.name, c.atMost, c.atLeast, c.task, c.opts...)
			require.False(t, ran, text)
			require.ErrorIs(t, err, lockservice.ErrInvalidArgument, text)
			require.ErrorContains(t, err, text)
			require.NotErrorIs(t, err, lockservice.ErrUnavailable)
		}
		_, ran, err := lockservice.ExecuteWithResult[int](t.Context(), svc, "", 0, 0, nil)
		require.False(t, ran)
		for _, all := range []string{"nil", "empty", "atMost"} {
			require.ErrorContains(t, err, all, "everything that is wrong is named")
		}
		require.Zero(t, time.Since(began))
		ran, err = svc.Execute(t.Context(), job, time.Minute, 0, done)
		require.False(t, ran)
		require.ErrorIs(t, err, lockservice.ErrUnavailable, "the control: this one asks Redis")
	})
}

func TestExecuteShortAndLongLeasesLeaveTheTaskMostOfTheirTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ atMost, trusted time.Duration }{
		{2 * time.Millisecond, time.Millisecond},
		{4 * time.Millisecond, 3 * time.Millisecond},
		{100 * time.Millisecond, 75 * time.Millisecond},
		{200 * time.Millisecond, 150 * time.Millisecond},
		{time.Second, 950 * time.Millisecond},
		{time.Hour, time.Hour - 72*time.Second},
		{10 * 365 * 24 * time.Hour, 10*365*24*time.Hour - 1752*time.Hour},
	} {
		locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
			svc := e.NewService()
			began := time.Now()
			r := starts(t, t.Context(), svc, c.atMost, 0)
			deadline, ok := r.ctx.Deadline()
			require.True(t, ok)
			require.Equal(t, c.trusted, deadline.Sub(began), c.atMost)
			require.Equal(t, c.atMost, infoOf(t, svc).WriteOwner.ExpiresAt().Sub(began).Round(time.Millisecond))
			require.NoError(t, r.finish(nil))
			require.True(t, ticks(t, svc, c.atMost, c.atMost))
		})
	}
}

// Rounded down, the record would end before the holder's trust, or before atLeast.
func TestExecuteFractionsOfMillisecondsAreRoundedUp(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		began := time.Now()
		require.True(t, ticks(t, svc, 1500*time.Microsecond, 1400*time.Microsecond))
		holding := infoOf(t, svc).WriteOwner
		require.EqualValues(t, 2, holding.LeaseMillis)
		require.Equal(t, 2*time.Millisecond, holding.ExpiresAt().Sub(began))
	})
}

func TestExecuteCallersEarlierDeadlineStays(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ran, err := e.NewService().Execute(ctx, job, time.Minute, 0, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.True(t, ran)
		require.Equal(t, context.DeadlineExceeded, err, "not lost")
	})
}

func TestExecuteNestedCallsReuseTheJobsLockAndToken(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		ran, err := a.Execute(t.Context(), job, time.Hour, 0, func(ctx context.Context) error {
			token, held := lockservice.FencingToken(ctx, job)
			require.True(t, held)
			for _, lock := range []lockservice.Lock{lockservice.WriteLock(job), lockservice.ReadLock(job)} {
				acquired, err := a.TryLock(ctx, []lockservice.Lock{lock, lockservice.WriteLock("another")},
					func(ctx context.Context, has lockservice.HasLock) error {
						e.Pass(5 * time.Minute)
						inner, held := lockservice.FencingToken(ctx, job)
						require.True(t, held)
						require.Equal(t, token, inner)
						require.True(t, has())
						return nil
					})
				require.NoError(t, err)
				require.True(t, acquired)
			}
			require.False(t, ticks(t, b, time.Minute, 0), "the nested calls released just what was theirs")
			return nil
		})
		require.NoError(t, err)
		require.True(t, ran)
	})
}

func TestExecuteLossReachesLocksNestedInTheJob(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		ran, err := svc.Execute(t.Context(), job, time.Minute, 0, func(ctx context.Context) error {
			_, _ = svc.TryWriteLock(ctx, []string{"another"}, func(ctx context.Context, has lockservice.HasLock) error {
				require.True(t, has())
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), lockservice.ErrLockLost)
				require.False(t, has())
				return nil
			})
			acquired, err := svc.TryWriteLock(ctx, []string{job}, func(context.Context, lockservice.HasLock) error { return nil })
			require.NoError(t, err)
			require.False(t, acquired, "a lost lock is not acquired again")
			again, err := svc.Execute(ctx, job, time.Minute, 0, done)
			require.NoError(t, err)
			require.False(t, again)
			return nil
		})
		require.True(t, ran)
		require.ErrorIs(t, err, lockservice.ErrLockLost)
	})
}

// A run is never inside another run of the same job: it would have no token, no atMost
// and no atLeast of its own.
func TestExecuteInsideItsOwnLockIsSkipped(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		nested := func(ctx context.Context) error {
			for _, name := range []string{job, "another-job"} {
				ran, err := svc.Execute(ctx, name, time.Minute, 0, done)
				require.NoError(t, err)
				require.Equal(t, name != job, ran, name)
			}
			return nil
		}
		ran, err := svc.Execute(t.Context(), job, time.Minute, 0, nested)
		require.NoError(t, err)
		require.True(t, ran)
		acquired, err := svc.TryWriteLock(t.Context(), []string{job}, func(ctx context.Context, _ lockservice.HasLock) error { return nested(ctx) })
		require.NoError(t, err)
		require.True(t, acquired)
	})
}

func TestExecuteInsideItsOwnReadLockIsAnUpgradeWithATokenOfItsOwn(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		acquired, err := svc.TryReadLock(t.Context(), []string{job}, func(ctx context.Context, _ lockservice.HasLock) error {
			reads, _ := lockservice.FencingToken(ctx, job)
			ran, err := svc.Execute(ctx, job, time.Minute, 0, func(ctx context.Context) error {
				token, held := lockservice.FencingToken(ctx, job)
				require.True(t, held)
				require.Greater(t, token, reads)
				return nil
			})
			require.True(t, ran)
			return err
		})
		require.NoError(t, err)
		require.True(t, acquired)
	})
}

func TestExecuteKeptErrorTextIsCapped(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		ran, err := svc.Execute(t.Context(), job, time.Minute, 0, func(context.Context) error {
			return errors.New("no file\xff of the day")
		}, lockservice.WithKeepError(8), lockservice.WithKeepLockData())
		require.True(t, ran)
		require.Error(t, err)
		e.Pass(10 * time.Minute)
		holding := infoOf(t, svc).WriteOwner
		require.Equal(t, "error", holding.Outcome)
		require.Equal(t, "no file\ufffd", holding.Error)
	})
}
