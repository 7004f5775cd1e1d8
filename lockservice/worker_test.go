package lockservice_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// A worker is a process of its own with one lock service, told what to do over
// its standard input, a JSON object a line, and telling what happened over its
// standard output. It is this test binary, started again.

const workerEnv = "LOCKSERVICE_TEST_WORKER"

// workerCommand asks a worker for something. Do is "lock", "release", "traffic"
// or "quit".
type workerCommand struct {
	Do      string
	ID      string // of the acquisition; chosen by the controller
	Parent  string // the acquisition that this one is nested in, or empty
	Read    []string
	Write   []string
	Timeout time.Duration
}

// workerEvent is what became of a command.
type workerEvent struct {
	ID       string
	Granted  bool
	Deadlock bool
	Parties  int // of the deadlock
	Err      string
	Took     time.Duration
	Calls    int64 // of the traffic
	False    int64 // of them, those that were told of a deadlock
}

// TestWorkerProcess is not a test: it is what a worker runs.
func TestWorkerProcess(t *testing.T) {
	url := os.Getenv(workerEnv)
	if url == "" {
		return // an ordinary test run
	}
	svc, err := lockservice.Open(t.Context(), url, lockservice.WithKeyPrefix(os.Getenv(workerEnv+"_PREFIX")), lockservice.WithLeaseTime(5*time.Second))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	w := &workerProcess{svc: svc, held: make(map[string]*lockservice.Acquisition), out: json.NewEncoder(os.Stdout)}
	w.tell(workerEvent{ID: "ready"})
	w.serve(os.Stdin)
	_ = svc.Close(context.Background())
	os.Exit(0)
}

type workerProcess struct {
	svc *lockservice.RedisLockService

	mu   sync.Mutex // guards the fields below
	held map[string]*lockservice.Acquisition
	out  *json.Encoder
}

func (w *workerProcess) serve(in io.Reader) {
	lines := bufio.NewScanner(in)
	var running sync.WaitGroup
	for lines.Scan() {
		var c workerCommand
		if json.Unmarshal(lines.Bytes(), &c) != nil || c.Do == "quit" {
			break
		}
		running.Go(func() {
			switch c.Do {
			case "lock":
				w.lock(c)
			case "traffic":
				w.traffic(c)
			default:
				w.release(c)
			}
		})
	}
	running.Wait()
}

func (w *workerProcess) lock(c workerCommand) {
	w.mu.Lock()
	ctx := context.Background()
	if p := w.held[c.Parent]; p != nil {
		ctx = p.Context()
	}
	w.mu.Unlock()
	var locks []lockservice.Lock
	for _, n := range c.Read {
		locks = append(locks, lockservice.ReadLock(n))
	}
	for _, n := range c.Write {
		locks = append(locks, lockservice.WriteLock(n))
	}
	began := time.Now()
	a, err := w.svc.Acquire(ctx, locks, lockservice.WithTimeout(c.Timeout))
	e := workerEvent{ID: c.ID, Granted: err == nil, Took: time.Since(began)}
	var dead *lockservice.DeadlockError
	if errors.As(err, &dead) {
		e.Deadlock, e.Parties = true, len(dead.Cycle)
	} else if err != nil {
		e.Err = err.Error()
	}
	w.mu.Lock()
	w.held[c.ID] = a
	w.mu.Unlock()
	w.tell(e)
}

// traffic locks at random for so long, nested too, and always in the order of
// the names: there is no cycle in it.
func (w *workerProcess) traffic(c workerCommand) {
	e := workerEvent{ID: c.ID}
	var mu sync.Mutex // guards e
	var all sync.WaitGroup
	stop := time.Now().Add(c.Timeout)
	for g := range 16 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(g)))
			for time.Now().Before(stop) {
				err := w.orderly(context.Background(), rng, 0)
				mu.Lock()
				e.Calls++
				if errors.Is(err, lockservice.ErrDeadlock) {
					e.False++
				} else if err != nil {
					e.Err = err.Error()
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	w.tell(e)
}

const trafficNames = 12

// orderly locks some names from the one given upwards, and goes on above them.
// Only whoever holds nothing reads, and then nests nothing: since writers are
// preferred, a reader inside of other locks can close a cycle whatever the order.
func (w *workerProcess) orderly(ctx context.Context, rng *rand.Rand, from int) error {
	var locks []lockservice.Lock
	reads := from == 0 && rng.IntN(2) == 0
	next := from
	for next < trafficNames && len(locks) < 3 {
		if rng.IntN(3) == 0 {
			name := fmt.Sprintf("traffic-%02d", next)
			if reads {
				locks = append(locks, lockservice.ReadLock(name))
			} else {
				locks = append(locks, lockservice.WriteLock(name))
			}
		}
		next++
	}
	if len(locks) == 0 {
		return nil
	}
	_, err := w.svc.TryLock(ctx, locks, func(ctx context.Context, _ lockservice.HasLock) error {
		if reads {
			return nil
		}
		return w.orderly(ctx, rng, next)
	}, lockservice.WithTimeout(time.Minute))
	return err
}

func (w *workerProcess) release(c workerCommand) {
	w.mu.Lock()
	a := w.held[c.ID]
	delete(w.held, c.ID)
	w.mu.Unlock()
	e := workerEvent{ID: c.ID + " released"}
	if err := a.Release(context.Background()); err != nil {
		e.Err = err.Error()
	}
	w.tell(e)
}

func (w *workerProcess) tell(e workerEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(e)
}

// worker is the controller's end of a worker process.
type worker struct {
	cmd *exec.Cmd
	in  *json.Encoder

	mu      sync.Mutex // guards the field below
	waiting map[string]chan workerEvent
}

func startWorker(t *testing.T, url, prefix string) *worker {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWorkerProcess$")
	cmd.Env = append(os.Environ(), workerEnv+"="+url, workerEnv+"_PREFIX="+prefix)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	w := &worker{cmd: cmd, in: json.NewEncoder(in), waiting: make(map[string]chan workerEvent)}
	ready := w.expect("ready")
	read := make(chan struct{})
	go func() {
		defer close(read)
		w.read(out)
	}()
	t.Cleanup(func() {
		_ = in.Close()
		<-read
		_ = cmd.Wait()
	})
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		t.Fatal("a worker process did not start within 30 s")
	}
	return w
}

func (w *worker) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e workerEvent
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // the test framework's own words
		}
		w.mu.Lock()
		ch := w.waiting[e.ID]
		delete(w.waiting, e.ID)
		w.mu.Unlock()
		if ch != nil {
			ch <- e
		}
	}
}

func (w *worker) expect(id string) <-chan workerEvent {
	ch := make(chan workerEvent, 1)
	w.mu.Lock()
	w.waiting[id] = ch
	w.mu.Unlock()
	return ch
}

// lock sends the command and returns where its event will come.
func (w *worker) lock(t *testing.T, c workerCommand) <-chan workerEvent {
	t.Helper()
	c.Do = "lock"
	ch := w.expect(c.ID)
	require.NoError(t, w.in.Encode(c))
	return ch
}

func (w *worker) release(t *testing.T, id string) <-chan workerEvent {
	t.Helper()
	ch := w.expect(id + " released")
	require.NoError(t, w.in.Encode(workerCommand{Do: "release", ID: id}))
	return ch
}

// within waits for an event.
func within(t *testing.T, ch <-chan workerEvent, limit time.Duration, what string) workerEvent {
	t.Helper()
	select {
	case e := <-ch:
		return e
	case <-time.After(limit):
		t.Fatalf("%s: nothing happened within %v", what, limit)
		return workerEvent{}
	}
}
