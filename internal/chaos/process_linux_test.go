package chaos_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// process is the controller's end of a worker.
type process struct {
	cfg    workerConfig
	os     *os.Process
	in     io.WriteCloser
	exited chan struct{}
	errors bytes.Buffer // its standard error; complete when exited is closed

	mu   sync.Mutex // guards the field below
	said map[string]string
}

// spawn starts a worker. The kernel kills it when the thread that started it ends,
// so that no stopped worker outlives the test; that thread stays until then.
func spawn(t *testing.T, cfg workerConfig) *process {
	t.Helper()
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	// Other packages are tested at the same time, and a starved worker starves all:
	// nice becomes the worker, with the same process id.
	cmd := exec.Command("nice", "-n", "5", os.Args[0], "-test.run=^TestWorkerProcess$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), workerEnv+"="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p := &process{cfg: cfg, in: in, exited: make(chan struct{}), said: make(map[string]string)}
	cmd.Stderr = &p.errors
	started := make(chan error)
	go func() {
		defer close(p.exited)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.listen(out)
			_ = cmd.Wait() // how it ended is the test's doing
		}
	}()
	require.NoError(t, <-started)
	p.os = cmd.Process
	t.Cleanup(p.kill)
	return p
}

func (p *process) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text, ok := strings.CutPrefix(lines.Text(), "chaos ")
		if !ok {
			continue // the test framework's own words
		}
		word, rest, _ := strings.Cut(text, " ")
		p.mu.Lock()
		p.said[word] = rest
		p.mu.Unlock()
	}
}

// has returns what followed the word, if the worker has said it.
func (p *process) has(word string) (rest string, said bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest, said = p.said[word]
	return rest, said
}

func (p *process) do(command string) { _, _ = fmt.Fprintln(p.in, command) }

func (p *process) signal(s syscall.Signal) { _ = p.os.Signal(s) }

// kill returns when it is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
	_ = p.in.Close()
}

// within polls for the word.
func (p *process) within(limit time.Duration, word string) (string, bool) {
	for end := time.Now().Add(limit); ; {
		rest, said := p.has(word)
		if said || time.Now().After(end) {
			return rest, said
		}
		time.Sleep(5 * time.Millisecond) // poll: a process of its own has to get there
	}
}
