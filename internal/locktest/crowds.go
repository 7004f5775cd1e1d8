package locktest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// crowds: many at once, and nobody overlaps.
var crowds = slices.Concat([]scenario{
	{name: "HundredGoroutinesOverFourServicesNeverOverlap", run: hundred(5)},
	{name: "ReadersAndWritersNeverOverlap", run: readersAndWriters},
	{name: "ManyGoroutinesOfOneServiceExcludeEachOther", run: oneService},
}, in(redisName,
	scenario{name: "TenThousandHandOffsCostFewCommandsAndLeaveNoGap", run: tenThousand, hurts: true},
))

// overlap counts a writer as 10,000 and a reader as 1, as the tests of
// sync.RWMutex do.
type overlap struct {
	inside  atomic.Int64
	lastEnd atomic.Int64 // in nanoseconds since began
	longest atomic.Int64 // gap between a writer's end and the next one's start
	began   time.Time
}

func (o *overlap) write(t *testing.T) {
	if n := o.inside.Add(10_000); n != 10_000 {
		t.Errorf("a writer is in with others: %d", n)
	}
	gap := time.Since(o.began).Nanoseconds() - o.lastEnd.Load()
	for longest := o.longest.Load(); gap > longest && !o.longest.CompareAndSwap(longest, gap); longest = o.longest.Load() {
	}
	o.lastEnd.Store(time.Since(o.began).Nanoseconds())
	o.inside.Add(-10_000)
}

func (o *overlap) read(t *testing.T) {
	if n := o.inside.Add(1); n >= 10_000 {
		t.Errorf("a reader is in with a writer: %d", n)
	}
	o.inside.Add(-1)
}

// E7
func hundred(rounds int) func(t *testing.T, e *Env) {
	return func(t *testing.T, e *Env) { e.handOffs(t, rounds) }
}

// handOffs has each of a hundred goroutines write so many times.
func (e *Env) handOffs(t *testing.T, rounds int) *overlap {
	services := []service{e.NewService(), e.NewService(), e.NewService(), e.NewService()}
	o := &overlap{began: time.Now()}
	count := 0 // guarded by the lock alone
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			for range rounds {
				acquired, err := services[i%4].TryWriteLock(t.Context(), []string{"x"}, func(context.Context, hasLock) error {
					o.write(t)
					count++
					return nil
				}, timeout(5*time.Minute))
				if !acquired || err != nil {
					t.Errorf("acquired %v, %v", acquired, err)
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, 100*rounds, count)
	require.Less(t, time.Duration(o.longest.Load()), e.Poll, "somebody slept until the poll")
	return o
}

func readersAndWriters(t *testing.T, e *Env) {
	services := []service{e.NewService(), e.NewService(), e.NewService()}
	o := &overlap{began: time.Now()}
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			for range 10 {
				l, inside := read("x"), o.read
				if i%4 == 0 {
					l, inside = write("x"), o.write
				}
				acquired, err := services[i%3].TryLock(t.Context(), locks(l), func(context.Context, hasLock) error {
					inside(t)
					return nil
				}, timeout(2*time.Minute))
				if !acquired || err != nil {
					t.Errorf("acquired %v, %v", acquired, err)
				}
			}
		})
	}
	all.Wait()
}

// E7
func oneService(t *testing.T, e *Env) {
	svc := e.NewService()
	o := &overlap{began: time.Now()}
	var all sync.WaitGroup
	for range 300 {
		all.Go(func() {
			acquired, err := svc.TryWriteLock(t.Context(), []string{"x"}, func(context.Context, hasLock) error {
				o.write(t)
				return nil
			}, timeout(2*time.Minute))
			if !acquired || err != nil {
				t.Errorf("acquired %v, %v", acquired, err)
			}
		})
	}
	all.Wait()
}

// J2, and what one hand-off costs.
func tenThousand(t *testing.T, e *Env) {
	e.NewService(lockservice.WithKeyPrefix(e.Prefix + "-ready")) // waits until the server is
	e.Do("CONFIG", "RESETSTAT")
	began := time.Now()
	o := e.handOffs(t, 100)
	took := time.Since(began)
	stats := e.commands()
	total, line := int64(0), []string{}
	for _, name := range []string{"watch", "get", "time", "info", "multi", "set", "del", "publish", "exec", "unwatch"} {
		total += stats[name]
		line = append(line, name+" "+itoa(stats[name]))
	}
	t.Logf("10,000 hand-offs in %v, longest gap %v; commands: %s; per hand-off: %.2f commands, %.2f transactions",
		took.Round(time.Millisecond), time.Duration(o.longest.Load()).Round(time.Microsecond), strings.Join(line, ", "),
		float64(total)/10_000, float64(stats["exec"])/10_000)
	require.Less(t, stats["exec"], int64(60_000), "a transaction per waiter is not what is wanted")
	require.NotContains(t, stats, "eval")
	require.NotContains(t, stats, "evalsha")
	require.NotContains(t, stats, "fcall")
}
