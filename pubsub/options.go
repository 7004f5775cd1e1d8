package pubsub

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

// Defaults of the options.
const (
	DefaultConnectTimeout = 5 * time.Second
	DefaultQueueLength    = 1024
	DefaultHeartbeat      = 2 * time.Second
	DefaultBackoffMin     = 50 * time.Millisecond
	DefaultBackoffMax     = 2 * time.Second
)

// Option changes a default of New.
type Option func(*config)

type config struct {
	log            *zap.Logger
	connectTimeout time.Duration
	queueLength    int
	heartbeat      time.Duration
	backoffMin     time.Duration
	backoffMax     time.Duration
}

// WithLogger sets the logger; without it nothing is logged.
func WithLogger(log *zap.Logger) Option {
	return func(c *config) { c.log = log }
}

// WithConnectTimeout bounds New, and Subscribe and Publish where their ctx has
// no deadline.
func WithConnectTimeout(d time.Duration) Option {
	return func(c *config) { c.connectTimeout = d }
}

// WithQueueLength sets how many messages wait for one handler before messages
// are dropped.
func WithQueueLength(n int) Option {
	return func(c *config) { c.queueLength = n }
}

// WithHeartbeat sets how often Redis is asked for a sign of life on the
// subscription connection, and how long it may take to answer.
func WithHeartbeat(d time.Duration) Option {
	return func(c *config) { c.heartbeat = d }
}

// WithBackoff sets the first and the longest pause between attempts to
// reconnect. The real pauses are jittered: between a half and the whole.
func WithBackoff(first, longest time.Duration) Option {
	return func(c *config) { c.backoffMin, c.backoffMax = first, longest }
}

func newConfig(opts []Option) (config, error) {
	c := config{
		connectTimeout: DefaultConnectTimeout,
		queueLength:    DefaultQueueLength,
		heartbeat:      DefaultHeartbeat,
		backoffMin:     DefaultBackoffMin,
		backoffMax:     DefaultBackoffMax,
	}
	for _, opt := range opts {
		if opt != nil {
			opt(&c)
		}
	}
	if c.log == nil {
		c.log = zap.NewNop()
	}
	return c, c.validate()
}

// validate names everything that is wrong at once.
func (c config) validate() error {
	var errs []error
	if c.connectTimeout <= 0 {
		errs = append(errs, fmt.Errorf("pubsub: connect timeout %v is not positive", c.connectTimeout))
	}
	if c.queueLength <= 0 {
		errs = append(errs, fmt.Errorf("pubsub: queue length %d is not positive", c.queueLength))
	}
	if c.heartbeat <= 0 {
		errs = append(errs, fmt.Errorf("pubsub: heartbeat %v is not positive", c.heartbeat))
	}
	if c.backoffMin <= 0 || c.backoffMax < c.backoffMin {
		errs = append(errs, fmt.Errorf("pubsub: back-off from %v to %v is not a range", c.backoffMin, c.backoffMax))
	}
	return errors.Join(errs...)
}

// backoff is the pause before the attempt-th retry, counted from 0. The jitter
// keeps the processes of a fleet from coming back in one moment.
func (c config) backoff(attempt int) time.Duration {
	d := c.backoffMin
	for ; attempt > 0 && d < c.backoffMax; attempt-- {
		d *= 2
	}
	d = min(d, c.backoffMax)
	return d/2 + rand.N(d/2+1)
}
