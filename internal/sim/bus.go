package sim

import (
	"slices"
	"time"
)

// resubscribePause is how long a node waits after an attempt that failed.
const resubscribePause = time.Second

// Handler is told what happens to one subscription, one call at a time.
type Handler struct {
	Message func(message string)
	Down    func() // messages may be missing from here on; may be nil
	Up      func() // no longer; may be nil
}

// subscription is one handler of one channel, on its node's one connection.
type subscription struct {
	node    *node
	handler Handler
	turn    chan struct{} // holds an element while the handler runs; guards the next field
	isDown  bool          // the handler was told so last

	// Guarded by Redis.mu.
	cancelled bool
	tail      chan struct{} // closed when the last event so far has been dealt with
}

type eventKind uint8

const (
	messageEvent eventKind = iota
	downEvent
	upEvent
)

// delivery is one event on its way to a handler.
type delivery struct {
	sub        *subscription
	kind       eventKind
	text       string
	number     int
	generation int
	before     chan struct{} // what it waits for; nil: nothing
	after      chan struct{} // closed at its end
}

// Subscribe has the messages of a channel delivered to the node, until cancel.
// The subscription is confirmed when it returns.
func (p *Port) Subscribe(channel string, h Handler) (cancel func()) {
	r := p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	sub := &subscription{node: p.node, handler: h, turn: make(chan struct{}, 1)}
	r.channels[channel] = append(r.channels[channel], sub)
	p.node.subscriptions = append(p.node.subscriptions, sub)
	return func() { r.unsubscribe(channel, sub) }
}

// Subscribe is for an observer without a node of its own.
func (r *Redis) Subscribe(channel string, handle func(message string)) (cancel func()) {
	return r.PortOf("observer").Subscribe(channel, Handler{Message: handle})
}

func (r *Redis) unsubscribe(channel string, sub *subscription) {
	r.mu.Lock()
	defer r.mu.Unlock()
	same := func(s *subscription) bool { return s == sub }
	sub.cancelled = true
	r.channels[channel] = slices.DeleteFunc(r.channels[channel], same)
	sub.node.subscriptions = slices.DeleteFunc(sub.node.subscriptions, same)
}

// Publish is somebody else's PUBLISH, or one outside of a transaction.
func (r *Redis) Publish(channel, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.publishLocked(channel, message)
}

func (r *Redis) publishLocked(channel, message string) {
	for _, sub := range r.channels[channel] {
		if !sub.node.connected || r.down {
			r.facts[MessageLost]++
			continue
		}
		r.deliverLocked(sub, messageEvent, message, sub.tail)
	}
}

// deliverLocked sets an event on its way. Events of one subscription follow
// each other; but a Down doesn't wait for the messages that it has cut off.
func (r *Redis) deliverLocked(sub *subscription, kind eventKind, text string, before chan struct{}) {
	sub.node.deliveries++
	d := &delivery{sub: sub, kind: kind, text: text, number: sub.node.deliveries, generation: sub.node.generation,
		before: before, after: make(chan struct{})}
	sub.tail = d.after
	r.busy++
	go d.run(r)
}

func (d *delivery) run(r *Redis) {
	defer r.end()
	defer close(d.after)
	var f Fault
	switch d.kind {
	case messageEvent:
		f = r.pass(Step{Node: d.sub.node.name, Phase: Message, Number: d.number})
		sleep(f.Delay)
	case upEvent: // one subscription hears of it after the other
		sleep(r.pass(Step{Node: d.sub.node.name, Phase: Subscribe, Number: d.number, Part: 1}).Delay)
	}
	if d.before != nil && !f.Overtake {
		<-d.before
	}
	if f.Overtake {
		r.fact(MessageOvertook)
	}
	d.sub.node.awake(r)
	for range 1 + f.Repeat {
		d.hand(r, f.Lose)
	}
	if f.Repeat > 0 {
		r.fact(MessageRepeated)
	}
}

// hand calls the handler, unless the event is lost or stale. That is looked at
// with the handler's turn in hand: so nothing of a lost connection comes after its Down.
func (d *delivery) hand(r *Redis, lose bool) {
	d.sub.turn <- struct{}{}
	defer func() { <-d.sub.turn }()
	r.mu.Lock()
	lost := lose || d.sub.cancelled || isClosed(d.sub.node.killed) || d.generation != d.sub.node.generation
	switch {
	case d.kind != messageEvent:
	case lost:
		r.facts[MessageLost]++
	default:
		r.facts[MessageDelivered]++
	}
	r.mu.Unlock()
	if !lost {
		d.call()
	}
}

// call is made with the handler's turn. An Up that has become stale on its way
// is dropped, so the Down after it is dropped here: the two alternate.
func (d *delivery) call() {
	h := &d.sub.handler
	if d.kind == messageEvent {
		h.Message(d.text)
		return
	}
	tell := h.Up
	if d.kind == downEvent {
		tell = h.Down
	}
	if down := d.kind == downEvent; down != d.sub.isDown {
		d.sub.isDown = down
		if tell != nil {
			tell()
		}
	}
}

// CutSubscription kills the node's subscription connection. It comes back after
// the phase Subscribe, if the server is up.
func (p *Port) CutSubscription() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.cutSubscriptionLocked(p.node)
	p.r.resubscribeLocked()
}

func (r *Redis) cutSubscriptionLocked(n *node) {
	if !n.connected {
		return
	}
	n.connected = false
	n.generation++
	r.facts[SubscriptionCut]++
	for _, sub := range n.subscriptions {
		r.deliverLocked(sub, downEvent, "", nil)
	}
}

// resubscribeLocked has all nodes without a subscription connection get one.
func (r *Redis) resubscribeLocked() {
	for _, n := range r.nodes {
		if n.connected || n.connecting {
			continue
		}
		n.connecting = true
		n.deliveries++
		r.busy++
		go r.resubscribe(n, n.deliveries)
	}
}

func (r *Redis) resubscribe(n *node, number int) {
	defer r.end()
	for {
		f := r.pass(Step{Node: n.name, Phase: Subscribe, Number: number})
		sleep(f.Delay)
		if !f.Lose && !f.Cut {
			break
		}
		sleep(resubscribePause)
	}
	n.awake(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	n.connecting = false
	if r.down {
		return // Start tries again
	}
	n.connected = true
	for _, sub := range n.subscriptions {
		r.deliverLocked(sub, upEvent, "", sub.tail)
	}
}
