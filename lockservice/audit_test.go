package lockservice_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/lockservice"
)

func TestAuditTellsWhoRanWhenAndHowItEnded(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := newQuietService(e, lockservice.WithOwner("worker-3:4711"))
		keep := lockservice.WithKeepLockData()
		began := time.Now()
		r := starts(t, t.Context(), svc, time.Hour, 0, keep)
		e.Pass(90 * time.Second)
		info := infoOf(t, svc)
		require.Equal(t, lockservice.HoldingRunning, info.WriteOwner.State(info.ReadAt()))
		require.Equal(t, 90*time.Second, info.WriteOwner.Duration(info.ReadAt()))
		require.Nil(t, info.LastSuccess)

		require.NoError(t, r.finish(nil))
		e.Pass(6 * time.Hour) // the operator looks in the morning
		info = infoOf(t, svc)
		run := info.WriteOwner
		require.Equal(t, "worker-3:4711", run.Owner)
		require.NotEmpty(t, run.Node)
		require.Equal(t, r.token, run.FencingToken)
		require.True(t, began.Equal(run.AcquiredAt()))
		require.True(t, began.Add(90*time.Second).Equal(run.ReleasedAt()))
		require.Equal(t, 90*time.Second, run.Duration(info.ReadAt()))
		require.Equal(t, lockservice.HoldingOK, run.State(info.ReadAt()))
		require.Equal(t, run, info.LastSuccess)
	})
}

func TestAuditRemembersTheLastSuccessOverFailuresAndCrashes(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc, keep := e.NewService(), lockservice.WithKeepLockData()
		good := starts(t, t.Context(), svc, time.Minute, 0, keep)
		require.NoError(t, good.finish(nil))
		bad := starts(t, t.Context(), svc, time.Minute, 0, keep)
		require.Error(t, bad.finish(errors.New("secret")))
		info := infoOf(t, svc)
		require.Equal(t, lockservice.HoldingError, info.WriteOwner.State(info.ReadAt()))
		require.Empty(t, info.WriteOwner.Error, "an error's text is kept only if that is asked for")
		require.Equal(t, good.token, info.LastSuccess.FencingToken)

		crashed := e.NewService()
		dead := starts(t, t.Context(), crashed, time.Minute, 0, keep)
		e.Pass(time.Second)
		crash(e, crashed)
		_ = dead.finish(nil)
		require.Equal(t, lockservice.HoldingRunning, stateOf(t, svc), "nobody knows better before the lease ends")
		e.Pass(10 * time.Minute)
		info = infoOf(t, svc)
		require.Equal(t, lockservice.HoldingCrashed, info.WriteOwner.State(info.ReadAt()))
		require.Equal(t, time.Minute, info.WriteOwner.Duration(info.ReadAt()))
		require.Equal(t, dead.token, info.WriteOwner.FencingToken)
		require.Equal(t, good.token, info.LastSuccess.FencingToken)
	})
}

func TestAuditOfALockKeptForAtLeastSaysHowItsCodeEnded(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		began := time.Now()
		require.True(t, ticks(t, svc, time.Hour, time.Minute))
		e.Pass(time.Second)
		info := infoOf(t, svc)
		require.Equal(t, lockservice.HoldingOK, info.WriteOwner.State(info.ReadAt()))
		require.Zero(t, info.WriteOwner.Duration(info.ReadAt()))
		require.True(t, began.Add(time.Minute).Equal(info.WriteOwner.KeptUntil(info.ReadAt())))
		require.Zero(t, info.WriteOwner.KeptUntil(info.ReadAt().Add(time.Minute)))
	})
}

func TestAuditOfOrdinaryLocksIsTheSame(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		_, err := svc.TryReadLock(t.Context(), []string{job}, func(context.Context, lockservice.HasLock) error {
			e.Pass(time.Second)
			return errors.New("no")
		}, lockservice.WithKeepLockData())
		require.Error(t, err)
		infos, err := svc.GetLockInfo(t.Context(), []string{job})
		require.NoError(t, err)
		reader := infos[0].ReadOwners[0]
		require.Equal(t, lockservice.HoldingError, reader.State(infos[0].ReadAt()))
		require.Equal(t, time.Second, reader.Duration(infos[0].ReadAt()))
	})
}

func TestAuditStatesAreJudgedByTheGivenTimeOnly(t *testing.T) {
	t.Parallel()
	ms := func(v int64) *int64 { return &v }
	acquired, until := int64(1_000_000), ms(1_060_000)
	for _, c := range []struct {
		name    string
		holding lockservice.LockHolding
		at      int64
		want    lockservice.HoldingState
		ran     time.Duration
	}{
		{"at its start", lockservice.LockHolding{ExpiresAtEpochMillis: until}, 1_000_000, lockservice.HoldingRunning, 0},
		{"before its end", lockservice.LockHolding{ExpiresAtEpochMillis: until}, 1_059_999, lockservice.HoldingRunning, 59_999 * time.Millisecond},
		{"at its end", lockservice.LockHolding{ExpiresAtEpochMillis: until}, 1_060_000, lockservice.HoldingCrashed, time.Minute},
		{"released", lockservice.LockHolding{ReleasedAtEpochMillis: ms(1_002_000), Outcome: "lost"}, 9_000_000, lockservice.HoldingLost, 2 * time.Second},
		{"released, kept", lockservice.LockHolding{ExpiresAtEpochMillis: until, ReleasedAtEpochMillis: ms(1_002_000), Outcome: "panic"}, 1_003_000, lockservice.HoldingPanic, 2 * time.Second},
		{"the clock went back", lockservice.LockHolding{ExpiresAtEpochMillis: until}, 500_000, lockservice.HoldingRunning, 0},
		{"from a newer version", lockservice.LockHolding{ReleasedAtEpochMillis: ms(1_002_000), Outcome: "skipped"}, 9_000_000, "skipped", 2 * time.Second},
		{"neither held nor released", lockservice.LockHolding{}, 1_001_000, lockservice.HoldingCrashed, time.Second},
	} {
		c.holding.AcquiredAtEpochMillis = acquired
		require.Equal(t, c.want, c.holding.State(time.UnixMilli(c.at)), c.name)
		require.Equal(t, c.ran, c.holding.Duration(time.UnixMilli(c.at)), c.name)
	}
}

func TestAuditReportIsOneLineThatSaysItAll(t *testing.T) {
	t.Parallel()
	at, until, released := time.Date(2026, 3, 15, 0, 5, 0, 0, time.UTC), int64(0), int64(0)
	until, released = at.Add(time.Minute).UnixMilli(), at.Add(5*time.Millisecond).UnixMilli()
	h := lockservice.LockHolding{Owner: "worker-3:4711", AcquiredAtEpochMillis: at.UnixMilli(), ExpiresAtEpochMillis: &until,
		ReleasedAtEpochMillis: &released, Outcome: "error", Error: "no\nfile", FencingToken: 7}
	require.Equal(t, `error by "worker-3:4711" ("no\nfile"), from 2026-03-15 00:05:00 for 5ms, token 7, kept until 2026-03-15 00:06:00`,
		h.Report(at.Add(time.Second)))
	require.NotContains(t, h.Report(at.Add(time.Hour)), "kept")
}

func TestAuditInfoHasTheRecordsNamesInJSON(t *testing.T) {
	t.Parallel()
	locktest.Bubble(t, func(t *testing.T, e *locktest.Env) {
		svc := e.NewService()
		require.True(t, ticks(t, svc, time.Hour, time.Minute, lockservice.WithKeepLockData()))
		data, err := json.Marshal(infoOf(t, svc))
		require.NoError(t, err)
		var shown map[string]any
		require.NoError(t, json.Unmarshal(data, &shown))
		record := e.Record(job)
		for _, name := range []string{"lockName", "writeOwner", "readOwners", "waiting", "keepLockData", "fencingToken", "lastSuccess"} {
			require.Equal(t, record[name], shown[name], name)
		}
	})
}
