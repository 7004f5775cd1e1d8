package lockservice_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/lockservice"
	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

func TestExecuteRestartThatLosesTheRecordEndsTheRunBeforeTheNextMayStart(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		r := starts(t, t.Context(), a, 24*time.Hour, 0)
		e.Pass(100 * time.Second)
		e.Restart(false)
		restarted := time.Now()
		require.False(t, ticks(t, b, time.Minute, 0), "the hold-off")
		e.Pass(e.Lease/2 + time.Second)
		require.True(t, r.lost(), "the watch has seen it")
		e.Pass(time.Until(restarted.Add(e.Lease)))
		require.False(t, ticks(t, b, time.Minute, 0), "the hold-off is a lease, and a second for the uptime's resolution")
		e.Pass(2 * time.Second)
		require.True(t, ticks(t, b, time.Minute, 0), "and not atMost")
		require.ErrorIs(t, r.finish(nil), lockservice.ErrLockLost)
	})
}

func TestExecuteRestartThatKeepsTheRecordEndsTheRun(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a := e.NewService()
		r := starts(t, t.Context(), a, time.Hour, 0)
		e.Pass(100 * time.Second)
		e.Restart(true)
		e.Pass(e.Lease/2 + time.Second)
		require.True(t, r.lost())
		require.ErrorIs(t, r.finish(nil), lockservice.ErrLockLost)
		require.Equal(t, lockservice.HoldingLost, stateOf(t, a))
	})
}

func TestExecuteRecordThatIsGoneOrAnothersEndsTheRun(t *testing.T) {
	t.Parallel()
	for what, harm := range map[string]func(e *locktest.Env){
		"deleted": func(e *locktest.Env) { e.Do("DEL", e.Key(job)) },
		"another's": func(e *locktest.Env) {
			e.EditRecord(job, func(rec map[string]any) { rec["writeOwner"].(map[string]any)["id"] = "somebody" })
		},
		"not a record": func(e *locktest.Env) { e.Do("SET", e.Key(job), "42") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
				r := starts(t, t.Context(), e.NewService(), time.Hour, 0)
				harm(e)
				before := e.Get(e.Key(job))
				e.Pass(e.Lease / 2)
				require.True(t, r.lost())
				require.ErrorIs(t, r.finish(nil), lockservice.ErrLockLost)
				require.Equal(t, before, e.Get(e.Key(job)), "what is not its own is not touched")
			})
		})
	}
}

func TestExecuteShortOutageDoesNotDisturbTheRun(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		r := starts(t, t.Context(), svc, time.Hour, 0)
		for range 3 {
			e.Pass(time.Minute)
			e.Cut()
			e.Pass(20 * time.Second)
			e.Heal()
			e.Pass(time.Minute)
			require.False(t, r.lost())
		}
		require.NoError(t, r.finish(nil))
		require.Equal(t, lockservice.HoldingOK, stateOf(t, svc))
	})
}

// A run that is cut off for a lease can't know whether the server has lost its record
// meanwhile and another instance, after a hold-off of a lease, was let in.
func TestExecuteCutOffRunEndsAfterALeaseAndKeepsOthersOutUntilAtMost(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		began := time.Now()
		r := starts(t, t.Context(), a, 10*time.Minute, 0)
		e.Pass(2 * time.Minute)
		e.Cut()
		e.Pass(e.Lease / 4)
		require.False(t, r.lost())
		e.Pass(3 * e.Lease / 4)
		require.True(t, r.lost())
		ran, err := b.Execute(t.Context(), job, time.Minute, 0, done)
		require.False(t, ran)
		require.ErrorIs(t, err, lockservice.ErrUnavailable, "out of reach is not the same as held")
		e.Heal()
		require.False(t, ticks(t, b, time.Minute, 0), "the record stands")
		e.Pass(time.Until(began.Add(10*time.Minute - time.Millisecond)))
		require.False(t, ticks(t, b, time.Minute, 0))
		e.Pass(time.Millisecond)
		require.True(t, ticks(t, b, time.Minute, 0))
		require.ErrorIs(t, r.finish(nil), lockservice.ErrLockLost)
	})
}

// The release could not be written for a while: it goes on in the background, also
// beyond a lease, since the lock would be kept until atMost.
func TestExecuteReleaseDuringAnOutageIsMadeUpFor(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		r := starts(t, t.Context(), a, time.Hour, 0)
		e.Pass(time.Minute)
		e.Cut()
		require.NoError(t, r.finish(nil), "a failed release doesn't change the result")
		e.Pass(3 * time.Minute)
		e.Heal()
		e.Pass(5 * time.Second)
		require.True(t, ticks(t, b, time.Minute, 0))
	})
}

// A lost reply to the grant: the task runs once, under one token.
func TestExecuteLostReplyRunsTheTaskOnce(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		a, b := e.NewService(), e.NewService()
		e.LoseReplyTo("EXEC")
		r := starts(t, t.Context(), a, time.Minute, 0)
		require.False(t, ticks(t, b, time.Minute, 0))
		require.Equal(t, r.token, infoOf(t, b).FencingToken)
		e.LoseReplyTo("EXEC")
		require.NoError(t, r.finish(nil))
		require.True(t, ticks(t, b, time.Minute, 0))
	})
}

// lastWriter plays the schedule that breaks naive fencing, on a storage that refuses
// older tokens: A acquires and is paused past its lease, B acquires and writes, A
// resumes and writes. token is what a holder brings along when it writes. Who is in
// the storage in the end?
func lastWriter(t *testing.T, e *locktest.Env, token func(r *run) int64) (last string, errOfA error) {
	t.Helper()
	var guard fencing.Highest
	write := func(who string, r *run) error {
		if err := guard.Check(token(r)); err != nil {
			return err
		}
		last = who
		return nil
	}
	a := starts(t, t.Context(), e.NewService(), time.Minute, 0)
	e.Pass(time.Minute)
	b := starts(t, t.Context(), e.NewService(), time.Minute, 0)
	require.NoError(t, write("B", b))
	errOfA = write("A", a)
	_, held := lockservice.FencingToken(a.ctx, job)
	require.False(t, held, "asked now, the lock gives A no token")
	require.Less(t, a.token, b.token)
	require.NoError(t, b.finish(nil))
	require.ErrorIs(t, a.finish(nil), lockservice.ErrLockLost)
	return last, errOfA
}

func TestExecuteResumedHolderHasTheOlderTokenAndItsWriteIsRefused(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		last, err := lastWriter(t, e, func(r *run) int64 { return r.token })
		require.ErrorIs(t, err, fencing.ErrStaleToken)
		require.Equal(t, "B", last)
	})
}

// The positive controls of the test above: a token that is made when it is asked for
// is the newest, whoever asks; and one that is the same for all guards nothing.
func TestExecuteResumedHolderOverwritesTheNextWithoutItsOwnToken(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		for _, naive := range []func(*run) int64{
			func(*run) int64 {
				reply := e.Do("INCR", "counter")
				token, err := reply.AsInt64()
				require.NoError(t, err)
				return token
			},
			func(*run) int64 { return 1 },
		} {
			last, err := lastWriter(t, e, naive)
			require.NoError(t, err)
			require.Equal(t, "A", last, "B's update is lost")
		}
	})
}

func TestExecuteTokensRiseOverRunsCrashesAndLostData(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		var last int64
		next := func(svc service) {
			r := starts(t, t.Context(), svc, time.Minute, 0)
			require.Greater(t, r.token, last)
			last = r.token
			require.NoError(t, r.finish(nil))
		}
		svc := e.NewService()
		next(svc)
		next(svc)
		crashed := e.NewService()
		r := starts(t, t.Context(), crashed, time.Minute, 0)
		crash(e, crashed)
		_ = r.finish(nil)
		e.Pass(time.Minute)
		next(svc)
		for _, keepData := range []bool{true, false} {
			e.Restart(keepData)
			require.NoError(t, svc.WaitUntilReady(t.Context()))
			next(svc)
		}
		e.Do("FLUSHALL")
		require.NoError(t, svc.WaitUntilReady(t.Context()))
		next(svc)
		ran, err := svc.Execute(t.Context(), job, time.Minute, 0, func(ctx context.Context) error {
			token, held := lockservice.FencingToken(ctx, job)
			require.True(t, held)
			require.Greater(t, token, last)
			return nil
		})
		require.NoError(t, err)
		require.True(t, ran)
	})
}
