package lockservice_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
)

// What BenchmarkFairness runs: so many services, each with so many goroutines
// that take one lock again and again for a millisecond.
const (
	fairServices = 4
	fairWaiters  = 25
	fairFor      = 3 * time.Second
	fairHold     = time.Millisecond
)

// BenchmarkFairness tells how unequal waits for one name are: the longest wait
// against the median, among writers and among readers, what the throughput is, and
// how many commands a hand-off costs the server. A wait that the end of the run
// cuts off counts as the longest if it is: whoever starves has no other.
func BenchmarkFairness(b *testing.B) {
	for name, readers := range map[string]int{"writers": 0, "mixed": fairWaiters / 5} {
		b.Run(name, func(b *testing.B) {
			server := redistest.Start(b)
			services := fairCrowd(b, server)
			for b.Loop() {
				before := allCommands(server.CommandStats(b))
				f := fairRun(b, services, readers)
				grants := f.writers.grants() + f.readers.grants()
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(grants)/fairFor.Seconds(), "grants/s")
				b.ReportMetric(float64(allCommands(server.CommandStats(b))-before)/float64(max(grants, 1)), "commands/grant")
				f.writers.report(b, "write")
				f.readers.report(b, "read")
			}
		})
	}
}

func fairCrowd(b *testing.B, server *redistest.Server) []*lockservice.RedisLockService {
	b.Helper()
	services := make([]*lockservice.RedisLockService, fairServices)
	for i := range services {
		svc, err := lockservice.Open(b.Context(), server.URL(), lockservice.WithLeaseTime(time.Second))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = svc.Close(context.Background()) })
		if err := svc.WaitUntilReady(b.Context()); err != nil {
			b.Fatal(err)
		}
		services[i] = svc
	}
	return services
}

func allCommands(stats map[string]int64) (n int64) {
	for _, calls := range stats {
		n += calls
	}
	return n
}

// waits are those of all who want the lock in one mode.
type waits struct {
	mu      sync.Mutex // guards the fields below
	all     []time.Duration
	longest time.Duration // cut off ones too
	each    []int         // how often each got in
}

type fairness struct{ writers, readers waits }

func fairRun(b *testing.B, services []*lockservice.RedisLockService, readers int) *fairness {
	b.Helper()
	f := &fairness{}
	ctx, cancel := context.WithTimeout(b.Context(), fairFor)
	defer cancel()
	var wg sync.WaitGroup
	for _, svc := range services {
		for i := range fairWaiters {
			want, to := lockservice.WriteLock("fair"), &f.writers
			if i < readers {
				want, to = lockservice.ReadLock("fair"), &f.readers
			}
			wg.Go(func() { takeAgainAndAgain(ctx, svc, want, to) })
		}
	}
	wg.Wait()
	return f
}

func takeAgainAndAgain(ctx context.Context, svc *lockservice.RedisLockService, want lockservice.Lock, to *waits) {
	grants := 0
	for ctx.Err() == nil {
		began := time.Now()
		a, err := svc.Acquire(ctx, []lockservice.Lock{want}, lockservice.WithTimeout(time.Minute))
		to.add(time.Since(began), err == nil)
		if err == nil {
			grants++
			<-time.After(fairHold)
			_ = a.Release(context.Background())
		}
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	to.each = append(to.each, grants)
}

func (w *waits) add(took time.Duration, granted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = max(w.longest, took)
	if granted {
		w.all = append(w.all, took)
	}
}

func (w *waits) grants() int { return len(w.all) }

func (w *waits) report(b *testing.B, mode string) {
	if len(w.each) == 0 {
		return
	}
	middle := fairFor // nobody got in
	if len(w.all) > 0 {
		slices.Sort(w.all)
		middle = w.all[len(w.all)/2]
	}
	b.ReportMetric(float64(middle.Microseconds())/1000, mode+"-p50-ms")
	b.ReportMetric(float64(w.longest.Microseconds())/1000, mode+"-max-ms")
	b.ReportMetric(float64(w.longest)/float64(middle), mode+"-max/p50")
	b.ReportMetric(float64(slices.Min(w.each)), mode+"-fewest")
	b.ReportMetric(float64(slices.Max(w.each)), mode+"-most")
}
