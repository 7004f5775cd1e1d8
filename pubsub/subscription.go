package pubsub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
)

// Handler is what a subscription calls, on a goroutine of its own, one call at a
// time and in order.
type Handler struct {
	// Message is called for each message.
	Message func(payload string)

	// Down is called when messages may be missing from now on. May be nil.
	Down func(err error)

	// Up is called when the subscription is there again; whatever was published
	// since Down is missed. It is not called for the first confirmation. May be nil.
	Up func()
}

// channel is a name in the registry. Service.mu guards its fields.
type channel struct {
	name      string
	subs      []*Subscription
	confirmed bool      // Redis has confirmed it on the present connection
	refusals  int       // of the server since it was last confirmed
	retryAt   time.Time // not to be asked for before
}

// Subscription is one handler on one channel.
type Subscription struct {
	service *Service
	channel string
	handler Handler
	inbox   *inbox
	answer  chan error    // one slot: the outcome of Subscribe, sent at most once
	done    chan struct{} // closed when the handler's goroutine has ended
}

// Subscribe registers the handler and returns once Redis has confirmed the
// subscription. While the connection is down it waits; a ctx without a deadline
// is bounded by the connect timeout. After an error nothing stays registered. If
// the server refuses, its error is in the chain. Several handlers on one channel
// share one SUBSCRIBE, and each gets every message.
func (s *Service) Subscribe(ctx context.Context, channel string, h Handler) (*Subscription, error) {
	if channel == "" || h.Message == nil {
		return nil, errors.New("pubsub: subscribe: a channel and Handler.Message are needed")
	}
	sub, err := s.register(channel, h)
	if err != nil {
		return nil, err
	}
	if err := s.awaitAnswer(ctx, sub); err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

func (s *Service) register(name string, h Handler) (*Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	ch := s.channels[name]
	if ch == nil {
		ch = &channel{name: name}
		s.channels[name] = ch
	}
	sub := &Subscription{
		service: s, channel: name, handler: h,
		inbox:  newInbox(s.cfg.queueLength),
		answer: make(chan error, 1),
		done:   make(chan struct{}),
	}
	ch.subs = append(ch.subs, sub)
	s.handlers.Go(sub.run)
	if ch.confirmed {
		sub.confirmLocked()
		return sub, nil
	}
	ch.retryAt = time.Time{} // somebody waits for the answer: ask at once
	s.look()
	return sub, nil
}

func (s *Service) awaitAnswer(ctx context.Context, sub *Subscription) error {
	bounded, cancel := s.bound(ctx)
	defer cancel()
	select {
	case err := <-sub.answer:
		if err != nil {
			return fmt.Errorf("pubsub: subscribe to %q: %w", sub.channel, err)
		}
		return nil
	case <-s.ctx.Done():
		return ErrClosed
	case <-bounded.Done():
	}
	err := s.blame(ctx, bounded, nil)
	if why := s.whyDown(); why != nil {
		return fmt.Errorf("pubsub: subscribe to %q: %w; the connection is down: %s", sub.channel, err, why.Error())
	}
	return fmt.Errorf("pubsub: subscribe to %q: %w", sub.channel, err)
}

func (s *Service) whyDown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.downErr
}

// confirmLocked needs Service.mu.
func (sub *Subscription) confirmLocked() {
	if sub.inbox.confirm() {
		sub.answer <- nil
	}
}

// Close ends the subscription. It is idempotent and waits for the handler: after
// it has returned, the handler neither runs nor is called again. Called from
// inside a handler of the same service, its own or another, it doesn't wait
// (two handlers that close each other would wait for ever); then only the call
// that is under way still ends. What is queued is dropped.
func (sub *Subscription) Close() {
	sub.service.remove(sub)
	sub.inbox.close()
	if !sub.service.insideHandler() {
		<-sub.done
	}
}

func (s *Service) remove(sub *Subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.channels[sub.channel]
	if ch == nil {
		return
	}
	ch.subs = slices.DeleteFunc(ch.subs, func(other *Subscription) bool { return other == sub })
	switch {
	case len(ch.subs) > 0:
	case s.conn == nil:
		delete(s.channels, ch.name)
	default:
		// A SUBSCRIBE may be under way: only run, which sends one thing at a
		// time, knows when the channel can be left and forgotten.
		s.look()
	}
}

// run calls the handler until Close. A panic in the handler is not recovered.
func (sub *Subscription) run() {
	defer close(sub.done)
	id := goroutineID()
	sub.service.enter(id)
	defer sub.service.leave(id)
	for {
		e, ok := sub.inbox.next()
		if !ok {
			return
		}
		sub.handle(e)
	}
}

func (sub *Subscription) handle(e event) {
	switch e.kind {
	case eventMessage:
		sub.handler.Message(e.payload)
	case eventDown:
		sub.down(e.err)
	case eventOverflow:
		sub.service.log.Warn("pubsub: handler too slow, messages dropped",
			zap.String("channel", sub.channel), zap.Int("dropped", e.dropped))
		sub.down(ErrOverflow)
	case eventUp:
		if sub.handler.Up != nil {
			sub.handler.Up()
		}
	}
}

func (sub *Subscription) down(err error) {
	if sub.handler.Down != nil {
		sub.handler.Down(err)
	}
}

func (s *Service) enter(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside[id] = struct{}{}
}

func (s *Service) leave(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inside, id)
}

func (s *Service) insideHandler() bool {
	id := goroutineID()
	s.mu.Lock()
	defer s.mu.Unlock()
	_, inside := s.inside[id]
	return inside
}
