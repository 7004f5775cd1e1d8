package pubsub

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/zap"
)

// Service is one subscription connection and the registry of its channels. All
// its methods may be called from any goroutine.
type Service struct {
	client rueidis.Client
	cfg    config
	log    *zap.Logger

	ctx    context.Context // ends with Close, cause ErrClosed
	cancel context.CancelCauseFunc
	kick   chan struct{} // one slot: the registry has changed, run should look

	workers  sync.WaitGroup // all goroutines but the handlers'
	handlers sync.WaitGroup // one goroutine per subscription

	shutOnce      sync.Once
	workersJoined chan struct{} // closed after Close, once the workers have ended
	allJoined     chan struct{} // closed after that, once the handlers have too

	arriving chan *connection // a Dedicate under way; only New, then run, use it

	mu       sync.Mutex // guards the fields below
	closed   bool
	conn     *connection // nil while down
	downErr  error       // why it is down
	channels map[string]*channel
	inside   map[uint64]struct{} // ids of the goroutines that run handlers
}

// New takes one of the client's dedicated connections and proves that Redis
// answers on it. It is bounded by ctx and by the connect timeout, also if the
// client's dedicated pool is exhausted. The client stays the caller's, who closes
// it after the service.
func New(ctx context.Context, client rueidis.Client, opts ...Option) (*Service, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errors.New("pubsub: client is nil")
	}
	if client.Mode() == rueidis.ClientModeCluster {
		return nil, errors.New("pubsub: Redis Cluster is not supported")
	}
	s := newService(client, cfg)
	c, err := s.firstConnection(ctx)
	if err != nil {
		// A Dedicate that still hangs ends with the client at the latest; what it
		// brings is given back then.
		s.cancel(ErrClosed)
		return nil, fmt.Errorf("pubsub: connect: %w", err)
	}
	s.adopt(c)
	s.workers.Go(func() { s.run(c) })
	return s, nil
}

func newService(client rueidis.Client, cfg config) *Service {
	s := &Service{
		client:        client,
		cfg:           cfg,
		log:           cfg.log,
		kick:          make(chan struct{}, 1),
		workersJoined: make(chan struct{}),
		allJoined:     make(chan struct{}),
		channels:      make(map[string]*channel),
		inside:        make(map[uint64]struct{}),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

func (s *Service) firstConnection(ctx context.Context) (*connection, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, s.cfg.connectTimeout, errNotInTime)
	defer cancel()
	c, err := s.establish(bounded)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case bounded.Err() != nil:
		return nil, fmt.Errorf("%w (%v): the client's dedicated pool gives no connection, or Redis does not answer",
			errNotInTime, s.cfg.connectTimeout)
	}
	return nil, err
}

// Publish sends a message through the client's shared connection. A ctx without a
// deadline is bounded by the connect timeout. After an error the message may have
// been published all the same.
func (s *Service) Publish(ctx context.Context, channel, payload string) error {
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	bounded, cancel := s.bound(ctx)
	defer cancel()
	publish := s.client.B().Publish().Channel(channel).Message(payload).Build()
	err := s.client.Do(undated{bounded}, publish).Error()
	if err == nil {
		return nil
	}
	return fmt.Errorf("pubsub: publish to %q: %w", channel, s.blame(ctx, bounded, err))
}

// undated hides the deadline, not the end, of a context. Given a deadline, the
// client would not notice a cancellation before it, and would cut the shared
// connection, with everybody's commands on it, when it comes.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

func (s *Service) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, s.cfg.connectTimeout, errNotInTime)
}

// blame names who ended an operation: the caller's ctx, our own bound, or err.
func (s *Service) blame(ctx, bounded context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() != nil:
		return fmt.Errorf("%w (%v)", errNotInTime, s.cfg.connectTimeout)
	}
	return foreign(bounded, err)
}

// Close ends all subscriptions without calling Down, gives the connection back and
// waits for all goroutines. It waits for the connect timeout and a second at most,
// and says so if something is still running then: a handler that doesn't return,
// or a client whose pool gives no connection. Called from inside a handler of this
// service it doesn't wait for the handlers. Further calls wait for the same end.
func (s *Service) Close() error {
	s.shutOnce.Do(s.shut)
	joined := s.allJoined
	if s.insideHandler() {
		joined = s.workersJoined
	}
	bound := s.cfg.connectTimeout + time.Second
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-joined:
		return nil
	case <-timer.C:
		return fmt.Errorf("pubsub: close: a handler or the client is still busy after %v", bound)
	}
}

func (s *Service) shut() {
	s.mu.Lock()
	s.closed = true
	// Under mu, so that no message of the dying connection is handed out, and no
	// Subscribe registers, after this.
	for _, ch := range s.channels {
		for _, sub := range ch.subs {
			sub.inbox.close()
		}
	}
	s.mu.Unlock()
	s.cancel(ErrClosed)
	go func() {
		s.workers.Wait()
		close(s.workersJoined)
		s.handlers.Wait()
		close(s.allJoined)
	}()
}
