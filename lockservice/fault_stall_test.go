package lockservice_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

// A stallWatch notices when this machine, or its Redis, stood still: for so long, all
// together, that a lease may have run out although nobody did anything wrong. It
// excuses what is late then. It never excuses two holders.
type stallWatch struct {
	mu    sync.Mutex // guards the fields below
	last  time.Time  // when it was seen that everything goes on
	seen  []stall
	total time.Duration
}

// stall is a time for which nothing went on.
type stall struct {
	end   time.Time
	total time.Duration // of this and all before
}

const (
	stallTick = faultLease / 50
	// stallLeast is from when a delay counts. A new connection takes a dozen changes
	// of process: on a machine that many want, small delays add up to a lease.
	stallLeast = stallTick / 8
	// stallAfter is less than what renewals may be late with the leases used here.
	stallAfter = faultLease / 10
)

func watchStalls(t *testing.T, server *redistest.Server) *stallWatch {
	t.Helper()
	client := server.Client(t)
	w := &stallWatch{last: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(stallTick)
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
	if gap := now.Sub(w.last) - stallTick; gap > stallLeast {
		w.total += gap
		w.seen = append(w.seen, stall{now, w.total})
	}
	w.last = now
}

// since says whether it stood still for too long after a moment.
func (w *stallWatch) since(t time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := time.Duration(0)
	for i := len(w.seen) - 1; i >= 0; i-- {
		if !w.seen[i].end.After(t) {
			before = w.seen[i].total
			break
		}
	}
	return w.total-before+time.Since(w.last) > stallAfter
}

// What is tried many times at once can be too much for a small machine, by itself. What
// is tried again has the machine for itself.
var machine sync.RWMutex

// excuse tries again what failed while the machine stood still. It never excuses two
// holders.
func (w *stallWatch) excuse(try func(attempt int) error) (err error) {
	for attempt := range 10 {
		var stood bool
		alone(attempt > 0, func() {
			began := time.Now()
			err = try(attempt)
			stood = w.since(began)
		})
		if err == nil || errors.Is(err, errTwoHolders) || !stood {
			return err
		}
	}
	return fmt.Errorf("the machine stood still each time: %w", err)
}

func alone(yes bool, f func()) {
	if yes {
		machine.Lock()
		defer machine.Unlock()
	} else {
		machine.RLock()
		defer machine.RUnlock()
	}
	f()
}

// wait lets real time go by: that of another process can't be faked.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	end := time.Now().Add(d)
	require.NoError(t, until(d+time.Minute, "time goes by", func() bool { return !time.Now().Before(end) }))
}
