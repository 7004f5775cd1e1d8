package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redislockservice/redislockservice/lockservice"
)

// errSkipped tells gocron that another instance runs the job.
var errSkipped = errors.New("another instance runs it")

// errPanicked is what is recorded of a run whose task never returned.
var errPanicked = errors.New("the task panicked")

// locker makes gocron run each job on one instance per tick: a gocron.Locker on
// Execute. gocron asks it for a lock, runs the job, and unlocks, whereas Execute
// runs a task. So the task of Execute waits, on a goroutine of its own, until gocron
// unlocks.
//
// gocron gives the job its own context, which knows nothing of the lock. Jobs that
// are wrapped by task get the one of Execute instead. It ends when the lock is lost,
// and also when gocron's does: at the shutdown of the scheduler.
//
// gocron calls Unlock with the job's context, which is done after a shutdown. That
// does no harm: Execute's release has time of its own.
type locker struct {
	svc             *lockservice.RedisLockService
	atMost, atLeast time.Duration

	mu   sync.Mutex // guards the field below
	runs map[string]*run
}

var _ gocron.Locker = (*locker)(nil)

func newLocker(svc *lockservice.RedisLockService, atMost, atLeast time.Duration) *locker {
	return &locker{svc: svc, atMost: atMost, atLeast: atLeast, runs: make(map[string]*run)}
}

// run is one run of a job under its lock.
type run struct {
	ctx    context.Context // of the run; set before started is closed
	result error           // of the job; written before over is closed

	started chan struct{} // closed when the lock is held
	over    chan struct{} // closed by Unlock
	ended   chan error    // what Execute has returned; one element
}

// Lock is called by gocron for each tick of a job, with the job's name.
func (l *locker) Lock(ctx context.Context, name string) (gocron.Lock, error) {
	r := &run{result: errPanicked, started: make(chan struct{}), over: make(chan struct{}), ended: make(chan error, 1)}
	go func() {
		_, err := l.svc.Execute(ctx, name, l.atMost, l.atLeast, func(ctx context.Context) error {
			r.ctx = ctx
			close(r.started)
			<-r.over
			return r.result
		}, lockservice.WithKeepLockData())
		r.ended <- err
	}()
	select {
	case <-r.started:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.runs[name] = r
		return r, nil
	case err := <-r.ended:
		if err == nil {
			err = errSkipped
		}
		return nil, err
	}
}

// Unlock is called by gocron when the job has returned.
func (r *run) Unlock(context.Context) error {
	close(r.over)
	return <-r.ended
}

// task wraps the function of the job with that name.
func (l *locker) task(name string, fn func(ctx context.Context) error) gocron.Task {
	return gocron.NewTask(func() error {
		l.mu.Lock()
		r := l.runs[name]
		l.mu.Unlock()
		r.result = fn(r.ctx)
		return r.result
	})
}
