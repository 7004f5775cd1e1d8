package lockservice_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
)

// services opens n services that share locks, on a server of the test's own.
func services(t *testing.T, server *redistest.Server, url string, n int, opts ...lockservice.Option) []*lockservice.RedisLockService {
	t.Helper()
	opts = append([]lockservice.Option{lockservice.WithLeaseTime(2 * time.Second), lockservice.WithKeyPrefix("deadlocks")}, opts...)
	out := make([]*lockservice.RedisLockService, n)
	for i := range out {
		svc, err := lockservice.Open(t.Context(), url, opts...)
		require.NoError(t, err)
		t.Cleanup(func() {
			// A test that has failed may have left locks held.
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = svc.Close(ctx)
		})
		require.NoError(t, svc.WaitUntilReady(t.Context()))
		out[i] = svc
	}
	return out
}

// crossing makes two services hold a name each and ask for the other's. It
// returns the errors of the two inner calls, and how long the first took.
func crossing(t *testing.T, a, b *lockservice.RedisLockService, timeout time.Duration, tag string) (errs [2]error, took time.Duration) {
	t.Helper()
	names := []string{tag + "-a", tag + "-b"}
	var both, done sync.WaitGroup
	both.Add(2)
	var first atomic.Int64
	began := time.Now()
	for i, svc := range []*lockservice.RedisLockService{a, b} {
		done.Go(func() {
			_, err := svc.TryWriteLock(t.Context(), names[i:i+1], func(ctx context.Context, _ lockservice.HasLock) error {
				both.Done()
				both.Wait()
				acquired, err := svc.TryWriteLock(ctx, names[1-i:2-i], func(context.Context, lockservice.HasLock) error { return nil }, lockservice.WithTimeout(timeout))
				if err == nil && !acquired {
					err = errTimeout
				}
				if errors.Is(err, lockservice.ErrDeadlock) {
					first.CompareAndSwap(0, int64(time.Since(began)))
				}
				return err
			}, lockservice.WithTimeout(time.Minute))
			errs[i] = err
		})
	}
	done.Wait()
	return errs, time.Duration(first.Load())
}

var errTimeout = errors.New("the inner lock was not to be had in time")

func victims(errs [2]error) int {
	n := 0
	for _, err := range errs {
		if errors.Is(err, lockservice.ErrDeadlock) {
			n++
		}
	}
	return n
}

func TestDeadlockErrorTellsItsStory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	svcs := services(t, server, server.URL(), 2, lockservice.WithOwner("worker \"x\"\n"))
	errs, _ := crossing(t, svcs[0], svcs[1], time.Minute, "story")
	require.Equal(t, 1, victims(errs))
	var dead *lockservice.DeadlockError
	require.ErrorAs(t, errors.Join(errs[0], errs[1]), &dead)
	require.Len(t, dead.Cycle, 2)
	for i, p := range dead.Cycle {
		next := dead.Cycle[1-i]
		require.Equal(t, p.Holds, next.Wants, "each holds what the other wants")
		require.WithinDuration(t, time.Now(), p.WaitingSince, time.Minute)
		require.Contains(t, p.Site, "deadlock_redis_test.go")
		require.Contains(t, dead.Error(), p.Node)
		require.Contains(t, dead.Error(), p.Holds[0].Name())
	}
	require.Equal(t, 1, strings.Count(dead.Error(), "\n* "), "the victim is marked: %s", dead)
}

// The subscription is cut again and again; what a node can't hear it fetches.
func TestDeadlockIsFoundWhileSubscriptionsAreKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	svcs := services(t, server, server.URL(), 2, lockservice.WithPollDelay(time.Second))
	stop := make(chan struct{})
	var killer sync.WaitGroup
	killer.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			}
		}
	})
	for n := range 5 {
		errs, took := crossing(t, svcs[0], svcs[1], 30*time.Second, fmt.Sprint("killed-", n))
		require.Equal(t, 1, victims(errs), "%v", errs)
		t.Logf("found after %v; the poll delay is 1s", took.Round(time.Millisecond))
	}
	close(stop)
	killer.Wait()
}

func TestDeadlockIsFoundThoughTheChannelIsDenied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "ACL", "SETUSER", "locker", "on", ">pw", "~*", "&*", "+@all")
	seen, logs := observer.New(zap.WarnLevel)
	svcs := services(t, server, "redis://locker:pw@"+server.Addr()+"/0", 2, lockservice.WithPollDelay(time.Second),
		lockservice.WithLogger(zap.New(seen)))
	server.Do(t, "ACL", "SETUSER", "locker", "resetchannels", "&{deadlocks}:wake:*")
	server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	errs, took := crossing(t, svcs[0], svcs[1], 30*time.Second, "denied")
	require.Equal(t, 1, victims(errs), "%v", errs)
	t.Logf("found after %v; the poll delay is 1s", took.Round(time.Millisecond))
	slower := logs.FilterMessageSnippet("deadlocks with other nodes are found later").Len()
	require.Equal(t, 2, slower, "once for each service")
}

// A victim whose time is up in the same moment gets one of the two answers, and
// the other party goes on either way.
func TestVictimThatTimesOutInTheSameMomentLeavesNobodyStuck(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	svcs := services(t, server, server.URL(), 2)
	for n := range 30 {
		errs, _ := crossing(t, svcs[0], svcs[1], time.Duration(5+n)*time.Millisecond, fmt.Sprint("moment-", n))
		require.LessOrEqual(t, victims(errs), 1, "%v", errs)
		for _, err := range errs {
			if err != nil {
				require.True(t, errors.Is(err, lockservice.ErrDeadlock) || errors.Is(err, errTimeout), "%v", err)
			}
		}
	}
}

// The victim's process dies before it can give up: its lease ends, and the
// other goes on.
func TestDeathOfTheVictimsProcessFreesTheOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	prefix := redistest.Prefix(t)
	a, b := startWorker(t, server.URL(), prefix), startWorker(t, server.URL(), prefix)
	awaitUptime(t, a)
	for _, p := range []struct {
		w    *worker
		name string
	}{{a, "x"}, {b, "y"}} {
		e := within(t, p.w.lock(t, workerCommand{ID: p.name, Write: []string{p.name}, Timeout: time.Minute}), time.Minute, "outer")
		require.True(t, e.Granted, e.Err)
	}
	got := a.lock(t, workerCommand{ID: "inner", Parent: "x", Write: []string{"y"}, Timeout: time.Minute})
	require.NoError(t, b.in.Encode(workerCommand{Do: "lock", ID: "doomed", Parent: "y", Write: []string{"x"}, Timeout: time.Minute}))
	require.NoError(t, b.cmd.Process.Kill())
	e := within(t, got, time.Minute, "the survivor")
	require.True(t, e.Granted || e.Deadlock, e.Err)
}

// Whoever may publish on the channel can say what he likes: without the records
// saying the same, nobody becomes a victim.
func TestForgedMessagesHurtNobody(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	svcs := services(t, server, server.URL(), 2, lockservice.WithPollDelay(200*time.Millisecond))
	held, err := svcs[0].Acquire(t.Context(), []lockservice.Lock{lockservice.WriteLock("forged-a")})
	require.NoError(t, err)
	outer, err := svcs[1].Acquire(t.Context(), []lockservice.Lock{lockservice.WriteLock("forged-b")})
	require.NoError(t, err)
	infos, err := svcs[0].GetLockInfo(t.Context(), []string{"forged-a", "forged-b"})
	require.NoError(t, err)
	result := make(chan error, 1)
	go func() {
		a, err := svcs[1].Acquire(outer.Context(), []lockservice.Lock{lockservice.WriteLock("forged-a")}, lockservice.WithTimeout(time.Minute))
		if err == nil {
			err = a.Release(context.Background())
		}
		result <- err
	}()
	// The holder of forged-a is said to wait for forged-b; it doesn't.
	for seq := 1; seq <= 40; seq++ {
		server.Do(t, "PUBLISH", "{deadlocks}:waiting", forgedWait(t, infos[0].WriteOwner, seq))
		server.Do(t, "PUBLISH", "{deadlocks}:waiting", strings.Repeat("x", 64<<10))
		server.Do(t, "PUBLISH", "{deadlocks}:waiting", `{"v":1,"node":`)
		time.Sleep(25 * time.Millisecond) // poll: time for the forged messages to do harm
	}
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, <-result, "the wait must end with the lock, not as a victim")
	require.NoError(t, outer.Release(t.Context()))
}

func forgedWait(t *testing.T, holder *lockservice.LockHolding, seq int) string {
	t.Helper()
	msg := map[string]any{"v": 1, "node": holder.Node, "inc": 1, "seq": seq, "kind": "full", "part": 0, "parts": 1,
		"put": []any{map[string]any{"id": "forged", "owner": "x", "since": 1,
			"holds": []any{map[string]any{"n": "forged-a", "w": true, "id": holder.ID}},
			"wants": []any{map[string]any{"n": "forged-b", "w": true}}}}}
	data, err := json.Marshal(msg)
	require.NoError(t, err)
	return string(data)
}
