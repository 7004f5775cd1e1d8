package lockservice_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
)

// A holder process is this test binary, started again. It takes the lock "x", or
// waits for it many times over, and tells what HasLock says at which time of the
// machine's monotonic clock, which all processes share.

const holderEnv = "LOCKSERVICE_TEST_HOLDER"

// holderWord is a line of a holder's output.
type holderWord struct {
	What  string // granted, lost, released
	Token int64
	// Yes is when HasLock was asked for the last time that it said yes, and No when it
	// had said no; nanoseconds.
	Yes, No int64
	Err     string
}

func monotonic() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it can't fail for this clock
	return ts.Nano()
}

// TestHolderProcess is not a test: it is what such a process runs.
func TestHolderProcess(t *testing.T) {
	url, what, _ := strings.Cut(os.Getenv(holderEnv), " ")
	if url == "" {
		return // an ordinary test run
	}
	say := json.NewEncoder(os.Stdout)
	svc, err := lockservice.Open(t.Context(), url, lockservice.WithLeaseTime(openedLease), lockservice.WithPollDelay(faultPoll))
	if err == nil {
		err = svc.WaitUntilReady(t.Context())
	}
	if err != nil {
		_ = say.Encode(holderWord{What: "failed", Err: err.Error()})
		os.Exit(1)
	}
	switch what {
	case "wait":
		waitInCrowd(svc, say)
	case "spin":
		var spun atomic.Int64
		for range 8 {
			go func() {
				for {
					spun.Add(1)
				}
			}()
		}
		fallthrough
	default:
		holdAndTell(svc, say)
	}
	os.Exit(0)
}

// holdAndTell asks HasLock all the time until it says no, or the input is closed.
func holdAndTell(svc *lockservice.RedisLockService, say *json.Encoder) {
	a, err := svc.Acquire(context.Background(), writes([]string{"x"}), lockservice.WithTimeout(time.Minute))
	if err != nil {
		_ = say.Encode(holderWord{What: "failed", Err: err.Error()})
		return
	}
	token, _ := a.FencingToken("x")
	word := holderWord{What: "granted", Token: token, Yes: monotonic()}
	if !a.HasLock() {
		word.What = "lost"
	}
	_ = say.Encode(word)
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(done)
	}()
	word.What = "released"
	tick := time.NewTicker(time.Millisecond)
	for ended := false; !ended; {
		asked := monotonic()
		if !a.HasLock() {
			word.What, word.No = "lost", monotonic()
			break
		}
		word.Yes = asked
		select {
		case <-tick.C:
		case <-done:
			ended = true
		}
	}
	if err := a.Release(context.Background()); err != nil {
		word.Err = err.Error()
	}
	_ = say.Encode(word)
}

// waitInCrowd waits for "x" two hundred times at once, until the input is closed.
func waitInCrowd(svc *lockservice.RedisLockService, say *json.Encoder) {
	for i := range 200 {
		go func() {
			lock := []lockservice.Lock{lockservice.ReadLock("x"), lockservice.WriteLock("x")}[i%2]
			_, _ = svc.Acquire(context.Background(), []lockservice.Lock{lock}, lockservice.WithTimeout(time.Hour))
		}()
	}
	_ = say.Encode(holderWord{What: "granted"})
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type holderProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Closer
	words chan holderWord
}

func startHolder(t *testing.T, server *redistest.Server, what string, env ...string) *holderProcess {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolderProcess$")
	cmd.Env = append(append(os.Environ(), holderEnv+"="+server.URL()+" "+what), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	started := make(chan error)
	read := make(chan struct{})
	h := &holderProcess{t: t, cmd: cmd, in: in, words: make(chan holderWord, 4)}
	go func() {
		defer close(read)
		// The kernel kills the process when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			h.read(out)
		}
	}()
	require.NoError(t, <-started)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return h
}

func (h *holderProcess) read(out io.Reader) {
	defer close(h.words)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var w holderWord
		if json.Unmarshal(lines.Bytes(), &w) == nil && w.What != "" {
			h.words <- w
		}
	}
}

// says waits for the process' next word.
func (h *holderProcess) says(what string) holderWord {
	h.t.Helper()
	select {
	case w, ok := <-h.words:
		require.True(h.t, ok, "the process has ended")
		require.Equal(h.t, what, w.What, "%+v", w)
		return w
	case <-time.After(time.Minute):
		require.FailNow(h.t, "the process says nothing")
		return holderWord{}
	}
}

// E1, J33: a process that was frozen for longer than its lease knows at its first
// look that it has lost the lock. Nothing but its own clock tells it: its look comes
// before any renewal can.
func TestFrozenHolderKnowsAtOnceThatItHasLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rival := opened(t, server)
	h := startHolder(t, server, "hold")
	first := h.says("granted")
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGSTOP))
	g := <-ask2(t.Context(), rival, writes([]string{"x"}), time.Minute)
	granted := monotonic()
	require.NoError(t, g.err)
	token, held := g.a.FencingToken("x")
	require.True(t, held)
	require.Greater(t, token, first.Token, "the storage refuses the old holder")
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGCONT))
	last := h.says("lost")
	require.Less(t, last.Yes, granted, "HasLock said yes after somebody else had the lock")
	require.Contains(t, last.Err, lockservice.ErrLockLost.Error())
	require.True(t, g.a.HasLock(), "the late release of the old holder touches nothing")
	require.NoError(t, g.a.Release(t.Context()))
	t.Logf("HasLock could last be true %v before the next holder's grant", time.Duration(granted-last.Yes))
}

// Freezes that are shorter than what is left of the lease cost nothing.
func TestShortFreezesLoseNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	stalls := watchStalls(t, server)
	h := startHolder(t, server, "hold")
	h.says("granted")
	began := time.Now()
	for range 6 {
		require.NoError(t, h.cmd.Process.Signal(syscall.SIGSTOP))
		wait(t, openedLease/6)
		require.NoError(t, h.cmd.Process.Signal(syscall.SIGCONT))
		wait(t, openedLease/3)
	}
	require.NoError(t, h.in.Close())
	select {
	case w := <-h.words:
		require.True(t, w.What == "released" && w.Err == "" || stalls.since(began), "%+v", w)
	case <-time.After(time.Minute):
		require.FailNow(t, "the process says nothing")
	}
}

// R1, J32: a process whose only thread is busy with other things renews late, from
// absolute times, and keeps its lock. If it were to lose it all the same, HasLock
// would say so before the next holder is in.
func TestStarvedHolderKeepsItsLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	stalls := watchStalls(t, server)
	rival := opened(t, server)
	h := startHolder(t, server, "spin", "GOMAXPROCS=1")
	h.says("granted")
	began, used := time.Now(), processorTime(t, h.cmd.Process.Pid)
	ctx, cancel := context.WithCancel(t.Context())
	theirs := ask2(ctx, rival, writes([]string{"x"}), time.Minute)
	select {
	case g := <-theirs:
		granted := monotonic()
		require.NoError(t, g.err)
		last := h.says("lost")
		require.Less(t, last.Yes, granted, "HasLock said yes after somebody else had the lock")
		got := float64(processorTime(t, h.cmd.Process.Pid)-used) / float64(time.Since(began))
		t.Logf("lost %v before the next grant; it had %.2f of a processor", time.Duration(granted-last.Yes), got)
		require.True(t, got < 0.8 || stalls.since(began), "it had all the time of a processor, and didn't renew")
		require.NoError(t, g.a.Release(t.Context()))
	case <-time.After(3 * openedLease):
	}
	cancel()
	require.NoError(t, h.in.Close())
}

// R3: two hundred callers that wait for one lock cost next to no processor time, and
// few commands.
func TestWaitersAreIdle(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	svc := opened(t, server)
	g := <-ask2(t.Context(), svc, writes([]string{"x"}), time.Minute)
	require.NoError(t, g.err)
	h := startHolder(t, server, "wait")
	h.says("granted")
	require.NoError(t, until(time.Minute, "they wait", func() bool {
		infos, err := svc.GetLockInfo(t.Context(), []string{"x"})
		return err == nil && len(infos[0].Waiting) == 1
	}))
	wait(t, time.Second) // until all of them are parked
	before, used := server.CommandStats(t), processorTime(t, h.cmd.Process.Pid)
	wait(t, 3*time.Second)
	after, spent := server.CommandStats(t), processorTime(t, h.cmd.Process.Pid)-used
	transactions := after["exec"] - before["exec"]
	t.Logf("in 3s: %d transactions, %v of processor time", transactions, spent)
	require.Less(t, transactions, int64(3*3*(openedLease/faultPoll)+30), "polls and renewals, not waiters")
	require.Less(t, spent, time.Second)
	require.NoError(t, g.a.Release(t.Context()))
}

// processorTime is what a process has used so far.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(stat), ") ")
	require.True(t, ok)
	var user, system int64
	_, err = fmt.Sscanf(strings.Join(strings.Fields(rest)[11:13], " "), "%d %d", &user, &system)
	require.NoError(t, err)
	return time.Duration(user+system) * time.Second / 100 // USER_HZ is 100 everywhere
}
