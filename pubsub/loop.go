package pubsub

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/zap"
)

// establish opens a connection and proves that Redis answers: one from the pool
// may have died unnoticed. A refused PING is an answer too.
func (s *Service) establish(ctx context.Context) (*connection, error) {
	c, err := s.dedicate(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	_, err = c.ask(s.cfg.heartbeat, c.client.B().Ping().Build())
	if stopped := stop(); err == nil && !stopped {
		err = context.Cause(ctx) // ctx ended just after the answer, and took c with it
	}
	if err != nil {
		s.discard(c)
		return nil, err
	}
	return c, nil
}

// discard closes c without waiting for it: that may take seconds on a silent
// peer, and a replacement need not wait so long.
func (s *Service) discard(c *connection) {
	c.fail(errLost)
	s.workers.Go(c.close)
}

// run owns the connection and its successors until Close.
func (s *Service) run(c *connection) {
	for {
		err := s.serve(c)
		s.abandon(c, err)
		if s.ctx.Err() != nil {
			return
		}
		s.log.Warn("pubsub: subscription lost, messages may be missed", zap.Error(err))
		since := time.Now()
		if c = s.reconnect(); c == nil {
			return
		}
		s.log.Warn("pubsub: subscription back", zap.Duration("after", time.Since(since)))
	}
}

// reconnect returns the next connection, with its channels subscribed, or nil
// after Close.
func (s *Service) reconnect() *connection {
	for attempt := 0; ; attempt++ {
		select {
		case <-s.ctx.Done():
			return nil
		case <-time.After(s.cfg.backoff(attempt)):
		}
		c, err := s.establish(s.ctx)
		if err == nil {
			s.adopt(c)
			if err = s.reconcile(c); err == nil {
				return c
			}
			s.abandon(c, err)
		}
		s.noteDown(err)
		s.log.Debug("pubsub: reconnect failed", zap.Int("attempt", attempt+1), zap.Error(err))
	}
}

// serve works for one connection until it is lost or the service closed.
func (s *Service) serve(c *connection) error {
	heartbeat := time.NewTicker(s.cfg.heartbeat)
	defer heartbeat.Stop()
	for {
		if err := s.reconcile(c); err != nil {
			return err
		}
		var retry <-chan time.Time
		if at, needed := s.nextRetry(); needed {
			retry = time.After(time.Until(at))
		}
		select {
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-s.kick:
		case <-retry:
		case <-heartbeat.C:
			if _, err := c.ask(s.cfg.heartbeat, s.signOfLife(c)); err != nil {
				return err
			}
		}
	}
}

// signOfLife is a command that needs an answer on the subscription connection.
func (s *Service) signOfLife(c *connection) rueidis.Completed {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, ch := range s.channels {
		if ch.confirmed {
			return c.client.B().Subscribe().Channel(name).Build()
		}
	}
	return c.client.B().Ping().Build()
}

// reconcile makes Redis' view of the connection that of the registry. Only the
// run goroutine calls it, one thing after the other: no SUBSCRIBE can overtake
// the UNSUBSCRIBE of the same channel.
func (s *Service) reconcile(c *connection) error {
	leave, join := s.due(time.Now())
	if len(leave) > 0 {
		// Refused or not: nobody listens any more.
		if _, err := c.ask(s.cfg.heartbeat, c.client.B().Unsubscribe().Channel(leave...).Build()); err != nil {
			return err
		}
	}
	if len(join) == 0 {
		return nil
	}
	commands := make([]rueidis.Completed, len(join))
	for i, name := range join {
		// One command each, so that each has its own confirmation or refusal.
		commands[i] = c.client.B().Subscribe().Channel(name).Build()
	}
	refusals, err := c.ask(s.cfg.heartbeat, commands...)
	if err != nil {
		return err
	}
	for i, refusal := range refusals {
		if refusal != nil {
			s.refused(join[i], refusal)
			continue
		}
		// The read loop did this already. A client that answers without calling
		// the hook would else be asked over and over.
		s.confirmed(c, join[i])
		s.accepted(join[i])
	}
	return nil
}
