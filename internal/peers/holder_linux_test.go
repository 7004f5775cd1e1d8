package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const holderEnv = "PEERS_HOLDER"

// holderConfig is the value of holderEnv.
type holderConfig struct {
	Kind  string
	Addr  string
	Name  string
	Lease time.Duration
}

// monotonic is one clock for all processes of the machine.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// TestHolderProcess is not a test: it is what the holder's process runs. It locks,
// and then tells each answer of its signal: "true" with a moment at which the signal
// had not been asked yet, "false" with one after it.
func TestHolderProcess(*testing.T) {
	text := os.Getenv(holderEnv)
	if text == "" {
		return // an ordinary test run
	}
	var cfg holderConfig
	err := json.Unmarshal([]byte(text), &cfg)
	var peer Peer
	if err == nil {
		peer, err = find(cfg.Kind).open(cfg.Addr, cfg.Lease)
	}
	var holds func() bool
	if err == nil {
		holds, err = peer.Lock(context.Background(), cfg.Name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	tick := time.NewTicker(time.Millisecond)
	for range tick.C {
		before := monotonic()
		if !holds() {
			fmt.Println("peer false", monotonic())
			break
		}
		fmt.Println("peer true", before)
	}
	tick.Stop()
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
}

// holder is the controller's end of that process.
type holder struct {
	os     *os.Process
	exited chan struct{}

	mu       sync.Mutex // guards the fields below
	held     bool
	lastTrue int64
	isFalse  bool
}

func startHolder(t *testing.T, cfg holderConfig) *holder {
	t.Helper()
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0], "-test.run=^TestHolderProcess$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), holderEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	_, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	h := &holder{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(h.exited)
		runtime.LockOSThread() // Pdeathsig is about the thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			h.listen(out)
			_ = cmd.Wait()
		}
	}()
	require.NoError(t, <-started)
	h.os = cmd.Process
	t.Cleanup(func() {
		_ = h.os.Kill()
		<-h.exited
	})
	return h
}

func (h *holder) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var answer bool
		var at int64
		if _, err := fmt.Sscanf(lines.Text(), "peer %t %d", &answer, &at); err != nil {
			continue // the test framework's own words
		}
		h.mu.Lock()
		if answer {
			h.held, h.lastTrue = true, at
		} else {
			h.isFalse = true
		}
		h.mu.Unlock()
	}
}

func (h *holder) state() (held bool, lastTrue int64, isFalse bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held, h.lastTrue, h.isFalse
}
