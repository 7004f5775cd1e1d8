// Command gocron tells how jobs of github.com/go-co-op/gocron run once per tick over
// several instances, how a job hears that its lock is lost, and how the lock is
// released when a scheduler is shut down in the middle of a run.
//
// Run it with go run ./gocron.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
	"github.com/redislockservice/redislockservice/lockservice"
)

const (
	every   = 400 * time.Millisecond
	atMost  = 10 * time.Second
	atLeast = 300 * time.Millisecond
)

func main() { redisenv.Main(tell) }

func tell(ctx context.Context, redis *redisenv.Redis, story *redisenv.Story) error {
	t := &teller{redis: redis, story: story}
	if err := t.shortJobs(ctx); err != nil {
		return err
	}
	if err := t.shutdown(ctx); err != nil {
		return err
	}
	return t.loss(ctx)
}

type teller struct {
	redis *redisenv.Redis
	story *redisenv.Story
}

// instance is one process: a lock service, a scheduler with one job.
type instance struct {
	svc       *lockservice.RedisLockService
	line      *redisenv.Line
	locker    *locker
	scheduler gocron.Scheduler
}

func (t *teller) start(ctx context.Context, owner string) (*instance, error) {
	svc, line, err := t.redis.Service(ctx, owner)
	if err != nil {
		return nil, err
	}
	l := newLocker(svc, atMost, atLeast)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(l))
	if err != nil {
		return nil, err
	}
	scheduler.Start()
	return &instance{svc: svc, line: line, locker: l, scheduler: scheduler}, nil
}

// schedule has a job tick, from a moment on.
func (in *instance) schedule(name string, from gocron.StartAtOption, fn func(ctx context.Context) error) error {
	_, err := in.scheduler.NewJob(gocron.DurationJob(every), in.locker.task(name, fn), gocron.WithName(name), gocron.WithStartAt(from))
	return err
}

// stop shuts down in this order: the jobs end and unlock while the service is there.
func (in *instance) stop(ctx context.Context) error {
	return errors.Join(in.scheduler.Shutdown(), in.svc.Close(ctx))
}

// shortJobs has three instances tick four times.
func (t *teller) shortJobs(ctx context.Context) (err error) {
	t.story.Say("Three instances tick at the same time.")
	var instances []*instance
	defer func() {
		for _, in := range instances {
			err = errors.Join(err, in.stop(context.WithoutCancel(ctx)))
		}
	}()
	for i := range 3 {
		in, err := t.start(ctx, fmt.Sprint("worker-", i+1))
		if err != nil {
			return err
		}
		instances = append(instances, in)
	}
	ran := make(chan string, 100)
	from := gocron.WithStartDateTime(time.Now().Add(2 * every))
	for i, in := range instances {
		err := in.schedule("report", from, func(context.Context) error {
			ran <- fmt.Sprint("worker-", i+1)
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i := range 4 {
		t.story.Say("  tick %d: %s runs the job", i+1, <-ran)
	}
	return nil
}

// shutdown has a scheduler end in the middle of a run: the job is told, and its
// lock is free for others at once and not after atMost.
func (t *teller) shutdown(ctx context.Context) error {
	t.story.Say("A scheduler is shut down while its job runs.")
	in, err := t.start(ctx, "worker-4")
	if err != nil {
		return err
	}
	running := make(chan struct{})
	err = in.schedule("long", gocron.WithStartImmediately(), func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		t.story.Say("  the job is told: %v", context.Cause(ctx))
		return nil
	})
	if err != nil {
		return err
	}
	<-running
	if err := in.scheduler.Shutdown(); err != nil {
		return err
	}
	free, err := in.svc.TryWriteLock(ctx, []string{"long"}, func(context.Context, lockservice.HasLock) error { return nil },
		lockservice.WithTimeout(2*time.Second))
	t.story.Say("  its lock is free again: %v", free)
	return errors.Join(err, in.svc.Close(ctx))
}

// loss has an instance lose its line to Redis: its job ends before anybody else may
// think that the lock is free.
func (t *teller) loss(ctx context.Context) error {
	t.story.Say("An instance is cut off from Redis while its job runs.")
	in, err := t.start(ctx, "worker-5")
	if err != nil {
		return err
	}
	running, told := make(chan struct{}), make(chan error, 1)
	err = in.schedule("cut-off", gocron.WithStartImmediately(), func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		told <- context.Cause(ctx)
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	<-running
	in.line.Cut()
	cause := <-told
	t.story.Say("  the job is told: %v", cause)
	if !errors.Is(cause, lockservice.ErrLockLost) {
		return fmt.Errorf("the job should have been told of the loss: %w", cause)
	}
	closing, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return in.stop(closing)
}
