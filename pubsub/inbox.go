package pubsub

import "sync"

type eventKind int

const (
	eventMessage  eventKind = iota
	eventDown               // the subscription was lost
	eventOverflow           // messages were dropped from here on
	eventUp                 // the subscription is confirmed again, or the overflow is over
)

type event struct {
	kind    eventKind
	payload string
	err     error // of eventDown
	dropped int   // of eventOverflow
}

// inbox is the bounded queue between the client's read loop and one handler.
//
// Only messages count towards the limit, for a Down must never be lost. The
// other events cannot pile up either: at most one Down and one Up stand between
// two messages, because a new Down takes back an Up that nobody has seen yet.
type inbox struct {
	limit int
	wake  chan struct{} // one slot; filled after every change, taken by the reader

	mu        sync.Mutex // guards the fields below
	events    []event
	messages  int  // how many of events are messages
	connected bool // confirmed on the present connection
	confirmed bool // was ever confirmed
	dropping  bool // an eventOverflow is queued and not yet taken
	dropped   int  // since dropping began
	closed    bool
}

func newInbox(limit int) *inbox {
	return &inbox{limit: limit, wake: make(chan struct{}, 1)}
}

// message appends a message, or drops it if the queue is full.
func (b *inbox) message(payload string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed || !b.connected:
	case b.dropping:
		b.dropped++
	case b.messages >= b.limit:
		b.dropping, b.dropped = true, 1
		b.appendLocked(event{kind: eventOverflow})
	default:
		b.messages++
		b.appendLocked(event{kind: eventMessage, payload: payload})
	}
}

// confirm records Redis' confirmation on a new connection, and reports whether it
// was the first ever.
func (b *inbox) confirm() (first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.connected {
		return false
	}
	first = !b.confirmed
	b.connected, b.confirmed = true, true
	// While an overflow is queued the handler is, or will be, down; the Up
	// follows when the overflow is taken.
	if !first && !b.dropping {
		b.appendLocked(event{kind: eventUp})
	}
	return first
}

// down records that the connection was lost.
func (b *inbox) down(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.connected {
		return
	}
	b.connected = false
	if b.dropping {
		return // the queued overflow is the handler's Down
	}
	if last := len(b.events) - 1; last >= 0 && b.events[last].kind == eventUp {
		// Nobody saw that Up, and no message came after it: the handler just
		// stays down.
		b.events = b.events[:last]
		return
	}
	b.appendLocked(event{kind: eventDown, err: err})
}

func (b *inbox) appendLocked(e event) {
	if b.closed {
		return
	}
	b.events = append(b.events, e)
	b.signal()
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// next waits for an event; false means closed.
func (b *inbox) next() (event, bool) {
	for {
		e, found, closed := b.take()
		if found || closed {
			return e, found
		}
		<-b.wake
	}
}

func (b *inbox) take() (e event, found, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.events) == 0 {
		return event{}, false, b.closed
	}
	e = b.events[0]
	b.events[0] = event{} // lets the payload go
	b.events = b.events[1:]
	if len(b.events) == 0 {
		b.events = nil // a burst's memory is not kept
	}
	switch e.kind {
	case eventMessage:
		b.messages--
	case eventOverflow:
		e.dropped = b.dropped
		b.caughtUpLocked()
	}
	return e, true, false
}

// caughtUpLocked ends an overflow: all that came before the gap is handled.
// Messages are taken in again from here on, and stand behind the Up, so that
// nothing lies between "missed" and "delivered".
func (b *inbox) caughtUpLocked() {
	b.dropping, b.dropped = false, 0
	if b.connected {
		b.appendLocked(event{kind: eventUp})
	}
}

func (b *inbox) everConfirmed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.confirmed
}

// close ends the reader; what is queued is dropped.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.events = nil
	b.signal()
}
