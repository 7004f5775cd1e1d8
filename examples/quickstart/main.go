// Command quickstart tells what locks do: the workers of two instances of a service
// compete for a customer and an invoice, which they write, and share the
// configuration, which they read. In the end a kept record says who did what.
//
// Run it with go run ./quickstart, or make demo in the root of the repository. With
// REDIS_URL set it uses that server, else one that it embeds.
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

func tell(ctx context.Context, redis *redisenv.Redis, story *redisenv.Story) error {
	s := &shop{story: story, began: time.Now()}
	for _, name := range []string{"shop-1", "shop-2"} {
		svc, err := s.open(ctx, redis, name)
		if err != nil {
			return err
		}
		s.instances = append(s.instances, svc)
	}
	for _, part := range []func(context.Context) error{s.compete, s.nest, s.audit} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	story.Say("")
	story.Say("That was all. The deadlock and the other examples are beside this one.")
	return nil
}

type shop struct {
	story     *redisenv.Story
	began     time.Time
	instances []*lockservice.RedisLockService

	opened   chan struct{} // closed when the first worker is in
	openOnce sync.Once
	visits   sync.WaitGroup // of those who come meanwhile; the workers wait for them
}

// say writes a line with the time since the start of the story.
func (s *shop) say(format string, args ...any) {
	s.story.Say("%5d ms  %s", time.Since(s.began).Milliseconds(), fmt.Sprintf(format, args...))
}

// open makes an instance, and waits until the server has been up for long enough: a
// young one may have lost the locks of its previous run, so nothing is granted yet.
func (s *shop) open(ctx context.Context, redis *redisenv.Redis, name string) (*lockservice.RedisLockService, error) {
	asked := time.Now()
	svc, _, err := redis.Service(ctx, name)
	if waited := time.Since(asked); err == nil && waited > time.Second/2 {
		s.story.Say("The server was started a moment ago: %s waited %d ms until locks are granted (WaitUntilReady).",
			name, waited.Milliseconds())
	}
	return svc, err
}

// compete has two workers of each instance ask for the same locks at once. One more
// asks only to read, and one doesn't want to wait.
func (s *shop) compete(ctx context.Context) error {
	s.story.Say("Four workers want to write customer-42 and invoice-7, and to read config.")
	s.began, s.opened = time.Now(), make(chan struct{})
	s.visits.Add(2)
	var done sync.WaitGroup
	errs := make([]error, 6)
	for i, worker := range []string{"anna", "ben", "cleo", "dora"} {
		done.Go(func() { errs[i] = s.bill(ctx, worker, s.instances[i/2]) })
	}
	done.Go(func() { errs[4] = s.readConfig(ctx, "emil", s.instances[0]) })
	done.Go(func() { errs[5] = s.hurry(ctx, "fred", s.instances[1]) })
	done.Wait()
	return errors.Join(errs...)
}

// bill writes the customer and the invoice.
func (s *shop) bill(ctx context.Context, worker string, svc *lockservice.RedisLockService) error {
	s.say("%-4s asks", worker)
	asked := time.Now()
	acquired, err := svc.TryLock(ctx,
		[]lockservice.Lock{
			lockservice.WriteLock("customer-42"), lockservice.WriteLock("invoice-7"), lockservice.ReadLock("config"),
		},
		func(ctx context.Context, hasLock lockservice.HasLock) error {
			s.say("%-4s is in, after %d ms", worker, time.Since(asked).Milliseconds())
			s.openOnce.Do(func() { close(s.opened) })
			work(ctx, 150*time.Millisecond)
			s.visits.Wait()
			s.say("%-4s is done, and has held its locks all the time: %t", worker, hasLock())
			return nil
		},
		lockservice.WithTimeout(5*time.Second))
	if err == nil && !acquired {
		err = fmt.Errorf("%s had no lock within five seconds", worker)
	}
	s.openOnce.Do(func() { close(s.opened) }) // if nobody got in: the visitors are not to wait
	return err
}

// readConfig shares the configuration with the workers that bill.
func (s *shop) readConfig(ctx context.Context, worker string, svc *lockservice.RedisLockService) error {
	defer s.visits.Done()
	<-s.opened
	acquired, err := svc.TryReadLock(ctx, []string{"config"}, func(context.Context, lockservice.HasLock) error {
		s.say("%-4s reads config meanwhile: readers share", worker)
		return nil
	})
	if err == nil && !acquired {
		err = errors.New("a reader was kept out by readers")
	}
	return err
}

// hurry makes a single attempt, while somebody is in.
func (s *shop) hurry(ctx context.Context, worker string, svc *lockservice.RedisLockService) error {
	defer s.visits.Done()
	<-s.opened
	a, err := svc.Acquire(ctx, []lockservice.Lock{lockservice.WriteLock("customer-42")})
	var refused *lockservice.NotAcquiredError
	if errors.As(err, &refused) {
		b := refused.Blockers[0]
		s.say("%-4s doesn't wait: %s has %s", worker, b.Owner, b.LockName)
		return nil
	}
	return errors.Join(err, a.Release(ctx))
}

// nest asks for a lock that the code around holds already, and for one more.
func (s *shop) nest(ctx context.Context) error {
	svc := s.instances[0]
	_, err := svc.TryWriteLock(ctx, []string{"customer-42"}, func(ctx context.Context, _ lockservice.HasLock) error {
		outer, _ := lockservice.FencingToken(ctx, "customer-42")
		inner, err := svc.TryWriteLock(ctx, []string{"customer-42", "invoice-8"}, func(ctx context.Context, _ lockservice.HasLock) error {
			again, _ := lockservice.FencingToken(ctx, "customer-42")
			s.say("A nested call reuses customer-42 (the same fencing token: %t) and acquires only invoice-8.", outer == again)
			return nil
		})
		if err == nil && !inner {
			err = errors.New("the nested call got no lock")
		}
		return err
	})
	return err
}

// audit runs two jobs under a lock whose record is kept, and reads it.
func (s *shop) audit(ctx context.Context) error {
	report := func(fail error) lockservice.Protected {
		return func(ctx context.Context, _ lockservice.HasLock) error {
			work(ctx, 20*time.Millisecond)
			return fail
		}
	}
	keep := []lockservice.LockOption{lockservice.WithKeepLockData(), lockservice.WithKeepError(200)}
	_, err := s.instances[0].TryWriteLock(ctx, []string{"report"}, report(nil), keep...)
	_, expected := s.instances[1].TryWriteLock(ctx, []string{"report"}, report(errors.New("the printer is on fire")), keep...)
	if err != nil || expected == nil {
		return errors.Join(err, expected)
	}
	infos, err := s.instances[0].GetLockInfo(ctx, []string{"report", "never-used"})
	if err != nil {
		return err
	}
	s.story.Say("The records that are kept (GetLockInfo):")
	for _, info := range infos {
		s.story.Say("  %s", info.LockName)
		s.story.Say("    last run:     %s", info.WriteOwner.Report(info.ReadAt()))
		s.story.Say("    last success: %s", info.LastSuccess.Report(info.ReadAt()))
	}
	return nil
}

func work(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
