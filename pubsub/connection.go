package pubsub

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// connection is one dedicated connection of the client, from Dedicate to close.
type connection struct {
	client rueidis.DedicatedClient

	// ctx ends, with the reason as its cause, when the connection is lost or the
	// service is closed.
	ctx  context.Context
	fail context.CancelCauseFunc

	heard atomic.Uint64 // pushes received: a sign of life
}

// dedicate waits for a dedicated connection. Dedicate takes no context and may
// wait for ever for the client's pool, so it runs on a goroutine of its own; if
// ctx ends first, the next dedicate goes on waiting for that same goroutine.
// Only New, and after it the run goroutine, call it.
func (s *Service) dedicate(ctx context.Context) (*connection, error) {
	if s.arriving == nil {
		arriving := make(chan *connection)
		s.arriving = arriving
		s.workers.Go(func() { s.bring(arriving) })
	}
	select {
	case c := <-s.arriving:
		s.arriving = nil
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// bring opens a connection and hands it over. The channel has no buffer: either
// dedicate has it, or the service has ended and it goes back at once.
func (s *Service) bring(to chan<- *connection) {
	c := s.open()
	select {
	case to <- c:
	case <-s.ctx.Done():
		c.close()
	}
}

// open never fails: what went wrong shows in the connection's ctx, or in the
// first command, for the client hands out a dead connection after a failed dial.
func (s *Service) open() *connection {
	client, _ := s.client.Dedicate()
	c := &connection{client: client}
	c.ctx, c.fail = context.WithCancelCause(s.ctx)
	// These run in the client's read loop: they must not block. With RESP2 this
	// call dials a second connection, without a ctx; that too is why open has a
	// goroutine of its own.
	lost := client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			c.heard.Add(1)
			s.dispatch(c, m.Channel, m.Message)
		},
		OnSubscription: func(e rueidis.PubSubSubscription) {
			c.heard.Add(1)
			if e.Kind == "subscribe" {
				s.confirmed(c, e.Channel)
			}
		},
	})
	select {
	case err := <-lost:
		c.failed(err)
	default:
		s.workers.Go(func() { c.watch(lost) })
	}
	return c
}

// watch turns the end of the connection into the end of its ctx. It ends with
// the ctx too, so it never outlives close.
func (c *connection) watch(lost <-chan error) {
	select {
	case err := <-lost:
		c.failed(err)
	case <-c.ctx.Done():
	}
}

func (c *connection) failed(err error) {
	if err == nil {
		c.fail(errLost)
		return
	}
	c.fail(fmt.Errorf("%w: %w", errLost, foreign(context.Background(), err)))
}

// ask sends commands in one round trip. The first result has, for each command,
// the server's refusal or nil; the error means that the connection is of no more
// use: lost, or silent for the given time.
func (c *connection) ask(silence time.Duration, commands ...rueidis.Completed) ([]error, error) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	var watchdog sync.WaitGroup
	watchdog.Go(func() { c.watchSilence(ctx, cancel, silence) })
	defer watchdog.Wait()
	defer cancel(nil)

	for i := range commands {
		// The client repeats a batch of SUBSCRIBE after an error, although it has
		// recycled the commands that were answered already. Pinned ones are not.
		commands[i] = commands[i].Pin()
	}
	results := c.client.DoMulti(ctx, commands...)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	refusals := make([]error, len(results))
	for i, result := range results {
		err := result.Error()
		if _, refused := rueidis.IsRedisErr(err); err != nil && !refused {
			return nil, fmt.Errorf("%w: %w", errLost, foreign(ctx, err))
		}
		refusals[i] = err
	}
	return refusals, nil
}

// watchSilence cancels an unanswered ask. As long as messages arrive the answer
// may just stand in line behind them, and the connection is not silent.
func (c *connection) watchSilence(ctx context.Context, cancel context.CancelCauseFunc, silence time.Duration) {
	tick := time.NewTicker(silence)
	defer tick.Stop()
	for heard := c.heard.Load(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := c.heard.Load(); now != heard {
			heard = now
			continue
		}
		cancel(fmt.Errorf("%w: %w within %v", errLost, errSilent, silence))
		return
	}
}

// close closes the connection and gives its place in the client's pool back. On a
// silent peer the client takes about a second for it, with RESP2 two. The plain
// release is not used: it would take twelve.
func (c *connection) close() {
	c.fail(errLost)
	c.client.Close()
}
