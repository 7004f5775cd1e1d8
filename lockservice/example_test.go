package lockservice_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/lockservice"
	"github.com/redislockservice/redislockservice/lockservice/fencing"
	"github.com/redislockservice/redislockservice/pubsub"
)

func Example() {
	url, stop := embeddedRedis()
	defer stop()
	ctx := context.Background()

	svc, err := lockservice.Open(ctx, url) // such as redis://user:password@localhost:6379/0
	if err != nil {
		panic(err)
	}
	defer svc.Close(ctx)

	acquired, err := svc.TryWriteLock(ctx, []string{"customer-42", "invoice-7"},
		func(ctx context.Context, hasLock lockservice.HasLock) error {
			fmt.Println("both are held:", hasLock())
			return nil // what is returned here, TryWriteLock returns
		}, lockservice.WithTimeout(10*time.Second))
	fmt.Println("it ran:", acquired, "error:", err)
	// Output:
	// both are held: true
	// it ran: true error: <nil>
}

// A client that the program has already can be used; it stays the caller's.
func ExampleNew() {
	url, stop := embeddedRedis()
	defer stop()
	ctx := context.Background()
	option := rueidis.MustParseURL(url)

	option.ForceSingleClient, option.DisableCache = true, true
	client, err := rueidis.NewClient(option)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	messages, err := pubsub.New(ctx, client) // only to share it with more services
	if err != nil {
		panic(err)
	}
	defer messages.Close()
	svc, err := lockservice.New(ctx, client,
		lockservice.WithPubSub(messages),
		lockservice.WithKeyPrefix("billing"),
		lockservice.WithLeaseTime(30*time.Second))
	if err != nil {
		panic(err)
	}
	defer svc.Close(ctx)
	fmt.Println(svc.WaitUntilReady(ctx))
	// Output: <nil>
}

func ExampleRedisLockService_TryLock() {
	ctx, svc, done := exampleService()
	defer done()

	acquired, err := svc.TryLock(ctx,
		[]lockservice.Lock{lockservice.WriteLock("invoice-7"), lockservice.ReadLock("config")},
		func(ctx context.Context, _ lockservice.HasLock) error {
			// Others may read config meanwhile, and nobody may write it.
			return nil
		})
	fmt.Println(acquired, err)
	// Output: true <nil>
}

func ExampleRedisLockService_TryReadLock() {
	ctx, svc, done := exampleService()
	defer done()

	acquired, err := svc.TryReadLock(ctx, []string{"config"}, func(ctx context.Context, _ lockservice.HasLock) error {
		// The context is the identity: with it, a nested call reuses what is held,
		// and here turns the read lock into a write lock, once nobody else reads.
		upgraded, err := svc.TryWriteLock(ctx, []string{"config"}, func(context.Context, lockservice.HasLock) error {
			return nil
		}, lockservice.WithTimeout(time.Second))
		fmt.Println("upgraded:", upgraded)
		return err
	})
	fmt.Println(acquired, err)
	// Output:
	// upgraded: true
	// true <nil>
}

func ExampleTryWriteLockWithResult() {
	ctx, svc, done := exampleService()
	defer done()

	number, acquired, err := lockservice.TryWriteLockWithResult(ctx, svc, []string{"invoice-numbers"},
		func(ctx context.Context, _ lockservice.HasLock) (int, error) {
			return 4711, nil
		})
	fmt.Println(number, acquired, err)
	// Output: 4711 true <nil>
}

func ExampleRedisLockService_Acquire() {
	ctx, svc, done := exampleService()
	defer done()

	a, err := svc.Acquire(ctx, []lockservice.Lock{lockservice.WriteLock("customer-42")})
	if err != nil {
		panic(err)
	}
	defer a.Release(ctx)

	work := a.Context() // for everything under the lock: it ends when the lock is lost
	fmt.Println(work.Err(), a.HasLock())
	// Output: <nil> true
}

// Who is in the way is in the error of Acquire.
func ExampleNotAcquiredError() {
	ctx, svc, done := exampleService()
	defer done()
	first, err := svc.Acquire(ctx, []lockservice.Lock{lockservice.WriteLock("customer-42")})
	if err != nil {
		panic(err)
	}
	defer first.Release(ctx)

	_, err = svc.Acquire(ctx, []lockservice.Lock{lockservice.ReadLock("customer-42")})
	var refused *lockservice.NotAcquiredError
	if errors.As(err, &refused) {
		for _, b := range refused.Blockers {
			fmt.Printf("%s is held by %s, to write: %t\n", b.LockName, b.Owner, b.Write)
		}
	}
	// Output: customer-42 is held by worker-1, to write: true
}

// The outcomes of a call, told apart.
func ExampleRedisLockService_TryWriteLock() {
	ctx, svc, done := exampleService()
	defer done()
	doWork := func(context.Context) error { return nil }

	acquired, err := svc.TryWriteLock(ctx, []string{"customer-42"},
		func(ctx context.Context, _ lockservice.HasLock) error {
			return doWork(ctx)
		}, lockservice.WithTimeout(5*time.Second))
	switch {
	case acquired && errors.Is(err, lockservice.ErrLockLost):
		fmt.Println("it ran, and somebody else may have got in before it ended")
	case acquired:
		fmt.Println("it ran, with error:", err)
	case err == nil:
		fmt.Println("somebody else had the lock, all the time")
	case errors.Is(err, lockservice.ErrDeadlock):
		fmt.Println("two waited for each other; this call gave up: try the whole again")
	case errors.Is(err, lockservice.ErrUnavailable):
		fmt.Println("Redis is out of reach: nothing is known of the lock")
	default:
		fmt.Println("cancelled, closed, or a mistake in the call:", err)
	}
	// Output: it ran, with error: <nil>
}

// Long work looks, between steps, whether the lock is still there. That is cheap: it
// asks nobody.
func ExampleHasLock() {
	ctx, svc, done := exampleService()
	defer done()
	steps := []string{"read", "compute", "write"}

	_, err := svc.TryWriteLock(ctx, []string{"report"}, func(ctx context.Context, hasLock lockservice.HasLock) error {
		for _, step := range steps {
			if !hasLock() {
				return context.Cause(ctx) // matches ErrLockLost
			}
			fmt.Println(step)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// read
	// compute
	// write
	// <nil>
}

// The token goes with every write; the storage refuses a token older than the newest
// it has seen. The storage here is a variable; package fencing guards SQL.
func ExampleFencingToken() {
	ctx, svc, done := exampleService()
	defer done()
	var storage fencing.Highest
	var tokens []int64

	for range 2 {
		_, err := svc.TryWriteLock(ctx, []string{"account-1"}, func(ctx context.Context, _ lockservice.HasLock) error {
			token, held := lockservice.FencingToken(ctx, "account-1")
			if !held {
				return lockservice.ErrLockLost
			}
			tokens = append(tokens, token)
			return storage.Check(token)
		})
		if err != nil {
			panic(err)
		}
	}
	fmt.Println("the second is newer:", tokens[1] > tokens[0])
	late := storage.Check(tokens[0]) // a holder that woke up too late
	fmt.Println("the first is refused now:", errors.Is(late, fencing.ErrStaleToken))
	// Output:
	// the second is newer: true
	// the first is refused now: true
}

func ExampleRedisLockService_GetLockInfo() {
	ctx, svc, done := exampleService()
	defer done()

	_, err := svc.TryWriteLock(ctx, []string{"nightly-report"}, func(context.Context, lockservice.HasLock) error {
		return errors.New("no paper")
	}, lockservice.WithKeepLockData(), lockservice.WithKeepError(100))
	fmt.Println("the call:", err)

	infos, err := svc.GetLockInfo(ctx, []string{"nightly-report", "never-used"})
	if err != nil {
		panic(err)
	}
	for _, info := range infos { // only locks with a record
		last := info.WriteOwner
		fmt.Printf("%s: %s by %s (%s)\n", info.LockName, last.State(info.ReadAt()), last.Owner, last.Error)
	}
	// Output:
	// the call: no paper
	// nightly-report: error by worker-1 (no paper)
}

func ExampleRedisLockService_ListLocks() {
	ctx, svc, done := exampleService()
	defer done()
	a, err := svc.Acquire(ctx, []lockservice.Lock{lockservice.WriteLock("invoice-7"), lockservice.ReadLock("config")})
	if err != nil {
		panic(err)
	}
	defer a.Release(ctx)

	for info, err := range svc.ListLocks(ctx, "invoice-*") {
		if err != nil {
			panic(err)
		}
		fmt.Println(info.LockName, "is held by", info.WriteOwner.Owner)
	}
	// Output: invoice-7 is held by worker-1
}

// Two instances tick at about the same time; one of them runs the task.
func ExampleRedisLockService_Execute() {
	ctx, svc, done := exampleService()
	defer done()

	for _, instance := range []string{"first", "second"} {
		ran, err := svc.Execute(ctx, "nightly-report", 10*time.Minute, time.Minute, func(ctx context.Context) error {
			return nil // ctx ends a little before the ten minutes are over
		})
		fmt.Println(instance, "ran:", ran, err)
	}
	// Output:
	// first ran: true <nil>
	// second ran: false <nil>
}

// Two calls wait for each other. One of them fails, and by that frees the other.
func ExampleDeadlockError() {
	ctx, svc, done := exampleService()
	defer done()
	bothHold := make(chan struct{})
	var first sync.WaitGroup
	first.Add(2)
	go func() { first.Wait(); close(bothHold) }()

	transfer := func(from, to string) error {
		_, err := svc.TryWriteLock(ctx, []string{from}, func(ctx context.Context, _ lockservice.HasLock) error {
			first.Done()
			<-bothHold
			_, err := svc.TryWriteLock(ctx, []string{to}, func(context.Context, lockservice.HasLock) error {
				return nil
			}, lockservice.WithTimeout(time.Minute))
			return err
		})
		return err
	}
	results := make(chan error)
	go func() { results <- transfer("a", "b") }()
	go func() { results <- transfer("b", "a") }()
	for range 2 {
		var deadlock *lockservice.DeadlockError
		if err := <-results; errors.As(err, &deadlock) {
			fmt.Println("a deadlock of", len(deadlock.Cycle), "calls; this one gave up")
		}
	}
	// Output: a deadlock of 2 calls; this one gave up
}
