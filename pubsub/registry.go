package pubsub

import (
	"time"

	"go.uber.org/zap"
)

// look asks run to look at the registry.
func (s *Service) look() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// adopt makes c the present connection; nothing is subscribed on it yet.
func (s *Service) adopt(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.downErr = c, nil
	for _, ch := range s.channels {
		ch.retryAt = time.Time{}
	}
}

// abandon declares c down, tells the subscriptions, and closes it. From here on
// dispatch and confirmed ignore what c may still bring.
func (s *Service) abandon(c *connection, err error) {
	s.mu.Lock()
	s.conn, s.downErr = nil, err
	for name, ch := range s.channels {
		ch.confirmed = false
		for _, sub := range ch.subs {
			sub.inbox.down(err)
		}
		if len(ch.subs) == 0 {
			delete(s.channels, name)
		}
	}
	s.mu.Unlock()
	s.discard(c)
}

func (s *Service) noteDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.downErr = err
}

// dispatch queues a message for all its subscriptions. It runs in the client's
// read loop.
func (s *Service) dispatch(c *connection, name, payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.channels[name]
	if s.conn != c || ch == nil {
		return
	}
	for _, sub := range ch.subs {
		sub.inbox.message(payload)
	}
}

// confirmed records Redis' confirmation. It runs in the client's read loop, before
// anything that Redis sent later, so an Up stands before the first new message.
func (s *Service) confirmed(c *connection, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.channels[name]
	if s.conn != c || ch == nil {
		return
	}
	ch.confirmed = true
	for _, sub := range ch.subs {
		sub.confirmLocked()
	}
}

// accepted ends the refusals of a channel. It is apart from confirmed so that
// nothing is logged in the client's read loop.
func (s *Service) accepted(name string) {
	s.mu.Lock()
	ch := s.channels[name]
	wasRefused := ch != nil && ch.refusals > 0
	if wasRefused {
		ch.refusals = 0
	}
	s.mu.Unlock()
	if wasRefused {
		s.log.Warn("pubsub: subscription no longer refused", zap.String("channel", name))
	}
}

// refused fails those who wait for their first confirmation; the others stay
// down and are tried again later.
func (s *Service) refused(name string, err error) {
	s.mu.Lock()
	ch := s.channels[name]
	kept := ch.subs[:0:0]
	for _, sub := range ch.subs {
		if sub.inbox.everConfirmed() {
			kept = append(kept, sub)
			continue
		}
		sub.answer <- err
	}
	ch.subs = kept
	ch.retryAt = time.Now().Add(s.cfg.backoff(ch.refusals))
	ch.refusals++
	first := ch.refusals == 1 && len(kept) > 0
	if len(kept) == 0 {
		delete(s.channels, name)
	}
	s.mu.Unlock()
	if first {
		s.log.Warn("pubsub: subscription refused, will try again", zap.String("channel", name), zap.Error(err))
	}
}

// due returns the channels to leave, which it forgets, and those to join.
func (s *Service) due(now time.Time) (leave, join []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, ch := range s.channels {
		switch {
		case len(ch.subs) == 0:
			if ch.confirmed {
				leave = append(leave, name)
			}
			delete(s.channels, name)
		case !ch.confirmed && !now.Before(ch.retryAt):
			join = append(join, name)
		}
	}
	return leave, join
}

// nextRetry returns when the first refused channel is to be tried again.
func (s *Service) nextRetry() (at time.Time, needed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ch := range s.channels {
		if ch.confirmed || len(ch.subs) == 0 {
			continue
		}
		if !needed || ch.retryAt.Before(at) {
			at, needed = ch.retryAt, true
		}
	}
	return at, needed
}
