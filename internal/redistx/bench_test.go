package redistx

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// BenchmarkExchange commits and reads one key per exchange, and compares that
// with two bare PINGs on a connection of the same kind.
func BenchmarkExchange(b *testing.B) {
	client := newClient(b, startServer(b).addr)
	p := newPort(b, client)
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	keys := []string{"{app}:lock:a"}
	commit := set(keys[0], string(make([]byte, 300)))
	read(b, p, keys...)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		committed, _, err := p.Exchange(ctx, commit, keys)
		if err != nil || !committed {
			b.Fatal(committed, err)
		}
	}
	b.StopTimer()
	exchange := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	pings := 2 * pingNanos(ctx, b, client)
	b.ReportMetric(pings, "ns/2ping")
	b.ReportMetric(exchange/pings, "ratio")
}

func pingNanos(ctx context.Context, b *testing.B, client rueidis.Client) float64 {
	dedicated, release := client.Dedicate()
	defer release()
	ping := client.B().Ping().Build().Pin()
	start := time.Now()
	for range b.N {
		if err := dedicated.Do(ctx, ping).Error(); err != nil {
			b.Fatal(err)
		}
	}
	return float64(time.Since(start).Nanoseconds()) / float64(b.N)
}
