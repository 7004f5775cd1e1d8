package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

const (
	toyLease  = 10 * time.Second
	toyMargin = 100 * time.Millisecond
	toyKey    = "{toy}:lock"
	toyWake   = "{toy}:wake"
)

// mistakes are what the scheduler has to find in a toy lock.
type mistakes struct {
	believesUnknown bool // an unknown outcome counts as granted
	trustsFromReply bool // the lease is counted from the reply, not from before TIME was asked for
	releasesBlindly bool // the record is deleted, whosever it is
	ignoresRestart  bool // no hold-off after a restart
	waitsForWakeUps bool // never looks by itself
}

// toy is one client of a lock without renewal: small, right under the faults
// that toyFaults leaves, and wrong in each of the ways of mistakes.
type toy struct {
	p     *Port
	wrong mistakes
	wake  chan struct{}

	mu      sync.Mutex // guards trusted: the scheduler reads it while everything stands still, but a timer is no memory barrier
	trusted time.Time  // holds the lock until then
}

func (c *toy) trust(until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trusted = until
}

func (c *toy) holds() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.trusted) && !isClosed(c.p.node.killed)
}

var toyFaults = []string{
	DoFlush, DoEvict, DoFailover, DoClock, // a lock without a memory of its server doesn't survive them
	DoRevoke, // leaves a delete without its message
}

type toyWorld []*toy

// toyLocks builds a world of toys that each get the lock so many times.
func toyLocks(rounds int, wrong mistakes) func(w *World) {
	return func(w *World) {
		var all toyWorld
		for i := range 2 + w.Pick(3) {
			name := fmt.Sprintf("toy-%d", i)
			c := &toy{p: w.Port(name), wrong: wrong, wake: make(chan struct{}, 1)}
			all = append(all, c)
			c.p.Subscribe(toyWake, Handler{Message: func(string) { c.kick() }, Up: c.kick})
			w.Cleanup(c.p.Close)
			random := w.Rand(uint64(i))
			w.Go(name, func(ctx context.Context) {
				for range rounds {
					c.round(ctx, time.Duration(random.IntN(2)*12000+random.IntN(3000))*time.Millisecond)
				}
			})
		}
		w.Check(func() error { return all.oneHolder() })
	}
}

func (a toyWorld) oneHolder() error {
	holders := 0
	for _, c := range a {
		if c.holds() {
			holders++
		}
	}
	if holders > 1 {
		return errors.New("two holders")
	}
	return nil
}

func (c *toy) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// round acquires, holds and releases once.
func (c *toy) round(ctx context.Context, hold time.Duration) {
	var trusted time.Time
	for trusted.IsZero() {
		if ctx.Err() != nil {
			return
		}
		if trusted = c.acquire(); trusted.IsZero() {
			c.pause(ctx)
		}
	}
	c.trust(trusted)
	c.sleep(ctx, hold)
	c.trust(time.Time{})
	for range 3 {
		if c.release() == nil {
			return
		}
	}
}

func (c *toy) pause(ctx context.Context) {
	poll := time.After(5 * time.Second)
	if c.wrong.waitsForWakeUps {
		poll = nil
	}
	select {
	case <-c.wake:
	case <-poll:
	case <-ctx.Done():
	}
}

func (c *toy) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// exchange has a timeout of its own: a request must be given up at some time,
// and goes on even if the client's ctx has ended.
func (c *toy) exchange(w *exchange.Writes, keys ...string) (bool, exchange.Snapshot, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	return c.p.Exchange(ctx, w, keys)
}

// acquire returns until when the lock is held; zero: it isn't.
func (c *toy) acquire() time.Time {
	asked := time.Now()
	_, snap, err := c.exchange(nil, toyKey)
	if err != nil || !c.free(snap) {
		return time.Time{}
	}
	expires := snap.Micros + toyLease.Microseconds()
	w := &exchange.Writes{Sets: []exchange.Set{{Key: toyKey, Value: fmt.Appendf(nil, "%s %d", c.p.Node(), expires), TTL: 2 * toyLease}}}
	committed, _, err := c.exchange(w)
	if c.wrong.believesUnknown && err != nil {
		committed = true
	}
	if c.wrong.trustsFromReply {
		asked = time.Now()
	}
	trusted := asked.Add(toyLease - toyMargin)
	if !committed || !time.Now().Before(trusted) {
		return time.Time{}
	}
	return trusted
}

func (c *toy) free(snap exchange.Snapshot) bool {
	if up := time.Duration(snap.Uptime) * time.Second; up < toyLease+time.Second && !c.wrong.ignoresRestart {
		return false
	}
	_, expires := holder(snap)
	return snap.Micros > expires
}

func holder(snap exchange.Snapshot) (owner string, expires int64) {
	_, _ = fmt.Sscan(string(snap.Values[0].Data), &owner, &expires)
	return owner, expires
}

func (c *toy) release() error {
	_, snap, err := c.exchange(nil, toyKey)
	if err != nil {
		return err
	}
	if owner, _ := holder(snap); owner != c.p.Node() && !c.wrong.releasesBlindly {
		return nil
	}
	_, _, err = c.exchange(&exchange.Writes{Deletes: []string{toyKey},
		Publishes: []exchange.Publish{{Channel: toyWake, Message: "free"}}})
	return err
}
