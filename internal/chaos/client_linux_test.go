package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/internal/chaos"
	"github.com/redislockservice/redislockservice/lockservice"
)

// lockNames are few, so that everybody meets everybody.
var lockNames = []string{"a", "b", "c"}

const (
	jobName = "job"
	// longName is held long, so that renewals are met, by one client of each process:
	// somebody holds it and somebody waits for it nearly always.
	longName = "long"
)

// client locks at random. It ignores losses on purpose, and goes on: what it then
// writes has to be refused by the storage.
type client struct {
	w     *worker
	n     int
	rng   *rand.Rand
	turns int
	ids   int
	store *storageClient
}

func newClient(w *worker, n int) *client {
	return &client{w: w, n: n, rng: rand.New(rand.NewPCG(w.cfg.Seed, uint64(n))), store: &storageClient{socket: w.cfg.Storage}}
}

func (c *client) close() { c.store.close() }

// turn is one thread of work: a call, perhaps with another nested in it.
func (c *client) turn() {
	c.turns++
	chain := fmt.Sprintf("%s/%d/%d", c.w.cfg.Name, c.n, c.turns)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if c.rng.IntN(12) == 0 {
		stop := time.AfterFunc(between(c.rng, 0, 400*time.Millisecond), cancel)
		defer stop.Stop()
	}
	switch p := c.rng.IntN(100); {
	case c.n == 0 && p < 60:
		c.long(ctx, chain)
	case p < 6:
		c.job(ctx, chain)
	case p < 8:
		c.overstay(ctx, chain)
	case p < 14:
		name := c.name()
		c.hold(ctx, chain, []chaos.Want{{Name: name}}, func(ctx context.Context) { // an upgrade
			c.hold(ctx, chain, []chaos.Want{{Name: name, Write: true}}, nil)
		})
	case p < 36:
		c.hold(ctx, chain, c.wants(1+c.rng.IntN(2)), func(ctx context.Context) {
			c.hold(ctx, chain, c.wants(1), nil)
		})
	case p < 50:
		c.hold(ctx, chain, c.wants(2+c.rng.IntN(2)), nil)
	default:
		c.hold(ctx, chain, c.wants(1), nil)
	}
	pause(ctx, between(c.rng, 0, 5*time.Millisecond))
}

func (c *client) name() string { return lockNames[c.rng.IntN(len(lockNames))] }

func (c *client) wants(n int) []chaos.Want {
	names := slices.Clone(lockNames)
	c.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var out []chaos.Want
	for _, name := range names[:n] {
		out = append(out, chaos.Want{Name: name, Write: c.rng.IntN(5) < 2})
	}
	return out
}

func (c *client) timeout() time.Duration {
	switch p := c.rng.IntN(10); {
	case p < 2:
		return 0
	case p < 4:
		return between(c.rng, time.Millisecond, 300*time.Millisecond)
	}
	return between(c.rng, time.Second, 6*time.Second)
}

// stay is how long a lock is held: mostly short, sometimes beyond several leases.
func (c *client) stay() time.Duration {
	switch p := c.rng.IntN(100); {
	case p < 70:
		return between(c.rng, 0, 15*time.Millisecond)
	case p < 99:
		return between(c.rng, 0, 150*time.Millisecond)
	}
	return between(c.rng, 0, 3*c.w.cfg.Lease)
}

func (c *client) newID(chain string) string {
	c.ids++
	return fmt.Sprintf("%s#%d", chain, c.ids)
}

// hold acquires, works and releases.
func (c *client) hold(ctx context.Context, chain string, wants []chaos.Want, nested func(context.Context), opts ...lockservice.LockOption) {
	id, timeout := c.newID(chain), c.timeout()
	var locks []lockservice.Lock
	for _, want := range wants {
		if want.Write {
			locks = append(locks, lockservice.WriteLock(want.Name))
		} else {
			locks = append(locks, lockservice.ReadLock(want.Name))
		}
	}
	c.w.tell(chaos.Event{Kind: chaos.EventCall, ID: id, Chain: chain, At: monotonic(), Wants: fresh(ctx, wants), Timeout: int64(timeout)})
	a, err := c.w.svc.Acquire(ctx, locks, append(opts, lockservice.WithTimeout(timeout))...)
	if err != nil {
		c.failed(ctx, id, err)
		return
	}
	at := monotonic()
	token := int64(0)
	for _, want := range fresh(ctx, wants) {
		if t, held := a.FencingToken(want.Name); held {
			token = t
		}
	}
	c.w.tell(chaos.Event{Kind: chaos.EventGot, ID: id, At: at, Token: token})
	l := look(c.w, id, a.HasLock)
	c.work(a.Context(), id, token, fresh(ctx, wants), nested)
	l.stop()
	before := monotonic()
	err = a.Release(context.Background())
	c.w.tell(chaos.Event{Kind: chaos.EventRelease, ID: id, At: before, Until: monotonic(), Lost: err != nil})
}

// fresh are the wants that the chain of ctx doesn't hold: only those are acquired.
func fresh(ctx context.Context, wants []chaos.Want) []chaos.Want {
	var out []chaos.Want
	held, _ := ctx.Value(heldKey{}).([]chaos.Want)
	for _, want := range wants {
		if !slices.ContainsFunc(held, func(h chaos.Want) bool { return h.Name == want.Name && (h.Write || !want.Write) }) {
			out = append(out, want)
		}
	}
	return out
}

type heldKey struct{}

// work reads and writes what the locks are for, and stays for a while.
func (c *client) work(ctx context.Context, id string, token int64, wants []chaos.Want, nested func(context.Context)) {
	var writes []chaos.Want
	for _, want := range wants {
		if want.Write {
			writes = append(writes, want)
		}
	}
	seen, refused := c.store.readAll(writes, token, id)
	for _, e := range refused {
		c.w.tell(e)
	}
	if nested != nil {
		held, _ := ctx.Value(heldKey{}).([]chaos.Want)
		nested(context.WithValue(ctx, heldKey{}, append(slices.Clone(held), wants...)))
	}
	pause(context.Background(), c.stay())
	for _, s := range c.store.writeAll(writes, token, id, seen) {
		c.w.tell(s)
	}
}

// long holds over several renewals.
func (c *client) long(ctx context.Context, chain string) {
	c.hold(ctx, chain, []chaos.Want{{Name: longName, Write: c.rng.IntN(4) > 0}}, func(context.Context) {
		pause(context.Background(), between(c.rng, 0, 3*c.w.cfg.Lease))
	})
}

// overstay works on long after its lock is over: the storage has to notice.
func (c *client) overstay(ctx context.Context, chain string) {
	name := c.name()
	c.hold(ctx, chain, []chaos.Want{{Name: name, Write: true}}, func(context.Context) {
		pause(context.Background(), between(c.rng, c.w.cfg.Lease, 2*c.w.cfg.Lease))
	}, lockservice.WithMaxHold(between(c.rng, 50*time.Millisecond, 300*time.Millisecond)))
}

// job runs a task under a job lock.
func (c *client) job(ctx context.Context, chain string) {
	id, name := c.newID(chain), jobName
	if c.rng.IntN(3) == 0 {
		name = c.name()
	}
	atMost := between(c.rng, 500*time.Millisecond, 2*c.w.cfg.Lease).Truncate(time.Millisecond)
	atLeast := between(c.rng, 0, 300*time.Millisecond).Truncate(time.Millisecond)
	wants := []chaos.Want{{Name: name, Write: true}}
	c.w.tell(chaos.Event{Kind: chaos.EventCall, ID: id, Chain: chain, At: monotonic(), Wants: wants, Job: true, AtLeast: int64(atLeast)})
	ran, err := c.w.svc.Execute(ctx, name, atMost, atLeast, func(ctx context.Context) error {
		at := monotonic()
		token, _ := lockservice.FencingToken(ctx, name)
		c.w.tell(chaos.Event{Kind: chaos.EventGot, ID: id, At: at, Token: token})
		l := look(c.w, id, func() bool { _, held := lockservice.FencingToken(ctx, name); return held })
		c.work(ctx, id, token, wants, nil)
		l.stop()
		return nil
	})
	switch {
	case ran:
		now := monotonic()
		c.w.tell(chaos.Event{Kind: chaos.EventRelease, ID: id, At: now, Until: now, Lost: err != nil})
	case err == nil:
		c.w.tell(chaos.Event{Kind: chaos.EventFailed, ID: id, At: monotonic(), Outcome: chaos.NotInTime})
	default:
		c.failed(ctx, id, err)
	}
}

func (c *client) failed(ctx context.Context, id string, err error) {
	outcome := chaos.Unexpected
	switch {
	case errors.Is(err, lockservice.ErrDeadlock):
		outcome = chaos.Deadlock
	case errors.Is(err, lockservice.ErrLockLost):
		outcome = chaos.Lost
	case ctx.Err() != nil && errors.Is(err, ctx.Err()) && errors.Is(err, lockservice.ErrNotAcquired):
		outcome = chaos.Cancelled
	case errors.Is(err, lockservice.ErrUnavailable):
		outcome = chaos.Unavailable
	case errors.Is(err, lockservice.ErrNotAcquired):
		outcome = chaos.NotInTime
	}
	text := ""
	if outcome == chaos.Deadlock || outcome == chaos.Unexpected {
		text = strings.ReplaceAll(err.Error(), "\n", " ")
	}
	c.w.tell(chaos.Event{Kind: chaos.EventFailed, ID: id, At: monotonic(), Outcome: outcome, Error: text})
}

// looker asks HasLock again and again while a lock is held, on a goroutine of its
// own: the work may be waiting for something.
type looker struct {
	w       *worker
	id      string
	hasLock func() bool
	end     chan struct{}
	done    sync.WaitGroup

	// Of the first call, and then of the goroutine.
	lastTrue, told             int64
	untold, wasFalse, regained bool
}

const (
	lookEvery = 2 * time.Millisecond
	tellEvery = 20 * time.Millisecond // a killed process has told at least that much
)

// look begins to ask, and has asked once when it returns.
func look(w *worker, id string, hasLock func() bool) *looker {
	l := &looker{w: w, id: id, hasLock: hasLock, end: make(chan struct{})}
	l.ask()
	l.done.Go(l.run)
	return l
}

func (l *looker) run() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.ask()
		case <-l.end:
			l.ask()
			l.tell()
			return
		}
	}
}

func (l *looker) ask() {
	now := monotonic()
	if l.hasLock() {
		l.lastTrue, l.untold = now, true
		l.regained = l.regained || l.wasFalse
		if now-l.told > int64(tellEvery) || l.regained {
			l.tell()
		}
		return
	}
	l.tell()
	if !l.wasFalse {
		l.wasFalse = true
		l.w.tell(chaos.Event{Kind: chaos.EventFalse, ID: l.id, At: now, Until: monotonic()})
	}
}

func (l *looker) tell() {
	if l.untold {
		l.w.tell(chaos.Event{Kind: chaos.EventTrue, ID: l.id, At: l.lastTrue, Again: l.regained})
		l.told, l.untold = l.lastTrue, false
	}
}

func (l *looker) stop() {
	close(l.end)
	l.done.Wait()
}
