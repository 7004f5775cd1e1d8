package lockservice_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
)

// openedLease is the lease of services made with opened.
const openedLease = 2 * time.Second

// opened makes a service on a server of the test's own, whose operations wait for
// Redis as long as a lease lasts.
func opened(t *testing.T, server *redistest.Server, opts ...lockservice.Option) *lockservice.RedisLockService {
	t.Helper()
	opts = append([]lockservice.Option{lockservice.WithLeaseTime(openedLease), lockservice.WithRenewalInterval(openedLease / 5),
		lockservice.WithPollDelay(faultPoll), lockservice.WithConnectionTimeout(openedLease)}, opts...)
	return insist(t, func() (*lockservice.RedisLockService, error) {
		return lockservice.Open(t.Context(), server.URL(), opts...)
	})
}

// soon bounds what must not take long; the machine may be busy.
const soon = 5 * time.Second

// S8, B7, C1, D2, K2, E9: a server that accepts everything and answers nothing, from
// some moment of the renewals on. The loss is told by local time; no call hangs.
func TestSilentServerIsALostLockByLocalTime(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	core, logs := observer.New(zapcore.WarnLevel)
	a, b := opened(t, server, lockservice.WithLogger(zap.New(core))), opened(t, server)
	held, err := a.Acquire(t.Context(), writes([]string{"x"}))
	require.NoError(t, err)
	waiting, cancel := context.WithCancel(t.Context())
	waits := ask2(waiting, b, writes([]string{"x"}), time.Hour)
	require.NoError(t, until(soon, "it was renewed", func() bool {
		infos, err := a.GetLockInfo(t.Context(), []string{"x"})
		return err == nil && infos[0].WriteOwner.ExpiresAt().Sub(infos[0].WriteOwner.AcquiredAt()) > openedLease && len(infos[0].Waiting) == 1
	}))
	server.Pause(t)
	silent := time.Now()
	<-held.Lost()
	require.Less(t, time.Since(silent), openedLease+soon)
	require.False(t, held.HasLock())
	require.ErrorIs(t, context.Cause(held.Context()), lockservice.ErrLockLost)
	for name, call := range map[string]func() error{
		"acquire": func() error { _, err := a.Acquire(t.Context(), writes([]string{"y"})); return err },
		"look":    func() error { _, err := a.GetLockInfo(t.Context(), []string{"x"}); return err },
	} {
		began := time.Now()
		err := call()
		require.ErrorIs(t, err, lockservice.ErrUnavailable, name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, name)
		require.Less(t, time.Since(began), openedLease+soon, name)
	}
	began := time.Now()
	cancel()
	g := <-waits
	require.ErrorIs(t, g.err, context.Canceled)
	require.Less(t, time.Since(began), soon)
	require.ErrorIs(t, held.Release(t.Context()), lockservice.ErrLockLost)
	require.Len(t, logs.FilterMessage("a lock was lost while it was held").All(), 1, "lost exactly once")

	server.Unpause(t)
	for _, svc := range []*lockservice.RedisLockService{b, a} {
		g := <-ask2(t.Context(), svc, writes([]string{"x", "y"}), time.Minute)
		require.NoError(t, g.err)
		require.NoError(t, g.a.Release(t.Context()))
	}
	require.False(t, held.HasLock(), "what was sent to the silent server brings nothing back")
}

// A server that loads its data isn't an empty one: nothing is granted meanwhile, and
// the error says why.
func TestLoadingServerGrantsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithArgs("--enable-debug-command", "yes",
		"--key-load-delay", "4000", "--loading-process-events-interval-bytes", "1024"))
	svc := opened(t, server)
	held, err := svc.Acquire(t.Context(), writes([]string{"x"}))
	require.NoError(t, err)
	server.Do(t, "DEBUG", "POPULATE", "1300")
	server.Do(t, "SAVE")
	restarted := make(chan struct{})
	go func() {
		defer close(restarted)
		server.Restart(t)
	}()
	defer func() { <-restarted }()
	down := false
	require.NoError(t, until(30*time.Second, "somebody is told that it loads", func() bool {
		a, err := svc.Acquire(t.Context(), writes([]string{"y"}))
		if err == nil && !down {
			_ = a.Release(t.Context()) // it has not been killed yet
			return false
		}
		down = true
		require.ErrorIs(t, err, lockservice.ErrUnavailable, "nothing is granted by a server that starts")
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		return strings.Contains(err.Error(), "(loading)")
	}))
	_, err = lockservice.Open(t.Context(), server.URL())
	require.ErrorIs(t, err, lockservice.ErrUnavailable)
	<-restarted
	<-held.Lost()
	require.ErrorIs(t, held.Release(t.Context()), lockservice.ErrLockLost)
	g := <-ask2(t.Context(), svc, writes([]string{"x", "y"}), 30*time.Second)
	require.NoError(t, g.err)
	require.NoError(t, g.a.Release(t.Context()))
}

// R17: waiters hold no connections, and holders renew on one that they have. Whoever
// has lost his can't get another: he is told so, and the lock ends with the lease.
func TestServerFullOfClientsLeavesHoldersAlone(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	stalls := watchStalls(t, server)
	admin := server.Client(t)
	do := func(args ...string) {
		t.Helper()
		require.NoError(t, admin.Do(t.Context(), admin.B().Arbitrary(args...).Build()).Error())
	}
	a, b := opened(t, server), opened(t, server)
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := fullServer(t, server, do, a, b)
		do("CONFIG", "SET", "maxclients", "1000")
		if err == nil {
			break
		}
		// A connection that is too slow is given up, and there is no other.
		require.True(t, attempt < 10 && stalls.since(began), "%v", err)
		for _, svc := range []*lockservice.RedisLockService{a, b} { // both get a connection again
			g := <-ask2(t.Context(), svc, writes([]string{"x"}), 30*time.Second)
			require.NoError(t, g.err)
			require.NoError(t, g.a.Release(t.Context()))
		}
	}

	held, err := a.Acquire(t.Context(), writes([]string{"x"}))
	require.NoError(t, err)
	do("CONFIG", "SET", "maxclients", "1")
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	<-held.Lost()
	_, err = a.Acquire(t.Context(), writes([]string{"y"}))
	require.ErrorIs(t, err, lockservice.ErrUnavailable)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	do("CONFIG", "SET", "maxclients", "1000")
	for _, svc := range []*lockservice.RedisLockService{a, b} {
		g := <-ask2(t.Context(), svc, writes([]string{"x", "y"}), 30*time.Second)
		require.NoError(t, g.err)
		require.NoError(t, g.a.Release(t.Context()))
	}
}

// fullServer has a lock held, and waited for two hundred times, on a server that
// takes no more connections. Those that are connected stay.
func fullServer(t *testing.T, server *redistest.Server, do func(...string), a, b *lockservice.RedisLockService) error {
	t.Helper()
	held, err := a.Acquire(t.Context(), writes([]string{"x"}), lockservice.WithTimeout(time.Minute))
	require.NoError(t, err)
	var waits []<-chan got
	for range 200 {
		waits = append(waits, ask2(t.Context(), b, []lockservice.Lock{lockservice.ReadLock("x")}, time.Minute))
	}
	require.NoError(t, until(time.Minute, "they wait", func() bool {
		infos, err := a.GetLockInfo(t.Context(), []string{"x"})
		return err == nil && len(infos[0].Waiting) == 1
	}))
	do("CONFIG", "SET", "maxclients", "1")
	_, err = lockservice.Open(t.Context(), server.URL())
	require.ErrorIs(t, err, lockservice.ErrUnavailable)
	wait(t, 2*openedLease)
	var errs []error
	if !held.HasLock() {
		errs = append(errs, errors.New("it was not renewed"))
	}
	errs = append(errs, held.Release(t.Context()))
	for _, w := range waits {
		g := <-w
		errs = append(errs, g.err, g.a.Release(t.Context()))
	}
	return errors.Join(errs...)
}

// J1, J9: the message that a lock is free is lost together with the subscription.
// The new subscription makes good for it, not the poll.
func TestReleaseWhileTheSubscriptionIsDownIsNotSleptThrough(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	never := lockservice.WithPollDelay(time.Hour)
	a, b := opened(t, server, never), opened(t, server, never)
	server.Do(t, "CONFIG", "RESETSTAT")
	for range 10 {
		held := <-ask2(t.Context(), a, writes([]string{"x"}), time.Minute)
		require.NoError(t, held.err)
		waits := ask2(t.Context(), b, writes([]string{"x"}), time.Hour)
		require.NoError(t, until(soon, "somebody waits", func() bool {
			infos, err := a.GetLockInfo(t.Context(), []string{"x"})
			return err == nil && len(infos[0].Waiting) == 1
		}))
		server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		require.NoError(t, held.a.Release(t.Context()))
		select {
		case g := <-waits:
			require.NoError(t, g.err)
			require.NoError(t, g.a.Release(t.Context()))
		case <-time.After(30 * time.Second):
			require.FailNow(t, "the waiter sleeps on")
		}
	}
}

// J19, B6, D6: the connection is cut again and again, faster than the lease runs out.
func TestRenewalsGoOnOverABadConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	stalls := watchStalls(t, server)
	r := newRig(t, server, faultLease/5)
	for range 10 {
		began := time.Now()
		g := <-ask(t.Context(), r.svc, writes([]string{"x"}))
		require.NoError(t, g.err)
		cut := time.NewTicker(faultLease * 3 / 10)
		for time.Since(began) < 5*faultLease && g.a.HasLock() {
			<-cut.C
			r.proxy.Cut()
		}
		cut.Stop()
		kept := g.a.HasLock()
		err := g.a.Release(t.Context())
		if !kept && stalls.since(began) {
			continue // the machine stood still: it may be lost
		}
		require.True(t, kept, "lost, although every attempt had a second one in time")
		require.NoError(t, err)
		return
	}
	require.FailNow(t, "the machine stands still all the time")
}

// J24, J70, J23: callers that leave at any moment of the acquire leave nothing held,
// of no name, and nothing that is renewed.
func TestCallersThatLeaveAtAnyMomentLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newRig(t, server, faultLease/5)
	names := []string{"a", "b", "c", "d", "e"}
	random := rand.New(rand.NewPCG(1, 2))
	granted, left := 0, 0
	// About half of them leave in time, however quick the machine is at the moment.
	patience := 200 * time.Microsecond
	for range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(time.Duration(random.Int64N(int64(patience))), cancel)
		a, err := r.svc.Acquire(ctx, writes(names), lockservice.WithTimeout(faultPatience))
		timer.Stop()
		cancel()
		if err == nil {
			granted++
			patience = max(patience*9/10, 10*time.Microsecond)
			require.NoError(t, a.Release(context.Background()))
			continue
		}
		left++
		patience = min(patience*11/10, time.Second)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, lockservice.ErrNotAcquired)
	}
	g := <-ask(t.Context(), r.rival, writes(names))
	require.NoError(t, g.err)
	require.Less(t, g.after, faultLease+soon)
	require.NoError(t, g.a.Release(t.Context()))
	require.Positive(t, granted)
	require.Positive(t, left)
	t.Logf("%d were granted, %d left; the rival waited %v", granted, left, g.after.Round(time.Millisecond))
}

// J34, R9: connections that died while nobody used them cost nobody anything.
func TestConnectionsKilledWhileIdleAreReplaced(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	option := server.ClientOption()
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	for range 5 { // idle wires in the pool
		wire, release := client.Dedicate()
		require.NoError(t, wire.Do(t.Context(), wire.B().Ping().Build()).Error())
		defer release() // in the end, so that they are five
	}
	svc, err := lockservice.New(t.Context(), client, lockservice.WithLeaseTime(faultLease))
	require.NoError(t, err)
	t.Cleanup(func() { _ = svc.Close(context.Background()) })
	require.NoError(t, svc.WaitUntilReady(t.Context()))
	for range 10 {
		server.Do(t, "CLIENT", "KILL", "TYPE", "normal")
		a, err := svc.Acquire(t.Context(), writes([]string{"x"}))
		require.NoError(t, err)
		require.NoError(t, a.Release(t.Context()))
	}
}
