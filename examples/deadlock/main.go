// Command deadlock tells what happens when two calls wait for each other: a transfer
// from account a to b takes the lock of a and then that of b, and one from b to a the
// other way round. One of the two is told so, and gives up; the other goes on. Then
// the same again, with both locks asked for at once: no deadlock is possible.
//
// Run it with go run ./deadlock.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
	"github.com/redislockservice/redislockservice/lockservice"
)

func main() { redisenv.Main(tell) }

func tell(ctx context.Context, redis *redisenv.Redis, story *redisenv.Story) error {
	var branches []*branch
	for i, name := range []string{"branch-1", "branch-2"} {
		svc, _, err := redis.Service(ctx, name)
		if err != nil {
			return err
		}
		accounts := []string{"account-a", "account-b"}
		branches = append(branches, &branch{name: name, svc: svc, story: story, from: accounts[i], to: accounts[1-i]})
	}
	story.Say("One lock after the other, in opposite orders:")
	if err := oneAfterTheOther(ctx, branches); err != nil {
		return err
	}
	story.Say("Both at once:")
	return each(branches, func(b *branch) error { return b.bothAtOnce(ctx) })
}

// branch transfers money from one account to another.
type branch struct {
	name, from, to string
	svc            *lockservice.RedisLockService
	story          *redisenv.Story
}

// oneAfterTheOther has each branch hold its first lock before any asks for its
// second: the certain deadlock, which in production comes once in a million.
func oneAfterTheOther(ctx context.Context, branches []*branch) error {
	var firstLocks sync.WaitGroup
	firstLocks.Add(len(branches))
	victims := make(chan string, len(branches))
	err := each(branches, func(b *branch) error {
		err := b.transfer(ctx, &firstLocks)
		if errors.Is(err, lockservice.ErrDeadlock) {
			victims <- b.name
			return nil
		}
		return err
	})
	if err == nil && len(victims) != 1 {
		err = fmt.Errorf("%d calls gave up, and not one", len(victims))
	}
	return err
}

func (b *branch) transfer(ctx context.Context, firstLocks *sync.WaitGroup) error {
	waiting := lockservice.WithTimeout(10 * time.Second)
	acquired, err := b.svc.TryWriteLock(ctx, []string{b.from}, func(ctx context.Context, _ lockservice.HasLock) error {
		b.story.Say("  %s holds %s and wants %s", b.name, b.from, b.to)
		firstLocks.Done()
		firstLocks.Wait()
		asked := time.Now()
		acquired, err := b.svc.TryWriteLock(ctx, []string{b.to}, func(context.Context, lockservice.HasLock) error {
			b.story.Say("  %s has both and transfers", b.name)
			return nil
		}, waiting)
		b.report(err, time.Since(asked))
		return orTimedOut(acquired, err)
	}, waiting)
	return orTimedOut(acquired, err)
}

// report tells the deadlock, as the call that has to give up learns it.
func (b *branch) report(err error, after time.Duration) {
	var deadlock *lockservice.DeadlockError
	if !errors.As(err, &deadlock) {
		return
	}
	b.story.Say("  %s gives up after %d ms; as its error goes up, %s is released. The error says:",
		b.name, after.Milliseconds(), b.from)
	for line := range strings.Lines(deadlock.Error()) {
		b.story.Say("    | %s", strings.TrimRight(line, "\n"))
	}
}

// bothAtOnce asks for all that it needs in one call: all or none. Whoever waits
// holds nothing that others need.
func (b *branch) bothAtOnce(ctx context.Context) error {
	acquired, err := b.svc.TryWriteLock(ctx, []string{b.from, b.to}, func(context.Context, lockservice.HasLock) error {
		b.story.Say("  %s has both and transfers", b.name)
		return nil
	}, lockservice.WithTimeout(10*time.Second))
	return orTimedOut(acquired, err)
}

func orTimedOut(acquired bool, err error) error {
	if err == nil && !acquired {
		return errors.New("the locks were not to be had in time")
	}
	return err
}

func each(branches []*branch, do func(b *branch) error) error {
	errs := make([]error, len(branches))
	var done sync.WaitGroup
	for i, b := range branches {
		done.Go(func() { errs[i] = do(b) })
	}
	done.Wait()
	return errors.Join(errs...)
}
