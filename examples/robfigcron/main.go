// Command robfigcron tells how jobs of github.com/robfig/cron run once per tick over
// several instances, and how a shutdown ends a run and releases its lock.
//
// Run it with go run ./robfigcron.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
	"github.com/redislockservice/redislockservice/lockservice"
)

const (
	every   = 400 * time.Millisecond
	atMost  = 10 * time.Second
	atLeast = 300 * time.Millisecond
)

func main() { redisenv.Main(tell) }

// instance is one process: a lock service and a scheduler.
//
// A job of robfig/cron has no context. So the instance has one: it ends with the
// shutdown, and Execute derives from it what each run gets.
type instance struct {
	svc   *lockservice.RedisLockService
	cron  *cron.Cron
	ctx   context.Context
	stop  context.CancelFunc
	story *redisenv.Story
}

// once makes a job that runs on one instance per tick.
func (in *instance) once(name string, task func(ctx context.Context) error) cron.Job {
	return cron.FuncJob(func() {
		_, err := in.svc.Execute(in.ctx, name, atMost, atLeast, task, lockservice.WithKeepLockData())
		if err != nil {
			in.story.Say("  %s: %v", name, err)
		}
	})
}

// tick is a schedule for an impatient reader; a real one comes from cron.ParseStandard
// or AddJob("0 1 * * *", …).
type tick time.Duration

// Next is the next multiple, so that all instances tick together.
func (t tick) Next(now time.Time) time.Time {
	return now.Truncate(time.Duration(t)).Add(time.Duration(t))
}

func start(ctx context.Context, redis *redisenv.Redis, story *redisenv.Story, owner string) (*instance, error) {
	svc, _, err := redis.Service(ctx, owner)
	if err != nil {
		return nil, err
	}
	in := &instance{svc: svc, cron: cron.New(), story: story}
	in.ctx, in.stop = context.WithCancel(ctx)
	in.cron.Start()
	return in, nil
}

// shutdown ends in this order: no new ticks, word to the runs, their end, the service.
func (in *instance) shutdown(ctx context.Context) error {
	running := in.cron.Stop()
	in.stop()
	<-running.Done()
	return in.svc.Close(ctx)
}

func tell(ctx context.Context, redis *redisenv.Redis, story *redisenv.Story) error {
	var instances []*instance
	defer func() {
		for _, in := range instances {
			_ = in.shutdown(context.WithoutCancel(ctx)) // again, for one of them
		}
	}()
	for i := range 3 {
		in, err := start(ctx, redis, story, fmt.Sprint("worker-", i+1))
		if err != nil {
			return err
		}
		instances = append(instances, in)
	}
	shortJobs(story, instances)
	return handOver(ctx, story, instances)
}

func shortJobs(story *redisenv.Story, instances []*instance) {
	story.Say("Three instances tick at the same time.")
	ran := make(chan string, 100)
	for i, in := range instances {
		in.cron.Schedule(tick(every), in.once("report", func(context.Context) error {
			ran <- fmt.Sprint("worker-", i+1)
			return nil
		}))
	}
	for i := range 4 {
		story.Say("  tick %d: %s runs the job", i+1, <-ran)
	}
}

// handOver shuts down the instance that runs a long job: the next tick of another
// one gets it, and doesn't wait for atMost.
func handOver(ctx context.Context, story *redisenv.Story, instances []*instance) error {
	story.Say("An instance is shut down while its job runs.")
	runs := make(chan *instance, 100)
	for _, in := range instances {
		in.cron.Schedule(tick(every), in.once("long", func(ctx context.Context) error {
			runs <- in
			<-ctx.Done()
			return nil
		}))
	}
	first := <-runs
	if err := first.shutdown(ctx); err != nil {
		return err
	}
	select {
	case next := <-runs:
		story.Say("  another instance runs it next: %v", next != first)
		return nil
	case <-time.After(atMost / 2):
		return errors.New("the lock was not released by the shutdown")
	}
}
