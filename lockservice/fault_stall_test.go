package lockservice_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

// A stallWatch notices when this machine, or its Redis, stood still: for so long
// that a lease may have run out although nobody did anything wrong. It excuses
// what is late then. It never excuses two holders.
type stallWatch struct {
	mu   sync.Mutex // guards the fields below
	last time.Time  // when it was seen that everything goes on
	seen []time.Time
}

// stallAfter is less than what a renewal may be late with the leases used here.
const stallAfter = faultLease / 5

func watchStalls(t *testing.T, server *redistest.Server) *stallWatch {
	t.Helper()
	client := server.Client(t)
	w := &stallWatch{last: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(stallAfter / 10)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			bounded, done := context.WithTimeout(ctx, 10*time.Second)
			_ = client.Do(bounded, client.B().Ping().Build()).Error()
			done()
			w.goesOn()
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return w
}

func (w *stallWatch) goesOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if now.Sub(w.last) > stallAfter {
		w.seen = append(w.seen, now)
	}
	w.last = now
}

// since says whether there was a stall after a moment, or is one.
func (w *stallWatch) since(t time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen) > 0 && w.seen[len(w.seen)-1].After(t) || time.Since(w.last) > stallAfter
}
