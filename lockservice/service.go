package lockservice

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/redistx"
	"github.com/redislockservice/redislockservice/pubsub"
)

// RedisLockService hands out locks. It is safe for use by many goroutines; one
// per process and Redis is enough. Make it with [New] or [Open], and Close it.
type RedisLockService struct {
	surroundings

	cfg   *config
	clock *clock
	lane  *lane.Lane
	log   *zap.Logger

	ownPubSub *pubsub.Service // closed by Close; nil if it is the caller's
	client    rueidis.Client  // closed by Close; nil if it is the caller's
	redis     rueidis.Client  // the same or the caller's: for SCAN
	wakes     subscription
	detector  *detector

	mu      sync.Mutex // guards the fields below
	closing bool
	active  map[*Acquisition]struct{} // granted and not yet released
	idle    chan struct{}             // closed when active is empty, if somebody waits for that
	asking  int                       // calls that may be granted something
	quiet   chan struct{}             // made by Close; closed when asking is zero

	refusing chan struct{} // closed when Close has begun
	closed   chan struct{} // closed when Close has ended
}

// New makes a service on a client that stays the caller's: Close leaves it open.
// It needs two of the client's dedicated connections. The server is checked once:
// what makes it unsuitable (version, replica, cluster, a missing right for a
// command, key or channel) is all named in one error that matches
// [ErrUnsuitableServer]; a server that can't be reached is [ErrUnavailable]; bad
// options are [ErrInvalidArgument]. It returns within ctx and about twice the
// connection timeout; if ctx was done, the error matches ctx's, too.
func New(ctx context.Context, client rueidis.Client, opts ...Option) (*RedisLockService, error) {
	if client == nil {
		return nil, invalid("client is nil")
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	return start(ctx, client, cfg)
}

// Open makes a service with a client of its own, tuned for locks: small buffers,
// short time-outs, no cache. url is like redis://user:password@host:6379/0, or
// rediss:// for TLS. Close closes the client. Errors are those of [New].
func Open(ctx context.Context, url string, opts ...Option) (*RedisLockService, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	client, err := openClient(url, cfg.opTimeout)
	if err != nil {
		return nil, err
	}
	svc, err := start(ctx, client, cfg)
	if err != nil {
		client.Close()
		return nil, err
	}
	svc.client = client
	return svc, nil
}

func openClient(url string, timeout time.Duration) (rueidis.Client, error) {
	opt, err := rueidis.ParseURL(url)
	if err != nil {
		// The parser's own text may repeat the URL, and with it a password.
		return nil, invalid("the URL is not understood: it has to be like redis://user:password@host:6379/0")
	}
	opt.ForceSingleClient = true
	opt.DisableCache = true
	opt.PipelineMultiplex = -1
	opt.BlockingPoolSize = 8
	opt.BlockingPoolCleanup = 30 * time.Second
	opt.ReadBufferEachConn, opt.WriteBufferEachConn = 32<<10, 32<<10
	opt.RingScaleEachConn = 7
	opt.Dialer.Timeout = min(timeout, 2*time.Second)
	opt.Dialer.KeepAlive = time.Second
	opt.ConnWriteTimeout = min(timeout, 3*time.Second)
	if opt.ClientName == "" {
		opt.ClientName = "lockservice"
	}
	client, err := rueidis.NewClient(opt)
	if err != nil {
		if client != nil {
			client.Close()
		}
		if isContextError(err) {
			err = fmt.Errorf("no connection within %v: %w", opt.Dialer.Timeout, err)
		}
		return nil, startError(err)
	}
	return client, nil
}

func start(ctx context.Context, client rueidis.Client, cfg *config) (*RedisLockService, error) {
	s, err := startWithin(ctx, client, cfg)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return s, err
}

func startWithin(ctx context.Context, client rueidis.Client, cfg *config) (*RedisLockService, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*cfg.opTimeout)
	defer cancel()
	node := uuid.NewString()
	report, err := redistx.CheckUp(ctx, client, cfg.keys, node)
	if err != nil {
		return nil, startError(err)
	}
	for _, w := range report.Warnings {
		cfg.log.Warn("the redis server is not set up as it should be", zap.String("problem", w))
	}
	messages, own := cfg.pubsub, false
	if !cfg.pubsubSet {
		messages, err = pubsub.New(ctx, client, pubsub.WithLogger(cfg.log), pubsub.WithConnectTimeout(cfg.opTimeout))
		if err != nil {
			return nil, startError(err)
		}
		own = true
	}
	s, err := startIn(ctx, cfg, surroundings{
		node: node, port: redistx.New(client, redistx.Options{DialTimeout: cfg.opTimeout}),
		bus: redisBus{messages}, posts: redisPosts{client}, newID: newIDs().next,
		jitter: rand.N[time.Duration],
	})
	if own {
		s.ownPubSub = messages
	}
	if err != nil {
		s.stop(ctx)
		return nil, startError(err)
	}
	s.redis = client
	return s, nil
}

// startIn makes a service in its surroundings. After an error it is to be stopped.
func startIn(ctx context.Context, cfg *config, around surroundings) (*RedisLockService, error) {
	s := &RedisLockService{cfg: cfg, surroundings: around, clock: newClock(), log: cfg.log,
		active: make(map[*Acquisition]struct{}), refusing: make(chan struct{}), closed: make(chan struct{})}
	s.detector = newDetector(s)
	s.lane = lane.New(lane.Config{
		Port: around.port, Keys: cfg.keys, JSON: cfg.json, Node: around.node,
		Lease: cfg.lease, PollDelay: cfg.pollDelay, ReleasedTTL: cfg.releasedTTL, OpTimeout: cfg.opTimeout,
		Gather: gatherFor(cfg.lease, cfg.renewal),
		Now:    s.clock.now, Jitter: around.jitter, Events: events{s},
	})
	err := s.listen(ctx)
	return s, err
}

// listen subscribes before the first lock is waited for, and has the lane make
// its first exchange: from now on this process knows the server's memory, so
// that its loss is noticed.
func (s *RedisLockService) listen(ctx context.Context) error {
	var err error
	s.wakes, err = s.bus.Subscribe(ctx, s.cfg.keys.Wake(s.node), pubsub.Handler{
		Message: s.woken,
		Up:      s.lane.WakeAll,
	})
	if err != nil {
		return err
	}
	if err := s.detector.listen(ctx); err != nil {
		return err
	}
	_, err = s.lane.Read(ctx, nil)
	return err
}

// woken takes a message that locks may be free. It is a hint: what can't be
// read is as good as "something may be free".
func (s *RedisLockService) woken(payload string) {
	names, err := lane.DecodeWake(payload)
	if err != nil {
		s.log.Debug("a wake-up could not be read", zap.Error(err))
		s.lane.WakeAll()
		return
	}
	s.lane.Wake(names)
}

// startError sorts what can go wrong before there is a service.
func startError(err error) error {
	var unsuitable *redistx.Unsuitable
	var permanent interface{ Permanent() bool }
	switch {
	case errors.As(err, &unsuitable):
		return fmt.Errorf("%w: %w", ErrUnsuitableServer, err)
	case errors.Is(err, ErrUnavailable):
		return err
	case errors.As(err, &permanent) && permanent.Permanent():
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, hidden{err})
}

// WaitUntilReady returns once a hold-off is over: when locks can be granted, as
// far as the server is concerned. It returns ctx's error if that is done first,
// [ErrClosed], or [ErrUnavailable] if Redis can't be reached for the connection
// timeout.
func (s *RedisLockService) WaitUntilReady(ctx context.Context) error {
	for {
		if s.isClosing() {
			return ErrClosed
		}
		r, err := s.lane.Read(ctx, nil)
		if err != nil {
			return fromLane(err)
		}
		if err := errors.Join(r.Errs...); err != nil {
			return fromLane(err)
		}
		left := time.Duration(r.ReadyAt-r.At.Millis()) * time.Millisecond
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(min(left+time.Millisecond, time.Second))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-s.refusing:
			timer.Stop()
			return ErrClosed
		}
	}
}

func (s *RedisLockService) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}
