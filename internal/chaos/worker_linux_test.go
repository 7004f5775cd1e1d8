package chaos_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redislockservice/redislockservice/internal/chaos"
	"github.com/redislockservice/redislockservice/lockservice"
)

// A worker is this test binary, started again: one lock service, and some clients
// that lock at random. It is told what to do over its standard input, a word a
// line, and answers over its standard output. What its locks did goes to a file,
// unbuffered: a killed process can't flush.

const workerEnv = "CHAOS_WORKER"

// workerConfig is the value of workerEnv.
type workerConfig struct {
	Name    string // of the process: "w2.7" is the seventh in the second place
	URL     string
	Prefix  string
	Report  string // file
	Storage string // unix socket
	Lease   time.Duration
	Poll    time.Duration
	Timeout time.Duration // of connections
	Clients int
	Seed    uint64
}

// TestWorkerProcess is not a test: it is what a worker runs.
func TestWorkerProcess(*testing.T) {
	text := os.Getenv(workerEnv)
	if text == "" {
		return // an ordinary test run
	}
	w := &worker{}
	if err := json.Unmarshal([]byte(text), &w.cfg); err != nil {
		w.giveUp(err)
	}
	file, err := os.OpenFile(w.cfg.Report, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		w.giveUp(err)
	}
	w.report = file
	w.serve()
	os.Exit(0)
}

type worker struct {
	cfg      workerConfig
	svc      *lockservice.RedisLockService
	report   *os.File // each event is one write
	draining atomic.Bool
	calls    atomic.Int64
	clients  sync.WaitGroup
}

func (w *worker) giveUp(err error) {
	fmt.Fprintf(os.Stderr, "chaos worker %s: %v\n", w.cfg.Name, err)
	os.Exit(1)
}

func (w *worker) say(format string, args ...any) { fmt.Printf("chaos "+format+"\n", args...) }

func (w *worker) serve() {
	w.open()
	w.say("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		word, arg, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "traffic":
			w.traffic()
		case "burn":
			ms, _ := strconv.Atoi(arg)
			burn(time.Duration(ms) * time.Millisecond)
		case "drain":
			w.draining.Store(true)
			go w.drained()
		case "quit":
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := w.svc.Close(ctx); err != nil {
				w.giveUp(err)
			}
			w.leftOver(2) // the test's own
			w.say("closed")
			return
		}
	}
}

// open insists: whatever is broken, it will be whole again. The process counts as
// one that knows the server only once it has been granted a lock.
func (w *worker) open() {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		svc, err := lockservice.Open(ctx, w.cfg.URL, lockservice.WithKeyPrefix(w.cfg.Prefix), lockservice.WithOwner(w.cfg.Name),
			lockservice.WithLeaseTime(w.cfg.Lease), lockservice.WithPollDelay(w.cfg.Poll), lockservice.WithConnectionTimeout(w.cfg.Timeout),
			lockservice.WithReleasedRecordTTL(5*time.Second))
		cancel()
		if err == nil {
			w.svc = svc
			break
		}
		pause(context.Background(), 50*time.Millisecond)
	}
	for {
		ok, err := w.svc.TryWriteLock(context.Background(), []string{"hello-" + w.cfg.Name},
			func(context.Context, lockservice.HasLock) error { return nil }, lockservice.WithTimeout(5*time.Second))
		if ok && err == nil {
			break
		}
	}
}

func (w *worker) traffic() {
	w.draining.Store(false)
	for n := range w.cfg.Clients {
		w.clients.Go(func() {
			c := newClient(w, n)
			defer c.close()
			for !w.draining.Load() {
				c.turn()
				w.calls.Add(1)
			}
		})
	}
}

// drained waits for the clients and for what they may have left behind.
func (w *worker) drained() {
	w.clients.Wait()
	w.leftOver(idleGoroutines)
	w.say("drained %d", w.calls.Load())
}

// idleGoroutines is how many a process may have that does nothing: the test's own,
// those of the service, and two for each connection that has had to be shared.
const idleGoroutines = 18

// leftOver tells, on standard error, if more goroutines than that don't end.
func (w *worker) leftOver(most int) {
	if n := settled(most, 5*time.Second); n > most {
		stacks := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "%s has %d goroutines, and at most %d are fine:\n%s\n", w.cfg.Name, n, most, stacks[:runtime.Stack(stacks, true)])
	}
}

// settled polls until no more goroutines run than that, and returns how many do.
func settled(most int, within time.Duration) int {
	n := runtime.NumGoroutine()
	for end := time.Now().Add(within); n > most && time.Now().Before(end); n = runtime.NumGoroutine() {
		pause(context.Background(), 10*time.Millisecond)
	}
	return n
}

// burn starves the process of CPU: more busy goroutines than it has cores.
func burn(d time.Duration) {
	end := time.Now().Add(d)
	for range 4 * runtime.GOMAXPROCS(0) {
		go func() {
			for x := 1; time.Now().Before(end); x++ {
				_ = x * x
			}
		}()
	}
}

func (w *worker) tell(e chaos.Event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = w.report.Write(append(line, '\n'))
	}
	if err != nil {
		w.giveUp(err)
	}
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// between draws a duration.
func between(rng *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rng.Int64N(int64(to-from)))
}
