package lockservice

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// simClient is code that uses a service: one goroutine, one chain at a time.
type simClient struct {
	s      *simWorld
	n      *simNode
	number int
	class  int64 // see simClasses
	names  int
	random *rand.Rand
	past   map[*Acquisition]bool // those that HasLock was false of
	call   *simCall              // that is under way; guarded by simWorld.mu
}

const (
	simRounds = 8 // of a client at most
	simCalm   = 2 // of those, how many without faults: it must be served, and the next time too
	simDepth  = 3
)

func (c *simClient) turn() { c.s.w.Turn(c.n.name, c.number) }

func (c *simClient) live(ctx context.Context) {
	ctx = context.WithValue(ctx, simClientKey{}, c.number)
	c.past = make(map[*Acquisition]bool)
	calm := 0
	for range simRounds {
		c.turn()
		if ctx.Err() != nil || calm == simCalm {
			return
		}
		if c.s.w.Frozen() {
			calm++
		}
		c.ask(ctx, 0)
		c.sleep(ctx)
	}
}

// simClasses divides time: each client acts at nanoseconds of a class of its own.
// Whatever it starts is over a multiple of milliseconds later, which is a multiple
// of simClasses nanoseconds as well. So no two clients' timers end at one instant:
// the order of those that do is drawn by the Go runtime, and the run would not be
// the same again. Classes are even; the odd ones are for timeouts of a nanosecond.
const simClasses = 64

// ownMoment is the time from now until the client's first moment after span.
func (c *simClient) ownMoment(span time.Duration) time.Duration {
	at := time.Now().Add(span).UnixNano()
	return span + time.Duration((c.class-at%simClasses+simClasses)%simClasses)
}

// span is a random one below limit that changes nobody's class.
func (c *simClient) span(limit time.Duration) time.Duration {
	return simClasses * time.Duration(c.random.Int64N(int64(limit/simClasses)))
}

func (c *simClient) sleep(ctx context.Context) {
	scale := []time.Duration{time.Millisecond, 50 * time.Millisecond, time.Second, simLease}[c.random.IntN(4)]
	if c.s.w.Frozen() {
		scale = time.Millisecond // nodes that idle talk all the time, and nothing can go wrong with it
	}
	select {
	case <-time.After(c.ownMoment(c.span(scale))):
	case <-ctx.Done():
	}
}

// ask asks for some locks and does something with them.
func (c *simClient) ask(ctx context.Context, depth int) {
	locks := c.locks()
	ctx, cancel := c.patience(ctx)
	defer cancel()
	timeout := c.timeout()
	frozen := c.s.kind == simLive && c.s.w.Frozen()
	if frozen {
		timeout = simForEver
	}
	faketime.Pass(c.ownMoment(1))
	began := time.Now()
	var err error
	switch kind := c.random.IntN(10); {
	case kind == 0 && depth == 0:
		err = c.job(ctx, locks[0].name)
	case kind < 4:
		end := c.asks(locks)
		err = c.closure(ctx, locks, timeout, depth)
		end(err)
	default:
		end := c.asks(locks)
		var a *Acquisition
		if a, err = c.n.svc.Acquire(ctx, locks, WithTimeout(timeout)); err == nil {
			c.inside(a, depth)
			err = c.release(ctx, a)
		} else {
			end(err)
			c.judge(began, timeout, err)
		}
	}
	c.outcome(ctx, err, frozen)
}

const simForEver = 30 * time.Minute

func (c *simClient) locks() []Lock {
	all := []Lock{ReadLock("a"), WriteLock("a"), ReadLock("b"), WriteLock("b"), ReadLock("c"), WriteLock("c"), ReadLock("d"), WriteLock("d")}[:2*c.names]
	var locks []Lock
	for range 1 + c.random.IntN(2)*c.random.IntN(2) {
		locks = append(locks, all[c.random.IntN(len(all))])
	}
	return locks
}

func (c *simClient) timeout() time.Duration {
	all := []time.Duration{0, 1, 30 * time.Millisecond, 2 * time.Second, 15 * time.Second, time.Minute}
	t := all[c.random.IntN(len(all))]
	if t > time.Millisecond {
		t += c.span(time.Millisecond)
	}
	return t
}

// patience is a context that may end before the locks are there.
func (c *simClient) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.random.IntN(5) > 0 || c.s.w.Frozen() {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.ownMoment(c.span(3*time.Second)))
}

// judge says whether a call came back in time.
func (c *simClient) judge(began time.Time, timeout time.Duration, err error) {
	if took := time.Since(began); took > timeout+4*simOp {
		c.s.fail("a call with a timeout of %v took %v: %v", timeout, took, err)
	}
}

func (c *simClient) closure(ctx context.Context, locks []Lock, timeout time.Duration, depth int) error {
	acquired, err := c.n.svc.TryLock(ctx, locks, func(ctx context.Context, _ HasLock) error {
		a, _ := ctx.Value(innermostKey{}).(*Acquisition)
		c.inside(a, depth)
		c.leave(a)
		return nil
	}, WithTimeout(timeout), WithKeepLockData())
	if !acquired && err == nil {
		return ErrNotAcquired
	}
	return err
}

func (c *simClient) job(ctx context.Context, name string) error {
	atMost := time.Duration(1+c.random.Int64N(int64(2*simLease/time.Millisecond))) * time.Millisecond
	ran, err := c.n.svc.Execute(ctx, name, atMost, time.Duration(c.random.Int64N(int64(atMost))), func(ctx context.Context) error {
		a, _ := ctx.Value(innermostKey{}).(*Acquisition)
		c.s.count("a job ran")
		c.inside(a, 0)
		c.leave(a)
		return nil
	})
	switch {
	case !ran && err == nil:
		c.s.count("a job was skipped")
	case ran && errors.Is(err, ErrLockLost):
		c.s.count("a job lost its lock")
	}
	return err
}

// inside is the protected code.
func (c *simClient) inside(a *Acquisition, depth int) {
	c.enter(a)
	c.turn() // for what follows, if only the release
	for range c.random.IntN(4) {
		if depth+1 < simDepth && c.random.IntN(3) == 0 {
			c.ask(a.Context(), depth+1)
		} else {
			c.sleep(a.Context())
		}
		c.turn()
		c.look(a)
		if a.Context().Err() != nil && c.random.IntN(2) == 0 {
			return
		}
	}
}

func (c *simClient) enter(a *Acquisition) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.parent == nil && !a.HasLock() {
		s.fail("%s: code starts without its lock", a.id)
	}
	s.held = append(s.held, simHeld{a, c})
	s.graph.servedLocked(a, c)
	s.judge.enteredLocked(a)
	for _, w := range a.wants {
		if h, mode := a.parent.find(w.Name); h != nil && mode == lockrules.Read && w.Mode == lockrules.Write {
			s.counts["a read lock was upgraded"]++
		}
	}
	switch {
	case len(a.wants) > 1:
		s.counts["several locks were acquired together"]++
	case len(a.wants) == 0:
		s.counts["all locks were reused"]++
	}
}

// look is what the code sees of its locks, and its write to a storage.
func (c *simClient) look(a *Acquisition) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	has := a.HasLock()
	if has && c.past[a] {
		s.fail("%s: HasLock is true after it was false", a.id)
	}
	if !has {
		c.past[a] = true
		s.counts["code ran on without its lock"]++
	}
	s.judge.storeLocked(a, has)
}

// leave is the end of the code; the release follows.
func (c *simClient) leave(a *Acquisition) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.dropLocked(a)
	delete(c.past, a)
}

func (c *simClient) release(ctx context.Context, a *Acquisition) error {
	c.leave(a)
	return a.Release(ctx)
}

// outcome sorts what came of a call.
func (c *simClient) outcome(ctx context.Context, err error, mustBeServed bool) {
	s := c.s
	var refused *NotAcquiredError
	switch {
	case err == nil:
		s.count("a call was served")
		return
	case errors.Is(err, ErrDeadlock):
		s.count("a deadlock was broken")
		return
	case errors.Is(err, ErrLockLost):
		s.count("a lock was lost")
		return
	case ctx.Err() != nil:
		s.count("a caller left")
		return
	case errors.Is(err, ErrClosed):
		s.count("a call met a closed service")
		return
	case errors.Is(err, ErrUnavailable):
		s.count("redis was unavailable")
	case errors.As(err, &refused) && slices.ContainsFunc(refused.Blockers, func(b Blocker) bool { return b.HoldOff }):
		s.count("a call met a hold-off")
	case errors.As(err, &refused) && slices.ContainsFunc(refused.Blockers, func(b Blocker) bool { return b.Waiting }):
		s.count("a reader stepped down for a writer")
	case errors.Is(err, ErrNotAcquired):
		s.count("a call was not served")
	default:
		s.fail("unexpected: %v", err)
	}
	if mustBeServed && !errors.Is(err, ErrClosed) {
		s.fail("%s, client %d: not served without any fault: %v", c.n.name, c.number, err)
	}
}
