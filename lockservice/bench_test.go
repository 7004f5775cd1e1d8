package lockservice_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
)

// The benchmarks measure ratios: each round measures the locks and, right after,
// what they are compared with, on the same server, so that a slow moment of the
// machine hits both. What is printed is the median over the rounds.

const benchRounds = 15

// BenchmarkUncontended is one caller that acquires and releases one free lock,
// against two bare round trips on a connection of their own.
func BenchmarkUncontended(b *testing.B) {
	svc, client := benchService(b)
	ping, give := client.Dedicate()
	defer give()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	perRound := max(b.N/benchRounds, 200)
	locks, pings := make([]float64, 0, benchRounds), make([]float64, 0, benchRounds)
	for b.Loop() {
		locks = append(locks, p50(perRound, func() { mustLock(b, svc, "uncontended") }))
		pings = append(pings, p50(perRound, func() {
			for range 2 {
				if err := ping.Do(ctx, ping.B().Ping().Build()).Error(); err != nil {
					b.Fatal(err)
				}
			}
		}))
	}
	report(b, "lock", "2pings", locks, pings, "µs")
}

// BenchmarkGoroutinesWithANameEach is 64 goroutines that lock a name each,
// against 64 that do SET NX PX and DEL on a shared, pipelined connection.
func BenchmarkGoroutinesWithANameEach(b *testing.B) {
	svc, client := benchService(b)
	ctx := b.Context()
	var locks, plain []float64
	for b.Loop() {
		locks = append(locks, throughput(64, func(g int) { mustLock(b, svc, "each-"+strconv.Itoa(g)) }))
		plain = append(plain, throughput(64, func(g int) {
			key := "plain-" + strconv.Itoa(g)
			client.Do(ctx, client.B().Set().Key(key).Value("x").Nx().Px(time.Minute).Build())
			client.Do(ctx, client.B().Del().Key(key).Build())
		}))
	}
	report(b, "locks", "set+del", locks, plain, "ops/s")
}

// BenchmarkTenNamesAtOnce is all or none of ten names, against two round trips.
func BenchmarkTenNamesAtOnce(b *testing.B) {
	svc, client := benchService(b)
	ping, give := client.Dedicate()
	defer give()
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprintf("ten-%d", i)
	}
	var locks, pings []float64
	for b.Loop() {
		locks = append(locks, p50(200, func() { mustLock(b, svc, names...) }))
		pings = append(pings, p50(200, func() {
			ping.Do(ctx, ping.B().Ping().Build())
			ping.Do(ctx, ping.B().Ping().Build())
		}))
	}
	report(b, "lock", "2pings", locks, pings, "µs")
}

func benchService(b *testing.B) (*lockservice.RedisLockService, rueidis.Client) {
	b.Helper()
	server := redistest.Start(b)
	svc, err := lockservice.Open(b.Context(), server.URL(), lockservice.WithLeaseTime(time.Second))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = svc.Close(context.Background()) })
	if err := svc.WaitUntilReady(b.Context()); err != nil {
		b.Fatal(err)
	}
	return svc, server.Client(b)
}

func mustLock(b *testing.B, svc *lockservice.RedisLockService, names ...string) {
	acquired, err := svc.TryWriteLock(context.Background(), names, func(context.Context, lockservice.HasLock) error { return nil })
	if err != nil || !acquired {
		b.Errorf("acquired %v, error %v", acquired, err)
	}
}

func p50(n int, f func()) float64 {
	took := make([]time.Duration, n)
	for i := range took {
		began := time.Now()
		f()
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return float64(took[n/2].Nanoseconds()) / 1000
}

func throughput(goroutines int, f func(g int)) float64 {
	var ops atomic.Int64
	stop := time.Now().Add(200 * time.Millisecond)
	began := time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for time.Now().Before(stop) {
				f(g)
				ops.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(ops.Load()) / time.Since(began).Seconds()
}

func report(b *testing.B, ours, theirs string, a, c []float64, unit string) {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / c[i]
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(a), ours+"-"+unit)
	b.ReportMetric(median(c), theirs+"-"+unit)
	b.ReportMetric(median(ratios), "ratio")
}

func median(x []float64) float64 {
	x = slices.Clone(x)
	slices.Sort(x)
	return x[len(x)/2]
}
