package lockservice_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/lockservice"
)

// forEver is what "wait for ever" is written like.
const forEver = time.Duration(math.MaxInt64)

func TestTimeoutsAreNotShortestWhenTheyAreLongest(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, env *locktest.Env) {
		svc := env.NewService()
		a, err := svc.Acquire(t.Context(), []lockservice.Lock{lockservice.WriteLock("n")}, lockservice.WithMaxHold(forEver))
		require.NoError(t, err)
		time.AfterFunc(3*time.Second, func() { _ = a.Release(context.Background()) })
		faketime.Pass(time.Second)
		require.True(t, a.HasLock())
		ran, err := svc.TryWriteLock(t.Context(), []string{"n"}, func(context.Context, lockservice.HasLock) error { return nil },
			lockservice.WithTimeout(forEver))
		require.NoError(t, err)
		require.True(t, ran)
	})
}

// TestDurationsThatOverflowAreRefused: added to a moment they would be in the past,
// and in a record they would make it unreadable.
func TestDurationsThatOverflowAreRefused(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, env *locktest.Env) {
		for name, opt := range map[string]lockservice.Option{
			"lease time": lockservice.WithLeaseTime(forEver), "renewal interval": lockservice.WithRenewalInterval(forEver),
			"poll delay": lockservice.WithPollDelay(forEver), "released record TTL": lockservice.WithReleasedRecordTTL(forEver),
			"connection timeout": lockservice.WithConnectionTimeout(forEver),
		} {
			svc, err := lockservice.New(t.Context(), env.Client(), opt)
			if err == nil {
				env.Close(svc)
			}
			require.ErrorIs(t, err, lockservice.ErrInvalidArgument, name)
			require.ErrorContains(t, err, name)
		}
	})
}

// TestSecondCloseFromInsideTheCodeIsBoundedByItsContext: the first waits for that
// very code, and would wait for ever.
func TestSecondCloseFromInsideTheCodeIsBoundedByItsContext(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, env *locktest.Env) {
		svc := env.NewService()
		first := make(chan error, 1)
		ran, err := svc.TryWriteLock(t.Context(), []string{"n"}, func(ctx context.Context, hasLock lockservice.HasLock) error {
			within, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			go func() { first <- svc.Close(within) }()
			faketime.Pass(time.Second)
			inside, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			require.ErrorIs(t, svc.Close(inside), context.DeadlineExceeded)
			require.True(t, hasLock())
			return nil
		})
		require.NoError(t, err)
		require.True(t, ran)
		require.NoError(t, <-first)
		require.NoError(t, svc.Close(t.Context()))
	})
}

// TestCallInAScopeWhoseLossItIsTheFirstToNotice: its error has all three classes,
// as when the loss had been noticed before.
func TestCallInAScopeWhoseLossItIsTheFirstToNotice(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, env *locktest.Env) {
		starved := make(chan struct{})
		feed := sync.OnceFunc(func() { close(starved) })
		defer feed()
		svc := env.NewService(lockservice.WithGoroutineWrapper(func(_ context.Context, run func()) func() {
			return func() { <-starved; run() }
		}))
		a, err := svc.Acquire(t.Context(), []lockservice.Lock{lockservice.WriteLock("n")})
		require.NoError(t, err)
		faketime.Pass(env.Lease)
		require.NoError(t, a.Context().Err(), "nobody has noticed it yet")
		_, err = svc.Acquire(a.Context(), []lockservice.Lock{lockservice.WriteLock("other")})
		require.ErrorIs(t, err, lockservice.ErrNotAcquired)
		require.ErrorIs(t, err, lockservice.ErrLockLost)
		require.ErrorIs(t, err, context.Canceled)
		feed()
		require.ErrorIs(t, a.Release(t.Context()), lockservice.ErrLockLost)
	})
}

// TestReleaseThatFindsItsRecordOverwrittenTellsOfTheLoss: another may have had it.
func TestReleaseThatFindsItsRecordOverwrittenTellsOfTheLoss(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, env *locktest.Env) {
		svc := env.NewService()
		a, err := svc.Acquire(t.Context(), []lockservice.Lock{lockservice.WriteLock("n"), lockservice.WriteLock("m")})
		require.NoError(t, err)
		env.Do("SET", env.Key("n"), "garbage")
		require.ErrorIs(t, a.Release(t.Context()), lockservice.ErrLockLost)
		ran, err := svc.TryWriteLock(t.Context(), []string{"m"}, func(context.Context, lockservice.HasLock) error { return nil })
		require.NoError(t, err)
		require.True(t, ran, "the other one is free")
	})
}

// TestNewThatIsCancelledSaysSo: it is the caller's own context.
func TestNewThatIsCancelledSaysSo(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, env *locktest.Env) {
		client := env.Client()
		env.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := lockservice.New(ctx, client)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

// TestWhoWaitsForTheEndOfAHoldOffIsToldOfCloseAtOnce although code runs still.
func TestWhoWaitsForTheEndOfAHoldOffIsToldOfCloseAtOnce(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, env *locktest.Env) {
		svc := env.NewService()
		a, err := svc.Acquire(t.Context(), []lockservice.Lock{lockservice.WriteLock("n")})
		require.NoError(t, err)
		env.Restart(true)
		ready := make(chan time.Time, 1)
		go func() {
			err := svc.WaitUntilReady(context.Background())
			if err == lockservice.ErrClosed { //nolint:errorlint // the test is of the value
				ready <- time.Now()
			}
		}()
		faketime.Pass(1300 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		closing := time.Now()
		require.NoError(t, svc.Close(ctx))
		require.Less(t, (<-ready).Sub(closing), 100*time.Millisecond)
		require.Error(t, a.Release(t.Context()))
	})
}

// TestReleaseOfALapsedLockDoesNotClaimToGoOn: with the lease gone there is nothing
// to go on with.
func TestReleaseOfALapsedLockDoesNotClaimToGoOn(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, env *locktest.Env) {
		core, logs := observer.New(zap.WarnLevel)
		svc := env.NewService(lockservice.WithLogger(zap.New(core)))
		a, err := svc.Acquire(t.Context(), []lockservice.Lock{lockservice.WriteLock("n")})
		require.NoError(t, err)
		env.Cut()
		faketime.Pass(2 * env.Lease)
		require.ErrorIs(t, a.Release(t.Context()), lockservice.ErrLockLost)
		env.Heal()
		for _, entry := range logs.All() {
			require.NotContains(t, entry.Message, "background")
		}
		require.NotEmpty(t, logs.FilterMessageSnippet("lost").All())
	})
}
