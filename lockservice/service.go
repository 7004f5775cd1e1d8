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

	closed chan struct{} // closed when Close has ended
}

// New makes a service on a client that stays the caller's: Close leaves it open.
// It needs two of the client's dedicated connections. The server is checked once:
// what makes it unsuitable (version, replica, cluster, a missing right for a
// command, key or channel) is all named in one error that matches
// [ErrUnsuitableServer]; a server that can't be reached is [ErrUnavailable]; bad
// options are [ErrInvalidArgument]. It returns within ctx and about twice the
// connection timeout.
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
		active: make(map[*Acquisition]struct{}), closed: make(chan struct{})}
	s.detector = newDetector(s)
	s.lane = lane.New(lane.Config{
		Port: around.port, Keys: cfg.keys, JSON: cfg.json, Node: around.node,
		Lease: cfg.lease, PollDelay: cfg.pollDelay, ReleasedTTL: cfg.releasedTTL, OpTimeout: cfg.opTimeout,
		Now: s.clock.now, Jitter: around.jitter, Events: events{s},
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
		case <-s.closed:
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

// Close ends the service. New calls fail with [ErrClosed], and who waits gets it
// at once. Protected code that runs may finish and release until ctx is done;
// what is left then is cut off: its context is cancelled with cause ErrClosed,
// HasLock is false, and its locks lapse with their leases, since the code may
// still be running. All goroutines have ended when Close returns. The client
// given to New stays open, that of Open is closed.
//
// Close may be called again, at the same time too: all calls return when the
// first has ended. From inside protected code it waits for that code until ctx
// is done.
func (s *RedisLockService) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		<-s.closed
		return nil
	}
	s.closing = true
	idle := make(chan struct{})
	s.idle = idle
	if len(s.active) == 0 {
		close(idle)
	}
	s.quiet = make(chan struct{})
	if s.asking == 0 {
		close(s.quiet)
	}
	s.mu.Unlock()
	s.lane.Refuse()
	select {
	case <-idle:
	case <-ctx.Done():
		s.cutOff()
	}
	s.awaitQuiet(ctx)
	s.stop(ctx)
	return nil
}

// awaitQuiet waits for calls that were granted their locks in the moment of
// Close: while the lane works still, they can give them back.
func (s *RedisLockService) awaitQuiet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	select {
	case <-s.quiet:
	case <-ctx.Done():
	}
}

// enter notes a call that asks for locks, unless the service is being closed.
// The call ends with exit.
func (s *RedisLockService) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.asking++
	return true
}

func (s *RedisLockService) exit() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking--
	if s.closing && s.asking == 0 {
		close(s.quiet) // once: nobody enters any more
	}
}

// cutOff ends what is still held, without releasing it.
func (s *RedisLockService) cutOff() {
	s.mu.Lock()
	left := make([]*Acquisition, 0, len(s.active))
	for a := range s.active {
		left = append(left, a)
	}
	s.mu.Unlock()
	for _, a := range left {
		a.cutOff()
	}
}

// stopTimeout bounds the last words to Redis when Close's own time is over.
const stopTimeout = time.Second

// stop gives everything back. The lane's last transaction removes this node's
// waiting marks and finishes releases.
func (s *RedisLockService) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if s.wakes != nil {
		s.wakes.Close()
	}
	s.detector.close()
	s.lane.Close(ctx)
	if s.ownPubSub != nil {
		_ = s.ownPubSub.Close()
	}
	if s.client != nil {
		s.client.Close()
	}
	close(s.closed)
}

// admit notes a granted acquisition, unless the service is being closed.
func (s *RedisLockService) admit(a *Acquisition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.active[a] = struct{}{}
	return true
}

func (s *RedisLockService) dismiss(a *Acquisition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, a)
	if s.idle != nil && len(s.active) == 0 && s.closing {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
}
