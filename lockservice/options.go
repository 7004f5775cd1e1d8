package lockservice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/internal/keyspace"
	"github.com/redislockservice/redislockservice/internal/lease"
	"github.com/redislockservice/redislockservice/jsonhandler"
	"github.com/redislockservice/redislockservice/pubsub"
)

// The defaults of the service options.
const (
	DefaultKeyPrefix         = "RedisLockService"
	DefaultLeaseTime         = time.Minute
	DefaultPollDelay         = 5 * time.Second
	DefaultReleasedRecordTTL = 30 * time.Second
	DefaultConnectionTimeout = 5 * time.Second
)

// Option configures a service. Options are checked together by [New] and [Open].
type Option func(*config)

type config struct {
	prefix      string
	lease       time.Duration
	renewal     time.Duration
	renewalSet  bool
	pollDelay   time.Duration
	releasedTTL time.Duration
	opTimeout   time.Duration
	json        jsonhandler.Handler
	pubsub      *pubsub.Service
	pubsubSet   bool
	wrap        func(ctx context.Context, run func()) func()
	owner       string
	log         *zap.Logger
	keys        keyspace.Space
}

// WithKeyPrefix sets the prefix of all keys and channels in Redis. Services
// that share locks must use the same prefix. It may not contain braces, glob
// characters or blanks. Default: "RedisLockService".
func WithKeyPrefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// WithLeaseTime sets for how long a lock is held without renewal. After it the
// lock is free for others. It is also how long nothing is granted after a start
// or a data loss of the server. Services that share locks should use the same;
// if they don't, the largest counts for the hold-off. At least 200 ms if the
// renewal interval is not set. Default: 60 s.
func WithLeaseTime(d time.Duration) Option { return func(c *config) { c.lease = d } }

// WithRenewalInterval sets how often the leases of held locks are renewed. It
// must leave time for a second attempt before the lease ends. A failed renewal
// is tried again every second, or every interval if that is shorter, until the
// lease runs out. Default: half of the lease time.
func WithRenewalInterval(d time.Duration) Option {
	return func(c *config) { c.renewal, c.renewalSet = d, true }
}

// WithPollDelay sets how often a waiting call tries without having been told
// that a lock is free, in case a message was missed. Default: 5 s.
func WithPollDelay(d time.Duration) Option { return func(c *config) { c.pollDelay = d } }

// WithReleasedRecordTTL sets how long the record of a released lock is kept,
// unless [WithKeepLockData] is used. Default: 30 s.
func WithReleasedRecordTTL(d time.Duration) Option { return func(c *config) { c.releasedTTL = d } }

// WithConnectionTimeout sets how long one operation may wait for Redis.
// Default: 5 s.
func WithConnectionTimeout(d time.Duration) Option { return func(c *config) { c.opTimeout = d } }

// WithJSONHandler sets how records are turned into JSON.
// Default: [jsonhandler.Standard].
func WithJSONHandler(h jsonhandler.Handler) Option { return func(c *config) { c.json = h } }

// WithPubSub shares a pub/sub service, and so its connection, with others. It
// stays the caller's to close, after the lock service. Default: one of its own.
func WithPubSub(p *pubsub.Service) Option {
	return func(c *config) { c.pubsub, c.pubsubSet = p, true }
}

// WithGoroutineWrapper sets a function that is called, once for each
// acquisition that acquired something, on the goroutine that asks for the lock,
// and wraps what the renewal goroutine runs. With it, values of the context can
// be carried to the logs of that goroutine, or panics be handled. The function
// it returns must call run. Default: run itself.
func WithGoroutineWrapper(wrap func(ctx context.Context, run func()) func()) Option {
	return func(c *config) { c.wrap = wrap }
}

// WithOwner sets the readable part of each owner in the records. It is visible
// to whoever may read them. Default: host name and process id.
func WithOwner(owner string) Option { return func(c *config) { c.owner = owner } }

// WithLogger sets the log. Plain use writes nothing above debug level.
// Default: none.
func WithLogger(log *zap.Logger) Option { return func(c *config) { c.log = log } }

func newConfig(opts []Option) (*config, error) {
	c := &config{
		prefix: DefaultKeyPrefix, lease: DefaultLeaseTime, pollDelay: DefaultPollDelay,
		releasedTTL: DefaultReleasedRecordTTL, opTimeout: DefaultConnectionTimeout,
		json: jsonhandler.Standard, owner: defaultOwner(), log: zap.NewNop(),
		wrap: func(_ context.Context, run func()) func() { return run },
	}
	for _, opt := range opts {
		if opt != nil {
			opt(c)
		}
	}
	if !c.renewalSet {
		c.renewal = c.lease / 2
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	return c, nil
}

func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// check reports everything that is wrong with the options.
func (c *config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var err error
	if c.keys, err = keyspace.New(c.prefix); err != nil {
		errs = append(errs, err)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"lease time", c.lease}, {"renewal interval", c.renewal}, {"poll delay", c.pollDelay},
		{"released record TTL", c.releasedTTL}, {"connection timeout", c.opTimeout},
	} {
		switch {
		case d.value < time.Millisecond:
			bad("%s is %v, at least 1ms is needed", d.name, d.value)
		case d.value > longest:
			bad("%s is %v, at most %v are possible", d.name, d.value, longest)
		}
	}
	if c.lease >= time.Millisecond && c.renewal >= time.Millisecond && !lease.LeavesRetry(c.lease, c.renewal) {
		bad("renewal interval %v leaves no time for a retry before the lease of %v ends: at most %v is possible",
			c.renewal, c.lease, max(lease.LongestInterval(c.lease), 0))
	}
	if c.json == nil {
		bad("JSON handler is nil")
	}
	if c.wrap == nil {
		bad("goroutine wrapper is nil")
	}
	if c.log == nil {
		bad("logger is nil")
	}
	if c.pubsubSet && c.pubsub == nil {
		bad("pub/sub service is nil")
	}
	if len(c.owner) > maxOwnerBytes {
		bad("owner has %d bytes, at most %d are allowed", len(c.owner), maxOwnerBytes)
	}
	return errors.Join(errs...)
}

// longest keeps sums of times, here and in records, far from overflow.
const longest = 10 * 365 * 24 * time.Hour

// maxOwnerBytes keeps records, which name an owner for each reader, small.
const maxOwnerBytes = 256

// LockOption configures one call.
type LockOption func(*lockConfig)

type lockConfig struct {
	timeout  time.Duration
	keep     bool
	maxHold  time.Duration
	holdSet  bool
	errBytes int
}

// WithTimeout sets how long to wait for the locks. Zero, the default, is a
// single attempt. A hold-off after a restart of the server counts. More than ten
// years are ten years.
func WithTimeout(d time.Duration) LockOption { return func(c *lockConfig) { c.timeout = d } }

// WithKeepLockData keeps the record after use, for [RedisLockService.GetLockInfo].
// Only for a stable set of names, such as jobs: others would pile up in Redis.
// For a lock that the chain already holds, the call that acquired it decides.
func WithKeepLockData() LockOption { return func(c *lockConfig) { c.keep = true } }

// WithMaxHold bounds how long the locks are held: after d they are not renewed
// any more and count as lost, and the record is free for others when the code
// returns or the lease ends. A nested call that acquires nothing has no say in
// how long the locks it reuses are held. Default: no bound.
func WithMaxHold(d time.Duration) LockOption {
	return func(c *lockConfig) { c.maxHold, c.holdSet = d, true }
}

// WithKeepError keeps the first bytes of the code's error text in the record,
// where [LockHolding].Error shows it to whoever may read the records. See to it
// that errors have nothing secret in them. At most 1,024 bytes. Default: none.
func WithKeepError(bytes int) LockOption { return func(c *lockConfig) { c.errBytes = bytes } }

const maxErrorBytes = 1024

func newLockConfig(opts []LockOption) (*lockConfig, error) {
	c := &lockConfig{}
	for _, opt := range opts {
		if opt != nil {
			opt(c)
		}
	}
	var errs []error
	if c.timeout < 0 {
		errs = append(errs, fmt.Errorf("timeout is %v, it may not be negative", c.timeout))
	}
	if c.holdSet && c.maxHold <= 0 {
		errs = append(errs, fmt.Errorf("max hold is %v, it must be positive", c.maxHold))
	}
	if c.errBytes < 0 || c.errBytes > maxErrorBytes {
		errs = append(errs, fmt.Errorf("error text of %d bytes to be kept, 0 to %d are possible", c.errBytes, maxErrorBytes))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
	}
	c.timeout, c.maxHold = min(c.timeout, longest), min(c.maxHold, longest)
	return c, nil
}
