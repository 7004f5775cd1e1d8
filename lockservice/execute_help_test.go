package lockservice_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/lockservice"
)

type service = *lockservice.RedisLockService

// job is the lock that most tests here are about.
const job = "nightly-report"

func done(context.Context) error { return nil }

// ticks says whether a tick of the job runs, and does so at once.
func ticks(t testing.TB, svc service, atMost, atLeast time.Duration, opts ...lockservice.LockOption) bool {
	t.Helper()
	ran, err := svc.Execute(t.Context(), job, atMost, atLeast, done, opts...)
	require.NoError(t, err)
	return ran
}

// run is a run of the job on a goroutine of its own.
type run struct {
	t     testing.TB
	ctx   context.Context // of the task
	token int64
	end   chan error    // what the task is to return; one element
	done  chan struct{} // closed when the two below are set
	ran   bool
	err   error
}

// starts runs the job until finish is called, whatever becomes of its context.
func starts(t testing.TB, ctx context.Context, svc service, atMost, atLeast time.Duration, opts ...lockservice.LockOption) *run {
	t.Helper()
	r := &run{t: t, end: make(chan error, 1), done: make(chan struct{})}
	began := make(chan struct{})
	go func() {
		defer close(r.done)
		r.ran, r.err = svc.Execute(ctx, job, atMost, atLeast, func(ctx context.Context) error {
			r.ctx = ctx
			r.token, _ = lockservice.FencingToken(ctx, job)
			close(began)
			return <-r.end
		}, opts...)
	}()
	select {
	case <-began:
	case <-r.done:
		require.FailNow(t, "the job did not start", "ran %v, error %v", r.ran, r.err)
	}
	return r
}

// finish has the task return err, and waits for Execute.
func (r *run) finish(err error) error {
	r.end <- err
	<-r.done
	require.True(r.t, r.ran)
	return r.err
}

// lost says that the context of the task has ended, and why.
func (r *run) lost() bool {
	synctest.Wait()
	if r.ctx.Err() == nil {
		return false
	}
	require.ErrorIs(r.t, context.Cause(r.ctx), lockservice.ErrLockLost)
	_, held := lockservice.FencingToken(r.ctx, job)
	require.False(r.t, held, "who has lost the lock has no token any more")
	return true
}

// infoOf is the record of the job.
func infoOf(t testing.TB, svc service) lockservice.LockInfo {
	t.Helper()
	infos, err := svc.GetLockInfo(t.Context(), []string{job})
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.NotNil(t, infos[0].WriteOwner)
	return infos[0]
}

// stateOf is how the last run of the job stands.
func stateOf(t testing.TB, svc service) lockservice.HoldingState {
	t.Helper()
	info := infoOf(t, svc)
	return info.WriteOwner.State(info.ReadAt())
}

// crash ends an instance: it works no more, and releases nothing.
func crash(e *locktest.Env, svc service) { e.Close(svc) }

// newQuietService makes a service whose client doesn't ping its idle connections
// each second: a day of that takes its time, even on a fake clock.
func newQuietService(e *locktest.Env, opts ...lockservice.Option) service {
	e.T.Helper()
	return e.NewServiceOn(e.ClientWith(func(o *rueidis.ClientOption) {
		o.Dialer.KeepAlive, o.ConnWriteTimeout = 1000*time.Hour, 10*time.Second
		o.ReadBufferEachConn, o.WriteBufferEachConn, o.RingScaleEachConn = 16<<10, 16<<10, 6
	}), opts...)
}
