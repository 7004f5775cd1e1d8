package lockservice

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// simGraph is who waits for whom, as it is: from what clients have asked for and
// from what was committed, not from what nodes tell each other. It judges the
// detector: no victim without a cycle, no cycle that stands. All of it needs
// simWorld.mu.
type simGraph struct {
	s       *simWorld
	calls   []*simCall             // that run, or have ended a short while ago
	past    map[string][]simPast   // by lock: its records, the last first
	clients map[string]*simClient  // by acquisition id
	since   map[*simCall]time.Time // from when on a call has been in a cycle
	looked  time.Time
}

// simCall is a call that asks for locks.
type simCall struct {
	c     *simClient
	wants []lockrules.Want
	// missing is what the client didn't have when it asked: its node has marks for
	// that only.
	missing []lockrules.Want
	ended   time.Time
}

// simPast is a record from when it was committed, until that of the next.
type simPast struct {
	rec   lockrules.Record
	from  time.Time
	until time.Time // zero: it is the last
	at    lockrules.Millis
}

// The confirmation of a cycle rests on records that are at most simSeen old. A
// call that has ended counts for as long as its node's mark stands: it is admitted
// that a victim dies for one that had no chance to tell anybody.
//
// A cycle is found within two polls as a rule. But one through a waiter of a node
// that has crashed, which no record confirms, is found in its place for as long as
// the crashed node's news count: three polls, and one until the next search. What the
// last fault has cut off may take simOp to notice.
const (
	simSeen    = simOp + 100*time.Millisecond
	simLapse   = 3*simPoll + simOp
	simStands  = 2*simPoll + simOp + time.Second // how long a cycle may stand without faults
	simPastMax = 64
)

func newSimGraph(s *simWorld) simGraph {
	return simGraph{s: s, past: make(map[string][]simPast), clients: make(map[string]*simClient), since: make(map[*simCall]time.Time)}
}

// ask notes a call; its end is noted by the function that it returns, or when
// the call's code starts.
func (c *simClient) asks(locks []Lock) (end func(err error)) {
	wants, err := wantsOf(locks)
	if err != nil {
		panic(err)
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	call := &simCall{c: c, wants: wants, missing: slices.DeleteFunc(slices.Clone(wants), func(w lockrules.Want) bool {
		return s.graph.has(c, w)
	})}
	s.graph.calls = append(s.graph.calls, call)
	c.call = call
	return func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if call.ended.IsZero() {
			call.ended, c.call = time.Now(), nil
			s.graph.endedLocked(call, err)
		}
	}
}

// served notes that the client's call has got its locks.
func (g *simGraph) servedLocked(a *Acquisition, c *simClient) {
	g.clients[a.id] = c
	if c.call != nil {
		c.call.ended = time.Now()
		g.dropLocked(func(x *simCall) bool { return x == c.call })
		c.call = nil
	}
}

func (g *simGraph) dropLocked(which func(*simCall) bool) {
	g.calls = slices.DeleteFunc(g.calls, func(x *simCall) bool {
		if which(x) {
			delete(g.since, x)
			return true
		}
		return false
	})
}

func (g *simGraph) endedLocked(call *simCall, err error) {
	if errors.Is(err, ErrDeadlock) && !g.s.clockWasSet() && !g.inCycle(call, g.shownTo()) {
		g.s.fail("D1: %s, client %d died of a deadlock that there wasn't: %w\n%s", call.c.n.name, call.c.number, err, g.picture())
	}
	g.dropLocked(func(x *simCall) bool { return !x.ended.IsZero() && time.Since(x.ended) > simLapse })
}

// committed notes a record. Those that nobody can have read any more are dropped.
func (g *simGraph) committed(name string, rec *lockrules.Record, at lockrules.Millis) {
	now := time.Now()
	past := g.past[name]
	if len(past) > 0 {
		past[0].until = now
	}
	keep := 0
	for keep < len(past) && keep < simPastMax && now.Sub(past[keep].until) <= simSeen {
		keep++
	}
	g.past[name] = slices.Insert(past[:keep], 0, simPast{rec: *rec, from: now, at: at})
}

// shown says whether some record of the name that may still count satisfies f,
// which gets the earliest moment at which it may have been read.
func (g *simGraph) shown(name string, f func(rec *lockrules.Record, at lockrules.Millis) bool) bool {
	oldest := time.Now().Add(-simSeen)
	for i := range g.past[name] {
		p := &g.past[name][i]
		if !p.until.IsZero() && p.until.Before(oldest) {
			return false
		}
		at := p.at + lockrules.Millis(max(oldest.Sub(p.from), 0).Milliseconds())
		if f(&p.rec, at) {
			return true
		}
	}
	return false
}

// simView is what an edge of the graph rests on: who waits, and who holds what.
type simView struct {
	counts func(x *simCall) bool
	holds  func(c *simClient, name string, mode lockrules.Mode) bool
	// behind says whether x, who wants to read, has to let y pass, who waits to write.
	behind func(x, y *simCall) bool
}

// shownTo is the widest view that a node can have had when it gave up a victim.
func (g *simGraph) shownTo() simView {
	return simView{g.counts, g.holds, func(_, _ *simCall) bool { return true }}
}

// certain is the narrowest: who waits and who holds, here and now.
func (g *simGraph) certain() simView {
	return simView{func(x *simCall) bool {
		return x.ended.IsZero() && !x.c.n.port.Killed() && !x.c.n.closed.Load()
	}, g.holdsNow, g.behindNow}
}

// behindNow goes by the ages: a reader goes past a writer that came no sooner, as
// soon as it starves. Without that, calls that all wait for the end of a hold-off, or
// of a job, would look like a deadlock. A mark may say that its node has waited for
// longer than its writer has; it does so for as long as somebody elder waits there.
func (g *simGraph) behindNow(x, y *simCall) bool {
	xs, ys := x.since(), y.since()
	return len(xs) > 0 && len(ys) > 0 && slices.Max(ys) < slices.Min(xs)
}

// since is when the call began to wait, as its node knows it. Other calls of the node
// that hold nothing and want the same can't be told from it, so there may be several.
func (x *simCall) since() (all []lockrules.Millis) {
	d := x.c.n.svc.detector
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, call := range d.parked {
		tag, _ := call.w.Tag.(*waitTag)
		mine := tag.chain == nil
		for h := tag.chain; h != nil; h = h.parent {
			mine = mine || x.c.s.graph.clients[h.id] == x.c
		}
		wanted := func(w lockrules.Want) bool { return slices.Contains(x.wants, w) }
		if mine && !slices.ContainsFunc(call.w.Wants, func(w lockrules.Want) bool { return !wanted(w) }) {
			all = append(all, call.w.Since.Millis())
		}
	}
	return all
}

// counts says whether a call is to be taken for one that waits.
func (g *simGraph) counts(x *simCall) bool {
	if x.ended.IsZero() {
		return true
	}
	for _, w := range x.missing {
		told := g.shown(w.Name, func(rec *lockrules.Record, at lockrules.Millis) bool {
			return marked(rec, x.c.n.name, w.Mode == lockrules.Write, at)
		})
		if !told {
			return false
		}
	}
	return true
}

// holds says whether the client holds the name, so that mode has to wait for it.
func (g *simGraph) holds(c *simClient, name string, mode lockrules.Mode) bool {
	mine := func(h *lockrules.Holding, at lockrules.Millis) bool {
		return h != nil && h.ReleasedAt == nil && h.Alive(at) && g.clients[h.ID] == c
	}
	return g.shown(name, func(rec *lockrules.Record, at lockrules.Millis) bool {
		if mine(rec.WriteOwner, at) {
			return true
		}
		if mode == lockrules.Read {
			return false
		}
		return slices.ContainsFunc(rec.ReadOwners, func(h lockrules.Holding) bool { return mine(&h, at) })
	})
}

// holdsNow says the same of what the client's code has at this moment.
func (g *simGraph) holdsNow(c *simClient, name string, mode lockrules.Mode) bool {
	return slices.ContainsFunc(g.s.held, func(h simHeld) bool {
		return h.c == c && g.s.judge.certain(h) && slices.ContainsFunc(h.a.wants, func(w lockrules.Want) bool {
			return w.Name == name && (mode == lockrules.Write || w.Mode == lockrules.Write)
		})
	})
}

// has says whether the chain of the client serves the wish.
func (g *simGraph) has(c *simClient, want lockrules.Want) bool {
	return slices.ContainsFunc(g.s.held, func(h simHeld) bool {
		return h.c == c && slices.ContainsFunc(h.a.wants, func(w lockrules.Want) bool { return w.Name == want.Name && w.Mode >= want.Mode })
	})
}

// reuses says whether the chain of the client has the name.
func (g *simGraph) reuses(c *simClient, name string) bool {
	return slices.ContainsFunc(g.s.held, func(h simHeld) bool { return h.c == c && slices.Contains(h.a.names, name) })
}

// waitsFor is an edge of the graph.
func (g *simGraph) waitsFor(x, y *simCall, view simView) bool {
	if x.c == y.c {
		return false
	}
	for _, w := range x.wants {
		if view.holds(y.c, w.Name, w.Mode) {
			return true
		}
		queued := slices.ContainsFunc(y.wants, func(v lockrules.Want) bool { return v.Name == w.Name && v.Mode == lockrules.Write })
		if w.Mode == lockrules.Read && queued && !g.reuses(x.c, w.Name) && view.behind(x, y) {
			return true
		}
	}
	return false
}

// inCycle looks for a cycle through the call.
func (g *simGraph) inCycle(start *simCall, view simView) bool {
	seen := make(map[*simCall]bool)
	next := []*simCall{start}
	for len(next) > 0 {
		x := next[len(next)-1]
		next = next[:len(next)-1]
		for _, y := range g.calls {
			if seen[y] || y != start && !view.counts(y) || !g.waitsFor(x, y, view) {
				continue
			}
			if y == start {
				return true
			}
			seen[y] = true
			next = append(next, y)
		}
	}
	return false
}

// picture tells of all calls that may count.
func (g *simGraph) picture() (text string) {
	for _, x := range g.calls {
		text += fmt.Sprintf("%s, client %d wants %v, counts %t", x.c.n.name, x.c.number, x.wants, g.counts(x))
		if !x.ended.IsZero() {
			text += fmt.Sprintf(", ended %v ago", time.Since(x.ended))
		}
		for _, y := range g.calls {
			if g.waitsFor(x, y, g.shownTo()) {
				text += fmt.Sprintf(", waits for %s, client %d", y.c.n.name, y.c.number)
			}
		}
		text += "\n"
	}
	return text
}

// standing finds the cycle that nobody breaks although nothing is broken.
func (g *simGraph) standing() error {
	if g.s.kind != simLive || !g.s.w.Frozen() || !time.Now().After(g.looked) || g.s.clockWasSet() {
		return nil
	}
	g.looked = time.Now()
	view := g.certain()
	for _, x := range g.calls {
		if !view.counts(x) || !g.inCycle(x, view) {
			delete(g.since, x)
			continue
		}
		since, known := g.since[x]
		if !known {
			g.since[x] = g.looked
			g.s.counts["a cycle stood without faults"]++
		} else if g.looked.Sub(since) > simStands {
			return fmt.Errorf("D2: %s, client %d has been in a deadlock for %v without any fault\n%s", x.c.n.name, x.c.number, g.looked.Sub(since), g.picture())
		}
	}
	return nil
}
