package lockservice_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

// faultsEnv asks, with the value all, for every point. Otherwise it is one in so
// many, others for each operation.
const faultsEnv = "LOCKSERVICE_FAULTS"

func everyFault() bool { return os.Getenv(faultsEnv) == "all" }

const (
	cutStride   = 29
	pauseStride = 3
	// How many points of one operation are tried at a time. A pause is mostly waiting.
	cutRigs   = 8
	pauseRigs = 12
)

// trip is how many bytes one operation sends and gets.
type trip struct{ up, down int64 }

// measure runs the operation without a fault, several times: the replies of INFO
// differ by a byte now and then.
func measure(t *testing.T, r *rig, op faultOp, stalls *stallWatch) (longest trip, up, down []byte) {
	t.Helper()
	for i := range 5 {
		require.NoError(t, stalls.excuse(func(attempt int) error {
			var before trip
			p := &point{rig: r, name: fmt.Sprintf("%d%05d", attempt, 90_000+i)}
			p.arm = func() <-chan struct{} {
				before.up, before.down = r.proxy.Bytes()
				r.tape.start()
				return nil
			}
			p.done = func() {
				nowUp, nowDown := r.proxy.Bytes()
				up, down = r.tape.stop()
				longest.up, longest.down = max(longest.up, nowUp-before.up), max(longest.down, nowDown-before.down)
			}
			return op.run(p)
		}), "without a fault")
	}
	return longest, up, down
}

// runPoints tries points on rigs of its own, several at a time. It returns how
// many faults struck, and the longest time until a lock was to be had again.
func runPoints(t *testing.T, server *redistest.Server, op faultOp, first *rig, points []fault, rigsAtMost int, stalls *stallWatch) (struck int64, worst time.Duration) {
	t.Helper()
	work := make(chan fault)
	var all sync.WaitGroup
	var mu sync.Mutex // guards worst and failures
	var failures []error
	var hits atomic.Int64
	rigs := []*rig{first}
	for len(rigs) < min(rigsAtMost, len(points)) {
		rigs = append(rigs, newRig(t, server, op.renewal))
	}
	for _, r := range rigs {
		all.Go(func() {
			for f := range work {
				next, hit, err := f.insist(r, op, stalls)
				if hit {
					hits.Add(1)
				}
				mu.Lock()
				worst = max(worst, next)
				if err != nil {
					failures = append(failures, fmt.Errorf("%v: %w", f, err))
				}
				mu.Unlock()
			}
		})
	}
	for _, f := range points {
		mu.Lock()
		broken := len(failures)
		mu.Unlock()
		if broken > 5 {
			break
		}
		work <- f
	}
	close(work)
	all.Wait()
	require.NoError(t, errors.Join(failures...))
	return hits.Load(), worst
}

// fault is what is to happen: after so many bytes of one direction, a cut, or a
// pause of so long.
type fault struct {
	number int
	down   bool
	after  int64
	pause  time.Duration // 0: a cut

	attempt int
}

func (f fault) String() string {
	direction, what := "request", "cut"
	if f.down {
		direction = "reply"
	}
	if f.pause > 0 {
		what = fmt.Sprintf("held back for %v", f.pause)
	}
	return fmt.Sprintf("%s %s after %d bytes", direction, what, f.after)
}

func (f fault) set(proxy *redistest.Proxy) <-chan struct{} {
	switch {
	case f.pause == 0 && f.down:
		return proxy.CutAfterDown(f.after)
	case f.pause == 0:
		return proxy.CutAfterUp(f.after)
	case f.down:
		return proxy.PauseAfterDown(f.after)
	}
	return proxy.PauseAfterUp(f.after)
}

// insist tries the point again if this machine stood still meanwhile.
func (f fault) insist(r *rig, op faultOp, stalls *stallWatch) (next time.Duration, struck bool, err error) {
	err = stalls.excuse(func(attempt int) (err error) {
		f.attempt = attempt
		next, struck, err = f.try(r, op)
		return err
	})
	return next, struck, err
}

// try runs the operation with the fault in it.
func (f fault) try(r *rig, op faultOp) (next time.Duration, struck bool, err error) {
	p := &point{rig: r, name: fmt.Sprintf("%d%05d", f.attempt, f.number), long: f.pause > faultLease, done: func() {}}
	var strikes <-chan struct{}
	p.arm = func() <-chan struct{} {
		strikes = f.set(r.proxy)
		if f.pause > 0 {
			go f.heal(r.proxy, strikes)
		}
		return strikes
	}
	err = op.run(p)
	select {
	case <-strikes:
		struck = true
	default:
	}
	r.proxy.Resume() // a limit that wasn't reached must not strike the next point
	return p.next, struck, err
}

func (f fault) heal(proxy *redistest.Proxy, strikes <-chan struct{}) {
	select {
	case <-strikes:
		<-time.After(f.pause)
	case <-time.After(faultPatience): // the operation was over before
	}
	proxy.Resume()
}

// The connection is cut before each byte of what one operation sends, so that the
// server has seen only the beginning, and before each byte of what it gets, so
// that the server has done everything and the caller doesn't know.
//
// By default it is one byte in so many; make faults cuts at every one.
func TestConnectionCutAtEachByte(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for at, op := range faultOps {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			stalls := watchStalls(t, server)
			r := newRig(t, server, op.renewal)
			bytes, _, _ := measure(t, r, op, stalls)
			var points []fault
			for _, down := range []bool{false, true} {
				length := bytes.up
				if down {
					length = bytes.down
				}
				stride := int64(cutStride)
				if everyFault() {
					stride = 1
				}
				for n := int64(at) % stride; n < length; n += stride {
					points = append(points, fault{number: len(points), down: down, after: n})
				}
			}
			began := time.Now()
			struck, worst := runPoints(t, server, op, r, points, cutRigs, stalls)
			t.Logf("request %d bytes, reply %d bytes: %d points, %d cut, in %v; a lock was to be had again after %v at most",
				bytes.up, bytes.down, len(points), struck, time.Since(began).Round(time.Millisecond), worst.Round(time.Millisecond))
			require.Greater(t, struck*10, int64(len(points))*9, "nearly every cut strikes")
		})
	}
}

// Each direction is held back before each command, or reply, of an operation: for
// shorter than a lease, and for longer. What was held back is delivered then, also
// the request of a caller who has given up long ago.
func TestNetworkSilentAtEachStep(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for at, op := range faultOps {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			stalls := watchStalls(t, server)
			r := newRig(t, server, op.renewal)
			_, up, down := measure(t, r, op, stalls)
			var points []fault
			for _, pause := range []time.Duration{faultLease / 4, faultLease * 8 / 5} {
				for _, n := range steps(t, up) {
					points = append(points, fault{number: len(points), after: n, pause: pause})
				}
				for _, n := range steps(t, down) {
					points = append(points, fault{number: len(points), down: true, after: n, pause: pause})
				}
			}
			if !everyFault() {
				points = slices.DeleteFunc(points, func(f fault) bool { return f.number%pauseStride != at%pauseStride })
			}
			began := time.Now()
			struck, worst := runPoints(t, server, op, r, points, pauseRigs, stalls)
			t.Logf("%d commands, %d replies: %d points, %d struck, in %v; a lock was to be had again after %v at most",
				len(steps(t, up)), len(steps(t, down)), len(points), struck, time.Since(began).Round(time.Millisecond), worst.Round(time.Millisecond))
			require.Positive(t, struck)
		})
	}
}

// steps are where the commands, or replies, in a stream begin.
func steps(t *testing.T, stream []byte) []int64 {
	t.Helper()
	var begins []int64
	for at := 0; at < len(stream); {
		begins = append(begins, int64(at))
		end := skipReply(stream, at)
		require.Greater(t, end, at, "a stream of the protocol: %q", stream[at:])
		at = end
	}
	return begins
}

// skipReply returns where the value that begins at a place of a stream ends.
func skipReply(stream []byte, at int) int {
	lineEnd := slices.Index(stream[at:], '\n')
	if lineEnd < 0 {
		return -1
	}
	line := stream[at+1 : at+lineEnd-1]
	end := at + lineEnd + 1
	count := 0
	for _, digit := range line {
		if digit < '0' || digit > '9' {
			count = -1
			break
		}
		count = count*10 + int(digit-'0')
	}
	switch stream[at] {
	case '$', '=':
		if count >= 0 {
			end += count + 2
		}
	case '*', '~', '>':
		for ; count > 0 && end > 0; count-- {
			end = skipReply(stream, end)
		}
	}
	return end
}
