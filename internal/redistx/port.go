package redistx

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

const (
	// defaultTimeout bounds an exchange whose ctx has no deadline, and a dial if Options doesn't.
	defaultTimeout = 5 * time.Second
	// unwatchTimeout and closeTimeout bound Close: a polite good-bye first, then
	// what rueidis takes to close a connection whose peer is silent (one second).
	unwatchTimeout = 300 * time.Millisecond
	closeTimeout   = 1500 * time.Millisecond
	// maxConns: one in use, and two that are still being closed.
	maxConns = 3
)

// Options of a Port. The zero value is usable.
type Options struct {
	// DialTimeout is how long one exchange may wait for a dedicated connection:
	// for the client's pool to give one, for the dial and for its first answer.
	// Default: five seconds.
	DialTimeout time.Duration
}

// Port runs exchanges on one dedicated connection of a client.
type Port struct {
	client      rueidis.Client
	dialTimeout time.Duration
	fixed       fixedCommands
	lenient     bool // keep a connection on which UNWATCH is denied: CheckUp reports it

	slots chan struct{} // holds one element per connection being dialed, used or closed
	quit  chan struct{} // closed by the first Close, at its start
	ended chan struct{} // closed by the first Close, at its end

	turn  sync.Mutex // held by the exchange that runs; guards the fields below
	batch []rueidis.Completed

	mu      sync.Mutex // guards the fields below; never held over I/O
	closed  bool
	conn    *conn
	dialing *dialing // under way, or ended and not fetched yet
}

// New makes a port on client, which stays the caller's. It does no I/O.
func New(client rueidis.Client, opts Options) *Port {
	if opts.DialTimeout <= 0 {
		opts.DialTimeout = defaultTimeout
	}
	return &Port{
		client:      client,
		dialTimeout: opts.DialTimeout,
		fixed:       newFixedCommands(client),
		slots:       make(chan struct{}, maxConns),
		quit:        make(chan struct{}),
		ended:       make(chan struct{}),
	}
}

// Exchange applies commit, if it is not empty, and watches and reads keys, if
// there are any, all in one round trip. With neither it only drops the watches
// of the exchange before.
//
// committed is true if all of commit was applied, also beside an error: then the
// read failed, and a *ServerError says Maybe. (false, snapshot, nil) with a commit is a conflict: a watched key
// was touched; the snapshot is valid. Without an error the keys read are watched
// until the next exchange, which may therefore commit.
//
// Errors are, or wrap, exchange's: *ServerError, *ConnError, ErrNoWatch (also
// after a reconnect or an error: nothing was sent; read again, decide again) and
// ErrClosed. After any of them nothing can be committed before the next read.
// None matches a context error.
func (p *Port) Exchange(ctx context.Context, commit *exchange.Writes, keys []string) (committed bool, snap exchange.Snapshot, err error) {
	p.turn.Lock()
	defer p.turn.Unlock()
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	c, err := p.ready(ctx, commit, keys)
	if err != nil || c == nil {
		return false, exchange.Snapshot{}, err
	}
	now := time.Now()
	plan := p.assemble(c, commit, keys, now)
	if len(p.batch) == 0 {
		return false, exchange.Snapshot{}, nil
	}
	results := p.send(ctx, c, keys)
	committed, snap, err = p.judge(c, results, plan, now)
	if err == nil && len(snap.Values) < len(keys) {
		err = p.readEach(ctx, c, keys, &snap, committed)
	}
	return committed, snap, err
}

// readEach reads keys one by one that the exchange has watched: what changes
// before that fails its EXEC. The TIME is of no use, but that a batch of nothing
// but reads would be repeated by rueidis as long as a server is loading.
func (p *Port) readEach(ctx context.Context, c *conn, keys []string, snap *exchange.Snapshot, committed bool) (err error) {
	p.batch = p.batch[:0]
	p.gets(keys)
	p.batch = append(p.batch, p.fixed.time)
	results := p.send(ctx, c, keys)
	if err = transportError(results); err != nil {
		err = p.lost(c, err)
	} else if snap.Values, err = judgeValues(results[:len(keys)], plan{keys: len(keys)}); err != nil {
		err = p.refused(c, err, committed)
	}
	if err != nil {
		*snap = exchange.Snapshot{}
		return err
	}
	c.guarded = true
	return nil
}

// withDeadline gives every ctx a deadline. Without one, a ctx that can be
// cancelled makes rueidis start two goroutines for the connection, for good.
func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, defaultTimeout)
}

// ready gives the connection for an exchange; nil if there is nothing to do.
func (p *Port) ready(ctx context.Context, commit *exchange.Writes, keys []string) (*conn, error) {
	p.mu.Lock()
	closed, c := p.closed, p.conn
	p.mu.Unlock()
	switch {
	case closed:
		return nil, exchange.ErrClosed
	case ctx.Err() != nil:
		return nil, &exchange.ConnError{Err: conceal(ctx.Err())}
	case !commit.Empty() && (c == nil || !c.guarded):
		return nil, exchange.ErrNoWatch
	case c != nil:
		return c, nil
	case len(keys) == 0:
		return nil, nil // no connection, so no watches
	}
	return p.connect(ctx)
}

// send runs the batch. What the connection is believed to hold is set first to
// the worst case: whatever happens, the next exchange cleans up and reads before
// it commits.
func (p *Port) send(ctx context.Context, c *conn, keys []string) []rueidis.RedisResult {
	c.guarded = false
	c.pending = c.pending || len(keys) > 0
	results := c.dedicated.DoMulti(ctx, p.batch...)
	if transportError(results) != nil {
		// The client's own PING may have been under way on the idle connection;
		// then the batch was queued behind it, and the client's writer has the
		// slice still, although ctx has ended the call.
		p.batch = nil
		return results
	}
	clear(p.batch) // rueidis has recycled the commands
	return results
}

// judge makes of the answers what Exchange returns, and sets the connection's state.
func (p *Port) judge(c *conn, results []rueidis.RedisResult, plan plan, now time.Time) (committed bool, snap exchange.Snapshot, err error) {
	if err := transportError(results); err != nil {
		return false, snap, p.lost(c, err)
	}
	committed, err = judgeCommit(results[:plan.first], plan)
	if err == nil {
		snap, err = judgeReads(results[plan.first:], plan, c, now)
	}
	if err != nil {
		return committed, exchange.Snapshot{}, p.refused(c, err, committed)
	}
	c.pending = plan.keys > 0
	c.guarded = plan.keys > 0
	return committed, snap, nil
}

// refused completes the error of an answered exchange. The connection stays,
// unless an answer was out of place: then what it is in the middle of is
// anybody's guess.
func (p *Port) refused(c *conn, err error, committed bool) error {
	if errors.Is(err, errProtocol) {
		return p.lost(c, err)
	}
	var refusal *exchange.ServerError
	if committed && errors.As(err, &refusal) {
		refusal.Applied = exchange.Maybe // it was; the read failed
	}
	return err
}

// lost gives up a connection after a failure and says what is known of the commit.
func (p *Port) lost(c *conn, err error) error {
	p.drop(c)
	var refusal *exchange.ServerError
	if errors.As(err, &refusal) {
		return err // knows more than that the connection is gone
	}
	if errors.Is(err, rueidis.ErrDedicatedClientRecycled) {
		return exchange.ErrClosed // Close was faster: rueidis refused before it wrote
	}
	return brokenError(err)
}

// transportError is the first failure that is not an answer of the server.
func transportError(results []rueidis.RedisResult) error {
	for i := range results {
		if err := results[i].NonRedisError(); err != nil {
			return err
		}
	}
	return nil
}
