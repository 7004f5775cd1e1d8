// Command leader tells how one of several instances leads: whoever holds a lock does,
// for as long as it lives. The lead is handed over when the leader shuts down, at
// once, and when it is cut off, after its lease.
//
// Run it with go run ./leader.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
	"github.com/redislockservice/redislockservice/lockservice"
)

func main() { redisenv.Main(tell) }

// candidate is one instance.
type candidate struct {
	name string
	svc  *lockservice.RedisLockService
	line *redisenv.Line
	quit context.CancelFunc
	done chan struct{} // closed when campaign has returned
}

// campaign stands for election until ctx ends. lead is called when it is elected, and
// must return when its context ends; then somebody else may lead.
func (c *candidate) campaign(ctx context.Context, lead func(ctx context.Context, c *candidate) error) {
	for ctx.Err() == nil {
		_, err := c.svc.TryWriteLock(ctx, []string{"leader"}, func(ctx context.Context, _ lockservice.HasLock) error {
			return lead(ctx, c)
		}, lockservice.WithTimeout(time.Minute))
		if errors.Is(err, lockservice.ErrClosed) {
			return
		}
		if err != nil && ctx.Err() == nil {
			_ = redisenv.Pause(ctx, 100*time.Millisecond) // Redis is out of reach: don't spin
		}
	}
}

// reign is one candidate's time as the leader.
type reign struct {
	leader *candidate
	token  int64
}

type election struct {
	story  *redisenv.Story
	reigns chan reign

	mu      sync.Mutex // guards the field below
	leaders int        // how many lead right now
}

// lead is what the leader does. Everything it writes should go with its token.
func (e *election) lead(ctx context.Context, c *candidate) error {
	if e.count(1) > 1 {
		return errors.New("two leaders at once")
	}
	defer e.count(-1)
	token, _ := lockservice.FencingToken(ctx, "leader")
	e.story.Say("  %s leads", c.name)
	e.reigns <- reign{c, token}
	<-ctx.Done()
	e.story.Say("  %s steps down: %v", c.name, context.Cause(ctx))
	return nil
}

func (e *election) count(change int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaders += change
	return e.leaders
}

func tell(ctx context.Context, redis *redisenv.Redis, story *redisenv.Story) error {
	e := &election{story: story, reigns: make(chan reign, 10)}
	story.Say("Three instances stand for election.")
	var all []*candidate
	defer func() {
		for _, c := range all {
			c.shutdown()
		}
	}()
	for i := range 3 {
		c, err := e.start(ctx, redis, fmt.Sprint("worker-", i+1))
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	first, err := e.next(reign{})
	if err != nil {
		return err
	}
	story.Say("%s is shut down.", first.leader.name)
	first.leader.shutdown()
	second, err := e.next(first)
	if err != nil {
		return err
	}
	story.Say("%s is cut off from Redis.", second.leader.name)
	second.leader.line.Cut()
	_, err = e.next(second)
	return err
}

func (e *election) start(ctx context.Context, redis *redisenv.Redis, name string) (*candidate, error) {
	svc, line, err := redis.Service(ctx, name)
	if err != nil {
		return nil, err
	}
	ctx, quit := context.WithCancel(ctx)
	c := &candidate{name: name, svc: svc, line: line, quit: quit, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.campaign(ctx, e.lead)
	}()
	return c, nil
}

// shutdown ends the lead first, so that it is handed over at once.
func (c *candidate) shutdown() {
	c.quit()
	<-c.done
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.svc.Close(ctx)
}

// next waits for the next reign.
func (e *election) next(last reign) (reign, error) {
	select {
	case r := <-e.reigns:
		if r.token <= last.token || r.leader == last.leader {
			return r, errors.New("the next leader should be another one, with a newer token")
		}
		return r, nil
	case <-time.After(20 * time.Second):
		return reign{}, errors.New("nobody leads")
	}
}
