// Command nightlyjob tells how a scheduled job runs once per tick: three instances
// of a service tick, each a little later than the one before; one of them crashes in
// the middle of a run; and the record of the job's lock says what happened.
//
// Run it with go run ./nightlyjob.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
	"github.com/redislockservice/redislockservice/lockservice"
)

// A real job has minutes and hours here. atMost is far above what the job takes, and
// below the time between two ticks, so that a crash costs one run. atLeast is above
// the skew of the instances' clocks.
const (
	jobName = "nightly-report"
	atMost  = 2 * time.Second
	atLeast = time.Second
	skew    = 50 * time.Millisecond
	takes   = 5 * time.Millisecond
)

func main() { redisenv.Main(tell) }

func tell(ctx context.Context, redis *redisenv.Redis, story *redisenv.Story) error {
	n := &nights{story: story}
	for _, owner := range []string{"worker-1", "worker-2", "worker-3"} {
		svc, _, err := redis.Service(ctx, owner)
		if err != nil {
			return err
		}
		n.instances = append(n.instances, &instance{name: owner, svc: svc})
	}
	for _, night := range []struct {
		title string
		crash bool
		pause time.Duration // until the audit
	}{
		{"Monday.", false, atLeast},
		{"Tuesday. Whoever wins will crash in the middle of its run.", true, atMost},
		{"Wednesday.", false, atLeast},
	} {
		story.Say("%s", night.title)
		n.tick(ctx, night.crash)
		if err := redisenv.Pause(ctx, night.pause); err != nil {
			return err
		}
		if err := n.audit(ctx); err != nil {
			return err
		}
	}
	return nil
}

type instance struct {
	name    string
	svc     *lockservice.RedisLockService
	crashed bool
}

type nights struct {
	story     *redisenv.Story
	instances []*instance
}

// tick has each instance call Execute, as its scheduler would.
func (n *nights) tick(ctx context.Context, crash bool) {
	var wg sync.WaitGroup
	for i, in := range n.instances {
		if in.crashed {
			n.story.Say("  %s is down", in.name)
			continue
		}
		wg.Go(func() {
			if redisenv.Pause(ctx, time.Duration(i)*skew) == nil {
				n.execute(ctx, in, crash)
			}
		})
	}
	wg.Wait()
}

func (n *nights) execute(ctx context.Context, in *instance, crash bool) {
	accounts, ran, err := lockservice.ExecuteWithResult(ctx, in.svc, jobName, atMost, atLeast,
		func(ctx context.Context) (int, error) {
			if crash {
				return 0, in.crash(ctx)
			}
			// A real job also looks at its context, which ends with the lock.
			if err := redisenv.Pause(ctx, takes); err != nil {
				return 0, err
			}
			return 3, nil
		}, lockservice.WithKeepLockData())
	switch {
	case !ran:
		n.story.Say("  %s skips (error: %v)", in.name, err)
	case err != nil:
		n.story.Say("  %s dies", in.name)
	default:
		n.story.Say("  %s runs the job: %d accounts", in.name, accounts)
	}
}

// crash plays the end of a process: nothing is released.
func (in *instance) crash(ctx context.Context) error {
	in.crashed = true
	at, cancel := context.WithCancel(ctx)
	cancel()
	return errors.Join(errors.New("crashed"), in.svc.Close(at))
}

// audit is what an operator asks in the morning.
func (n *nights) audit(ctx context.Context) error {
	for _, in := range n.instances {
		if in.crashed {
			continue
		}
		infos, err := in.svc.GetLockInfo(ctx, []string{jobName})
		if err != nil || len(infos) != 1 || infos[0].WriteOwner == nil {
			return errors.Join(errors.New("the job has left no record"), err)
		}
		info := infos[0]
		n.story.Say("  audit, last run:     %s", info.WriteOwner.Report(info.ReadAt()))
		if info.LastSuccess != nil {
			n.story.Say("  audit, last success: %s", info.LastSuccess.Report(info.ReadAt()))
		}
		return nil
	}
	return errors.New("all instances have crashed")
}
