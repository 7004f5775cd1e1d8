package locktest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
	"github.com/redislockservice/redislockservice/pubsub"
)

// input: bad arguments are refused before Redis is touched, odd ones work.
var input = slices.Concat([]scenario{
	{name: "HostileNamesAreOrdinaryNames", run: hostileNames},
	{name: "HostileNameReachesNoOtherKey", run: noOtherKey},
	{name: "PrefixesDoNotMeet", run: prefixesApart},
	{name: "ContradictoryOptionsAreAllNamedTogether", run: allOptionsNamed},
	{name: "PrefixWithAMeaningOfItsOwnIsRefused", run: badPrefixes},
	{name: "ZeroAndNegativeDurationsAreRefused", run: badDurations},
	{name: "PoolOfOneConnectionIsToldAndNeverHangs", run: poolOfOne},
	{name: "PoolOfTwoConnectionsIsEnough", run: poolOfTwo},
	{name: "URLThatIsNotUnderstoodIsNotRepeated", run: badURL},
}, in(bubbleName,
	scenario{name: "BadArgumentsDoNotTouchRedis", run: badArguments},
	scenario{name: "NewOnAClosedPortSaysUnavailableInTime", run: newOnClosedPort},
	scenario{name: "NewOnASilentServerSaysUnavailableInTime", run: newOnSilentServer},
))

var hostile = []string{
	"{}", "{x}", "}:lock:{", ":", "a:b", "a\nb", "a\r\nSET k v\r\n", "*", "[a-z]?", "\x00", "a\x00b", " ", "\t", `"`, `\`, `\u0000`,
	"größe", "日本語", "\u202e", "\ufffd", "../..", "server", "null", strings.Repeat("n", 512), strings.Repeat("ü", 256),
}

func hostileNames(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	all := hold(t, t.Context(), a, writeAll(hostile)...)
	for _, name := range hostile {
		require.False(t, tries(t, t.Context(), b, read(name)), "%q", name)
		_, held := all.FencingToken(name)
		require.True(t, held)
	}
	infos, err := b.GetLockInfo(t.Context(), hostile)
	require.NoError(t, err)
	require.Len(t, infos, len(hostile))
	for i, name := range hostile {
		require.Equal(t, name, infos[i].LockName)
	}
	p := start(t, t.Context(), b, writeAll(hostile))
	e.AwaitWaiting(hostile[5], 1)
	letGo(t, all)
	letGo(t, p.got())
}

func noOtherKey(t *testing.T, e *Env) {
	svc := e.NewService()
	memory := e.Get(e.ServerKey())
	require.NotEmpty(t, memory)
	for _, name := range []string{"server", "}:server", ":server", e.ServerKey(), "../server"} {
		letGo(t, hold(t, t.Context(), svc, write(name)))
		require.Equal(t, memory, e.Get(e.ServerKey()))
	}
}

func prefixesApart(t *testing.T, e *Env) {
	a := e.NewService()
	b := e.NewService(lockservice.WithKeyPrefix(e.Prefix + ":lock"))
	hold(t, t.Context(), a, write("x"), write("lock:x"), write("}:lock:x"))
	require.True(t, tries(t, t.Context(), b, write("x"), write("lock:x"), write("}:lock:x")))
}

func allOptionsNamed(t *testing.T, e *Env) {
	var none *pubsub.Service
	_, err := lockservice.New(t.Context(), e.Client(), lockservice.WithKeyPrefix("a{b}"), lockservice.WithPollDelay(-1),
		lockservice.WithLeaseTime(time.Second), lockservice.WithRenewalInterval(2*time.Second), lockservice.WithReleasedRecordTTL(0),
		lockservice.WithConnectionTimeout(0), lockservice.WithJSONHandler(nil), lockservice.WithPubSub(none),
		lockservice.WithGoroutineWrapper(nil), lockservice.WithOwner(strings.Repeat("o", 1000)), lockservice.WithLogger(nil))
	require.ErrorIs(t, err, lockservice.ErrInvalidArgument)
	for _, part := range []string{"prefix", "poll delay", "renewal interval", "released record", "connection timeout", "JSON handler",
		"pub/sub", "wrapper", "owner", "logger"} {
		require.ErrorContains(t, err, part)
	}
	_, err = lockservice.New(t.Context(), nil)
	require.ErrorIs(t, err, lockservice.ErrInvalidArgument)
}

func badPrefixes(t *testing.T, e *Env) {
	client := e.Client()
	for _, prefix := range []string{"", "{a", "a}", "a*", "a?", "a[b", "a]", `a\`, "a b", "a\n", "\xff", strings.Repeat("p", 129)} {
		_, err := lockservice.New(t.Context(), client, lockservice.WithKeyPrefix(prefix))
		require.ErrorIs(t, err, lockservice.ErrInvalidArgument, "%q", prefix)
	}
}

func badDurations(t *testing.T, e *Env) {
	client := e.Client()
	for _, d := range []time.Duration{0, -1, -time.Hour} {
		for _, opt := range []lockservice.Option{lockservice.WithLeaseTime(d), lockservice.WithRenewalInterval(d),
			lockservice.WithPollDelay(d), lockservice.WithReleasedRecordTTL(d), lockservice.WithConnectionTimeout(d)} {
			_, err := lockservice.New(t.Context(), client, opt)
			require.ErrorIs(t, err, lockservice.ErrInvalidArgument, "%v", d)
		}
	}
	for _, renewal := range []time.Duration{time.Minute, time.Hour, 59 * time.Second} { // no time for a retry
		_, err := lockservice.New(t.Context(), client, lockservice.WithRenewalInterval(renewal))
		require.ErrorIs(t, err, lockservice.ErrInvalidArgument, "%v", renewal)
	}
}

func poolOfOne(t *testing.T, e *Env) {
	client := e.ClientWith(func(o *rueidis.ClientOption) { o.BlockingPoolSize = 1 })
	began := time.Now()
	_, err := lockservice.New(t.Context(), client, e.Options(lockservice.WithConnectionTimeout(500*time.Millisecond))...)
	require.ErrorIs(t, err, lockservice.ErrUnavailable)
	require.ErrorContains(t, err, "pool")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(began), 20*time.Second)
}

func poolOfTwo(t *testing.T, e *Env) {
	svc := e.NewServiceOn(e.ClientWith(func(o *rueidis.ClientOption) { o.BlockingPoolSize = 2 }))
	require.True(t, tries(t, t.Context(), svc, write("x")))
}

func badURL(t *testing.T, _ *Env) {
	for _, url := range []string{"redis://user:geheim@host:port:0/x", "geheim", "", "http://user:geheim@host"} {
		_, err := lockservice.Open(t.Context(), url)
		require.ErrorIs(t, err, lockservice.ErrInvalidArgument, "%q", url)
		require.NotContains(t, err.Error(), "geheim")
	}
}

// badArguments are tried while the server is away: whoever asked it would be told
// that it is unavailable, and not at once.
func badArguments(t *testing.T, e *Env) {
	svc, ctx := e.NewService(), t.Context()
	e.Cut()
	began := time.Now()
	for _, names := range [][]string{nil, {}, {""}, {"good", ""}, {strings.Repeat("n", 513)}, {"\xff"}, {"a\xc3"}} {
		_, err := svc.TryWriteLock(ctx, names, nothing, timeout(long))
		require.ErrorIs(t, err, lockservice.ErrInvalidArgument, "%q", names)
		_, err = svc.TryReadLock(ctx, names, nothing)
		require.ErrorIs(t, err, lockservice.ErrInvalidArgument, "%q", names)
		_, err = svc.Acquire(ctx, writeAll(names))
		require.ErrorIs(t, err, lockservice.ErrInvalidArgument, "%q", names)
		_, err = svc.GetLockInfo(ctx, names)
		require.ErrorIs(t, err, lockservice.ErrInvalidArgument, "%q", names)
	}
	for _, opts := range [][]lockservice.LockOption{{timeout(-1)}, {lockservice.WithMaxHold(0)}, {lockservice.WithMaxHold(-time.Second)},
		{lockservice.WithKeepError(-1)}, {lockservice.WithKeepError(1 << 20)}} {
		_, err := svc.TryWriteLock(ctx, []string{"x"}, nothing, opts...)
		require.ErrorIs(t, err, lockservice.ErrInvalidArgument)
	}
	_, err := svc.TryWriteLock(ctx, []string{"x"}, nil)
	require.ErrorIs(t, err, lockservice.ErrInvalidArgument)
	_, _, err = lockservice.TryLockWithResult[int](ctx, svc, locks(read("x")), nil)
	require.ErrorIs(t, err, lockservice.ErrInvalidArgument)
	_, err = svc.TryWriteLock(ctx, []string{"", "\xff"}, nothing, timeout(-1))
	for _, part := range []string{"empty", "UTF-8", "timeout"} {
		require.ErrorContains(t, err, part, "all that is wrong is named")
	}
	require.Zero(t, time.Since(began))
	e.Heal()
}

// E8
func newOnClosedPort(t *testing.T, e *Env) {
	client := e.Client()
	e.Cut()
	began := time.Now()
	_, err := lockservice.New(t.Context(), client, e.Options()...)
	require.ErrorIs(t, err, lockservice.ErrUnavailable)
	require.LessOrEqual(t, time.Since(began), 10*time.Second)
	e.Heal()
}

func newOnSilentServer(t *testing.T, e *Env) {
	client := e.Client()
	e.Pause()
	began := time.Now()
	_, err := lockservice.New(t.Context(), client, e.Options()...)
	require.ErrorIs(t, err, lockservice.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.LessOrEqual(t, time.Since(began), 12*time.Second)
	e.Unpause()
}
