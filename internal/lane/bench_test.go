package lane

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/keyspace"
	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/jsonhandler"
)

// instantPort is a server of one connection that answers at once: what remains
// is the lane's own work.
type instantPort struct{ data map[string][]byte }

func (p *instantPort) Exchange(_ context.Context, commit *exchange.Writes, keys []string) (bool, exchange.Snapshot, error) {
	if !commit.Empty() {
		for _, s := range commit.Sets {
			p.data[s.Key] = s.Value
		}
		for _, k := range commit.Deletes {
			delete(p.data, k)
		}
	}
	snap := exchange.Snapshot{Values: make([]exchange.Value, len(keys)), Micros: time.Now().UnixMicro(), RunID: "run", Uptime: 1000}
	for i, k := range keys {
		v, ok := p.data[k]
		snap.Values[i] = exchange.Value{Data: v, Exists: ok}
	}
	return !commit.Empty(), snap, nil
}

func (p *instantPort) Close() {}

func benchLane(b *testing.B) *Lane {
	b.Helper()
	keys, err := keyspace.New("bench")
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	l := New(Config{Port: &instantPort{data: make(map[string][]byte)}, Keys: keys, JSON: jsonhandler.Standard, Node: "node",
		Lease: time.Minute, PollDelay: 5 * time.Second, ReleasedTTL: 30 * time.Second, OpTimeout: 5 * time.Second,
		Now: func() time.Duration { return time.Hour + time.Since(began) }})
	b.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// BenchmarkOwnWork is what the lane itself costs for an acquire and a release.
func BenchmarkOwnWork(b *testing.B) {
	for _, n := range []int{1, 10} {
		b.Run(strconv.Itoa(n)+"names", func(b *testing.B) {
			l := benchLane(b)
			wants := make([]lockrules.Want, n)
			for i := range wants {
				wants[i] = lockrules.Want{Name: "name-" + strconv.Itoa(i), Mode: lockrules.Write}
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				req := lockrules.Request{Asker: lockrules.Asker{ID: "id", Owner: "owner", Node: "node"}, Wants: wants, LeaseMillis: 60_000}
				if _, granted, _, err := l.Acquire(ctx, req, AcquireOptions{}); err != nil || !granted {
					b.Fatal(granted, err)
				}
				if _, err := l.Release(ctx, wantNames(wants), lockrules.Release{ID: "id", Outcome: lockrules.OK}, time.Minute); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
