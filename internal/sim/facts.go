package sim

import (
	"maps"
	"slices"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// Fact is something that has happened in a run. A test that wants to prove
// something counts them: what never happened was not tested.
type Fact string

// What the model counts.
const (
	Committed        Fact = "commit applied"
	Conflicted       Fact = "commit failed on its WATCH"
	LateCommitted    Fact = "commit applied after its caller had left"
	LateConflicted   Fact = "commit failed on its WATCH after its caller had left"
	Refused          Fact = "command refused"
	PartlyApplied    Fact = "commit applied in part"
	NoWatch          Fact = "commit not sent for want of a WATCH"
	RequestLost      Fact = "request lost"
	RequestLate      Fact = "request late, on a dead connection"
	RequestDead      Fact = "request reached a closed connection"
	ReplyLost        Fact = "reply lost"
	ConnectionCut    Fact = "connection cut"
	TimedOut         Fact = "caller ran into its deadline"
	Dialed           Fact = "connection opened"
	DialRefused      Fact = "connection refused"
	KeyExpired       Fact = "key expired"
	KeyEvicted       Fact = "key evicted"
	Flushed          Fact = "all keys flushed"
	Crashed          Fact = "server crashed"
	StartedEmpty     Fact = "server started with nothing"
	StartedFull      Fact = "server started with everything"
	StartedOld       Fact = "server started with an old snapshot"
	FailedOver       Fact = "failed over to another server"
	ClockForward     Fact = "clock set forward"
	ClockBack        Fact = "clock set back"
	MessageDelivered Fact = "message delivered"
	MessageLost      Fact = "message lost"
	MessageRepeated  Fact = "message delivered again"
	MessageOvertook  Fact = "message overtook another"
	SubscriptionCut  Fact = "subscription cut"
	NodePaused       Fact = "node paused"
	NodeCrashed      Fact = "node crashed"
)

// AllFacts are all of them.
func AllFacts() []Fact {
	return []Fact{Committed, Conflicted, LateCommitted, LateConflicted, Refused, PartlyApplied, NoWatch, RequestLost,
		RequestLate, RequestDead, ReplyLost, ConnectionCut, TimedOut, Dialed, DialRefused, KeyExpired, KeyEvicted,
		Flushed, Crashed, StartedEmpty, StartedFull, StartedOld, FailedOver, ClockForward, ClockBack,
		MessageDelivered, MessageLost, MessageRepeated, MessageOvertook, SubscriptionCut, NodePaused, NodeCrashed}
}

// Facts is how often each has happened.
func (r *Redis) Facts() map[Fact]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.facts)
}

// Count is how often one of them has happened.
func (r *Redis) Count(f Fact) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.facts[f]
}

func (r *Redis) fact(f Fact) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts[f]++
}

// Applied is a commit that took effect.
type Applied struct {
	Node   string
	Number int   // of the exchange
	Micros int64 // of the server's clock
	RunID  string
	Late   bool // the caller had left
	Writes exchange.Writes
}

// Log has the server remember what it applies, for [Redis.TakeLog].
func (r *Redis) Log() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logging = true
}

// TakeLog returns what was applied since the last call, in order.
func (r *Redis) TakeLog() []Applied {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.log
	r.log = nil
	return taken
}

// cloneWrites copies what a caller may reuse while the wire still carries it.
func cloneWrites(w *exchange.Writes) exchange.Writes {
	if w == nil {
		return exchange.Writes{}
	}
	c := exchange.Writes{
		Sets:      slices.Clone(w.Sets),
		Deletes:   slices.Clone(w.Deletes),
		Publishes: slices.Clone(w.Publishes),
	}
	for i := range c.Sets {
		c.Sets[i].Value = slices.Clone(c.Sets[i].Value)
	}
	return c
}
