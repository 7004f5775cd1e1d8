package lockservice

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/deadlock"
	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/pubsub"
)

const (
	// announceAfter is how long a call that holds nothing waits before it is
	// told to the other nodes. Most waits are shorter, and such a call can be
	// part of a deadlock only as a waiting writer.
	announceAfter = 20 * time.Millisecond
	// coalesce is the least time between two messages about changes.
	coalesce = 3 * time.Millisecond
	// answerWithin is the time over which the answers of several nodes to one
	// that asks are spread.
	answerWithin = 10 * time.Millisecond
)

// detector tells the other nodes who waits here, hears who waits there, and
// ends the wait of a call that is the victim of a deadlock, once the records
// confirm it.
//
// Lock order: detector.mu is a leaf; nothing is called while it is held but
// methods of the table, which is pure.
type detector struct {
	s       *RedisLockService
	channel string
	sub     subscription

	mu      sync.Mutex // guards the fields below
	table   *deadlock.Table
	parked  map[string]*parkedCall // by acquisition id
	later   []*parkedCall          // not announced yet, in the order of their time
	search  []deadlock.Key
	suspect map[string]struct{} // victims being confirmed
	answer  bool                // a node has asked for the whole list
	ask     map[string]struct{} // nodes to be asked for theirs; "" is all
	posting bool                // post is under way

	work chan struct{}   // cap 1
	ctx  context.Context // done when the detector is closed
	stop context.CancelFunc
	done sync.WaitGroup
}

// parkedCall is a call of this node that waits.
type parkedCall struct {
	w         lane.Waiting
	waiter    deadlock.Waiter
	at        time.Duration // when it is announced
	announced bool
	gone      bool
}

func newDetector(s *RedisLockService) *detector {
	table, err := deadlock.NewTable(deadlock.Config{Node: s.node, Incarnation: 1,
		LapseMillis: 3 * s.cfg.pollDelay.Milliseconds()})
	if err != nil {
		panic(err) // the options have been checked: it would be a mistake in this package
	}
	ctx, stop := context.WithCancel(context.Background())
	return &detector{s: s, ctx: ctx, stop: stop, channel: s.cfg.keys.Waiting(), table: table, parked: make(map[string]*parkedCall),
		suspect: make(map[string]struct{}), ask: make(map[string]struct{}),
		work: make(chan struct{}, 1)}
}

// listen subscribes and asks the other nodes who waits there.
func (d *detector) listen(ctx context.Context) error {
	sub, err := d.s.bus.Subscribe(ctx, d.channel, pubsub.Handler{Message: d.heard, Up: d.back, Down: d.down})
	if err != nil {
		return err
	}
	d.sub = sub
	d.done.Go(d.run)
	d.back()
	return nil
}

func (d *detector) close() {
	d.stop()
	if d.sub != nil {
		d.sub.Close()
	}
	d.done.Wait()
}

func (d *detector) kick() {
	select {
	case d.work <- struct{}{}:
	default:
	}
}

// waits is told by the lane that a call is parked, or is still.
func (d *detector) waits(w lane.Waiting) {
	tag, ok := w.Tag.(*waitTag)
	if !ok {
		return
	}
	d.mu.Lock()
	c := d.parked[w.ID]
	if c == nil {
		c = &parkedCall{at: d.s.clock.now() + announceAfter}
		d.parked[w.ID] = c
		d.later = append(d.later, c)
	}
	c.w = w
	c.waiter = tag.waiter(w)
	if len(c.waiter.Holds) > 0 || c.announced {
		d.announceLocked(c)
	}
	d.mu.Unlock()
	d.kick()
}

func (d *detector) announceLocked(c *parkedCall) {
	c.announced = true
	d.search = append(d.search, d.table.Put(c.waiter)...)
}

// gone is told by the lane that a parked call has ended.
func (d *detector) gone(id string) {
	d.mu.Lock()
	c := d.parked[id]
	if c != nil {
		c.gone = true
		delete(d.parked, id)
		if c.announced {
			d.search = append(d.search, d.table.Remove(id)...)
		}
	}
	d.mu.Unlock()
	if c != nil {
		d.kick()
	}
}

// heard takes a message of another node, on the subscription's goroutine. A
// message is a hint; what can't be read is dropped.
func (d *detector) heard(payload string) {
	m, err := deadlock.Decode([]byte(payload), deadlock.Limits{})
	if err != nil {
		d.s.log.Debug("a message about waiting calls could not be read", zap.Error(err))
		return
	}
	d.mu.Lock()
	a := d.table.Apply(m, d.nowMillis())
	d.search = append(d.search, a.Search...)
	d.answer = d.answer || a.Answer
	if a.Ask != "" {
		d.ask[a.Ask] = struct{}{}
	}
	work := len(d.search) > 0 || d.answer || len(d.ask) > 0
	d.mu.Unlock()
	if work {
		d.kick()
	}
}

// back: messages may have been missed, so everybody is asked, and told.
func (d *detector) back() {
	d.mu.Lock()
	d.ask[""] = struct{}{}
	d.answer = true
	d.mu.Unlock()
	d.kick()
}

func (d *detector) down(error) {
	d.s.log.Warn("deadlocks with other nodes are found later until the subscription is back")
}

func (d *detector) nowMillis() int64 { return d.s.clock.now().Milliseconds() }

// run publishes and searches. Changes that come together are told together.
func (d *detector) run() {
	next := time.NewTimer(d.s.cfg.pollDelay)
	defer next.Stop()
	repeatAt := d.s.clock.now() + d.s.cfg.pollDelay
	for {
		select {
		case <-d.work:
		case <-next.C:
		case <-d.ctx.Done():
			return
		}
		now := d.s.clock.now()
		messages := d.collect(now, now >= repeatAt)
		if now >= repeatAt {
			repeatAt = now + d.s.cfg.pollDelay
		}
		d.publish(messages)
		// Nothing to do: several changes had come together. That is no reason to
		// let the next one wait.
		if searched := d.judge(); (searched || len(messages) > 0) && !d.rest(coalesce) {
			return
		}
		next.Reset(d.untilNext(repeatAt))
	}
}

func (d *detector) rest(t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.ctx.Done():
		return false
	}
}

// collect announces those who have waited long enough and returns what is to be
// published. With repeat, everything is told again and searched again: a
// deadlock whose messages were lost is found then.
func (d *detector) collect(now time.Duration, repeat bool) [][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.later) > 0 && (d.later[0].gone || d.later[0].announced || d.later[0].at <= now) {
		if c := d.later[0]; !c.gone && !c.announced {
			d.announceLocked(c)
		}
		d.later[0] = nil
		d.later = d.later[1:]
	}
	var out [][]byte
	for _, node := range slices.Sorted(maps.Keys(d.ask)) {
		out = append(out, d.table.Ask(node))
	}
	clear(d.ask)
	switch {
	case repeat:
		d.table.Expire(now.Milliseconds())
		for _, id := range slices.Sorted(maps.Keys(d.parked)) {
			if d.parked[id].announced {
				d.search = append(d.search, deadlock.Key{Node: d.s.node, ID: id})
			}
		}
		out = append(out, d.table.Repeat()...)
		d.postLocked()
	case d.answer:
		d.done.Go(d.answerLater)
	}
	d.answer = false
	return append(out, d.table.Delta()...)
}

// answerLater tells everything once, after a random pause: several nodes are
// asked at the same time.
func (d *detector) answerLater() {
	if !d.rest(d.s.jitter(answerWithin)) {
		return
	}
	d.mu.Lock()
	out := d.table.Full()
	d.mu.Unlock()
	d.publish(out)
}

func (d *detector) untilNext(repeatAt time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := repeatAt
	if len(d.later) > 0 {
		at = min(at, d.later[0].at)
	}
	return max(at-d.s.clock.now(), 0)
}

func (d *detector) publish(messages [][]byte) {
	ctx, cancel := context.WithTimeout(d.ctx, d.s.cfg.opTimeout)
	defer cancel()
	for _, m := range messages {
		if err := d.s.bus.Publish(ctx, d.channel, string(m)); err != nil {
			// Told again with the next repeat.
			d.s.log.Debug("who waits here could not be told to the other nodes", zap.Error(err))
			return
		}
	}
}

// waitTag is what the detector needs to know of a waiting call.
type waitTag struct {
	owner string
	chain *Acquisition
	site  *callStack
}

func (t *waitTag) waiter(w lane.Waiting) deadlock.Waiter {
	out := deadlock.Waiter{ID: w.ID, Owner: t.owner, SinceMicros: int64(w.Since), Site: t.site.String()}
	for _, want := range w.Wants {
		write := want.Mode == lockrules.Write
		out.Wants = append(out.Wants, deadlock.Want{Name: want.Name, Write: write, Past: !write && goesPast(w, want.Name)})
	}
	for h := t.chain; h != nil; h = h.parent {
		if h.state.Load() != stateHeld {
			continue
		}
		for _, want := range h.wants {
			out.Holds = append(out.Holds, deadlock.Hold{Name: want.Name, Write: want.Mode == lockrules.Write, ID: h.id})
		}
	}
	return out
}

// goesPast says whether a reader goes past all writers that wait for name, as soon
// as it starves: they came later. A cycle by one of them dissolves by itself.
func goesPast(w lane.Waiting, name string) bool {
	return !slices.ContainsFunc(w.Blockers, func(b lockrules.Blocker) bool {
		return b.Name == name && b.Reason == lockrules.WriterWaits && b.Since < w.Since.Millis()
	})
}
