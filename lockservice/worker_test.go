package lockservice_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// workerCommand asks a worker for something. Do is "lock", "release" or "quit".
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
			if c.Do == "lock" {
				w.lock(c)
			} else {
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
