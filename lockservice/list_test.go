package lockservice_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
)

// use has each lock written once.
func use(t testing.TB, svc service, names ...string) {
	t.Helper()
	acquired, err := svc.TryWriteLock(t.Context(), names, func(context.Context, lockservice.HasLock) error { return nil })
	require.NoError(t, err)
	require.True(t, acquired)
}

// listed are the names of the locks that match, sorted, each once.
func listed(t testing.TB, svc service, pattern string) []string {
	t.Helper()
	names := []string{}
	for info, err := range svc.ListLocks(t.Context(), pattern) {
		require.NoError(t, err)
		names = append(names, info.LockName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestListPatternIsAGlobOnTheNameAlone(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc, other := e.NewService(), e.NewService(lockservice.WithKeyPrefix(e.Prefix+"s"))
		use(t, svc, "job-a", "job-b", "job-*", "invoice:7", "jöb", "lock:job-a")
		use(t, other, "job-c")
		for pattern, want := range map[string][]string{
			"*":         {"invoice:7", "job-*", "job-a", "job-b", "jöb", "lock:job-a"},
			"job-?":     {"job-*", "job-a", "job-b"},
			"job-[a-z]": {"job-a", "job-b"},
			"job-[^a]":  {"job-*", "job-b"},
			`job-\*`:    {"job-*"},
			"job-a":     {"job-a"},
			"*:*":       {"invoice:7", "lock:job-a"},
			"server":    {},
			"none*":     {},
		} {
			require.Equal(t, want, listed(t, svc, pattern), pattern)
		}
		require.Equal(t, []string{"job-c"}, listed(t, other, "*"))
	})
}

func TestListGivesTheRecordsWithRedisTime(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		r := starts(t, t.Context(), svc, time.Hour, 0)
		e.Pass(time.Second)
		for info, err := range svc.ListLocks(t.Context(), "*") {
			require.NoError(t, err)
			require.Equal(t, infoOf(t, svc), info)
			require.Equal(t, lockservice.HoldingRunning, info.WriteOwner.State(info.ReadAt()))
		}
		require.NoError(t, r.finish(nil))
	})
}

func TestListReportsWhatIsNoRecordAndGoesOn(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		want := manyNames(300) // more than are read at once
		use(t, svc, want...)
		e.Do("SET", e.Key("a-text"), "42")
		e.Do("RPUSH", e.Key("z-list"), "x")
		e.Do("SET", e.Key(""), "{}")
		e.Do("SET", e.Key("\xff"), "{}")
		var names, corrupt []string
		for info, err := range svc.ListLocks(t.Context(), "*") {
			if err == nil {
				names = append(names, info.LockName)
				continue
			}
			require.Empty(t, info)
			require.ErrorIs(t, err, lockservice.ErrCorruptRecord)
			var which *lockservice.CorruptRecordError
			require.ErrorAs(t, err, &which)
			corrupt = append(corrupt, which.Key)
		}
		require.ElementsMatch(t, want, names)
		require.ElementsMatch(t, []string{e.Key("a-text"), e.Key("z-list"), e.Key(""), e.Key("\xff")}, corrupt)
	})
}

func manyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("lock-%04d", i)
	}
	return names
}

func TestListEndsWithTheLoop(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		use(t, svc, "a", "b", "c")
		e.Do("SET", e.Key("corrupt"), "42")
		for limit := 1; limit <= 4; limit++ {
			n := 0
			for range svc.ListLocks(t.Context(), "*") {
				if n++; n == limit {
					break
				}
			}
			require.Equal(t, limit, n)
		}
	})
}

// only is the one error that a walk gives.
func only(t testing.TB, ctx context.Context, svc service, pattern string) (err error) {
	t.Helper()
	n := 0
	for info, e := range svc.ListLocks(ctx, pattern) {
		require.Error(t, e)
		require.Empty(t, info)
		n, err = n+1, e
	}
	require.Equal(t, 1, n)
	return err
}

func TestListErrorsEndTheWalk(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		for _, pattern := range []string{"", "\xff", fmt.Sprintf("%0513d", 0)} {
			require.ErrorIs(t, only(t, t.Context(), svc, pattern), lockservice.ErrInvalidArgument)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Equal(t, context.Canceled, only(t, ctx, svc, "*"))
		e.Cut()
		err := only(t, t.Context(), svc, "*")
		require.ErrorIs(t, err, lockservice.ErrUnavailable)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's own context is not done")
		e.Heal()
		e.Close(svc)
		require.ErrorIs(t, only(t, t.Context(), svc, "*"), lockservice.ErrClosed)
	})
}

func TestListContextEndsTheWalkBetweenRecords(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		use(t, svc, manyNames(300)...)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		n := 0
		for _, err := range svc.ListLocks(ctx, "*") {
			cancel()
			n, last = n+1, err
		}
		require.Equal(t, context.Canceled, last)
		require.Less(t, n, 300)
	})
}

// On a real server SCAN comes in many pages, and other keys are between.
func TestListWalksManyPagesOfARealServer(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t), redistest.Prefix(t)
	svc, err := lockservice.New(t.Context(), server.Client(t), lockservice.WithKeyPrefix(prefix),
		lockservice.WithLeaseTime(time.Second), lockservice.WithReleasedRecordTTL(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, svc.Close(context.Background())) })
	require.NoError(t, svc.WaitUntilReady(t.Context()))
	want := manyNames(2000)
	for part := range slices.Chunk(want, 100) {
		use(t, svc, part...)
	}
	require.Equal(t, want, listed(t, svc, "lock-*"))
	require.Equal(t, want[1000:1100], listed(t, svc, "lock-10??"))
	use(t, svc, "jöb")
	require.Equal(t, []string{"jöb"}, listed(t, svc, "j??b"), "? is one byte")
}

func TestListNamesTheRightThatIsMissing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", "-scan")
	option := server.ClientOption()
	option.Username, option.Password = "worker", "secret"
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	svc, err := lockservice.New(t.Context(), client, lockservice.WithLeaseTime(time.Second))
	require.NoError(t, err, "locks don't need it")
	t.Cleanup(func() { require.NoError(t, svc.Close(context.Background())) })
	err = only(t, t.Context(), svc, "*")
	require.ErrorIs(t, err, lockservice.ErrUnavailable)
	require.ErrorContains(t, err, "scan")
	require.ErrorContains(t, err, "NOPERM")
}
