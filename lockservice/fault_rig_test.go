package lockservice_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
	"github.com/redislockservice/redislockservice/pubsub"
)

// A rig is one service whose way to Redis runs through a proxy, and a rival
// with a way of its own that competes for whatever the first one asks for.
//
// Nothing but the lane's connection passes through the proxy: messages come over
// another client, and no client sends its own PING. So what one operation sends
// and receives is the same each time, byte for byte in number, and a connection
// can be cut at each of them.
type rig struct {
	proxy *redistest.Proxy
	tape  *tape
	svc   *lockservice.RedisLockService // through the proxy
	rival *lockservice.RedisLockService
	admin rueidis.Client
	keys  string
	books ledger
}

const (
	faultLease = time.Second
	faultPoll  = 500 * time.Millisecond
	// faultPatience is how long calls wait: longer than any fault lasts.
	faultPatience = 6 * time.Second
)

// newRig makes a rig on a server. renewal is the interval of the service that
// suffers.
func newRig(t *testing.T, server *redistest.Server, renewal time.Duration) *rig {
	t.Helper()
	r := &rig{proxy: redistest.NewProxy(t, server.Addr()), tape: &tape{}, keys: redistest.Prefix(t)}
	direct := server.ClientOption()
	direct.Dialer.KeepAlive = time.Hour
	var err error
	r.admin, err = rueidis.NewClient(direct)
	require.NoError(t, err)
	t.Cleanup(r.admin.Close)
	proxied := direct
	proxied.InitAddress = []string{r.proxy.Addr()}
	proxied.Dialer.Timeout, proxied.ConnWriteTimeout = 500*time.Millisecond, 500*time.Millisecond
	proxied.DialCtxFn = r.tape.dial
	client, err := rueidis.NewClient(proxied) // beside an error it may give a client all the same
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); client, err = rueidis.NewClient(proxied) {
		if client != nil {
			client.Close()
		}
	}
	require.NoError(t, err)
	t.Cleanup(client.Close)
	messages, err := pubsub.New(t.Context(), r.admin)
	require.NoError(t, err)
	t.Cleanup(func() { _ = messages.Close() })
	r.svc = r.service(t, client, messages, renewal)
	r.rival = r.service(t, r.admin, messages, faultLease*9/20)
	return r
}

func (r *rig) service(t *testing.T, client rueidis.Client, messages *pubsub.Service, renewal time.Duration) *lockservice.RedisLockService {
	t.Helper()
	return insist(t, func() (*lockservice.RedisLockService, error) {
		return lockservice.New(t.Context(), client, lockservice.WithPubSub(messages), lockservice.WithKeyPrefix(r.keys),
			lockservice.WithLeaseTime(faultLease), lockservice.WithRenewalInterval(renewal), lockservice.WithPollDelay(faultPoll),
			lockservice.WithConnectionTimeout(time.Second), lockservice.WithReleasedRecordTTL(time.Second))
	})
}

// insist makes a service that is ready, and closes it when the test ends. The time-outs
// used here are short: on a machine that is busy a first attempt may run into them.
func insist(t *testing.T, start func() (*lockservice.RedisLockService, error)) (svc *lockservice.RedisLockService) {
	t.Helper()
	var last error
	err := until(time.Minute, "there is a service", func() bool {
		svc, last = start()
		return last == nil
	})
	require.NoError(t, errors.Join(err, last))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = svc.Close(ctx)
	})
	require.NoError(t, until(time.Minute, "it is ready", func() bool { return svc.WaitUntilReady(t.Context()) == nil }))
	return svc
}

// record is a lock's record as it stands in Redis.
type record struct {
	WriteOwner *struct {
		ID        string `json:"id"`
		ExpiresAt *int64 `json:"expiresAtEpochMillis"`
		Renewals  int64  `json:"renewals"`
	} `json:"writeOwner"`
	Waiting []struct {
		Node  string `json:"node"`
		Write bool   `json:"write"`
	} `json:"waiting"`
}

func (r *rig) record(name string) (rec record) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = r.admin.Do(ctx, r.admin.B().Get().Key("{"+r.keys+"}:lock:"+name).Build()).DecodeJSON(&rec)
	return rec
}

// until polls a condition that a real server has to bring about.
func until(limit time.Duration, what string, ok func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !ok(); <-tick.C {
		if time.Since(began) > limit {
			return fmt.Errorf("not within %v: %s", limit, what)
		}
	}
	return nil
}

var errTwoHolders = errors.New("two holders")

// ledger finds two holders of one name. It asks nobody but the holders: to find
// both saying yes, one after the other and the first once more, means that both
// held it at one moment.
type ledger struct {
	mu      sync.Mutex // guards the field below
	holders map[string][]*lockservice.Acquisition
}

// enter notes an exclusive holder.
func (l *ledger) enter(a *lockservice.Acquisition, names ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holders == nil {
		l.holders = make(map[string][]*lockservice.Acquisition)
	}
	var errs []error
	for _, name := range names {
		for _, other := range l.holders[name] {
			if a.HasLock() && other.HasLock() && a.HasLock() {
				errs = append(errs, fmt.Errorf("%w: of %q", errTwoHolders, name))
			}
		}
		l.holders[name] = append(l.holders[name], a)
	}
	return errors.Join(errs...)
}

// leave is to be called before the release.
func (l *ledger) leave(a *lockservice.Acquisition, names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		kept := l.holders[name][:0]
		for _, other := range l.holders[name] {
			if other != a {
				kept = append(kept, other)
			}
		}
		if l.holders[name] = kept; len(kept) == 0 {
			delete(l.holders, name)
		}
	}
}

// tape keeps what passes over a client's connections while it runs.
type tape struct {
	mu       sync.Mutex // guards the fields below
	running  bool
	up, down []byte
}

func (p *tape) dial(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &tapedConn{Conn: conn, tape: p}, nil
}

func (p *tape) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.up, p.down = true, nil, nil
}

func (p *tape) stop() (up, down []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
	return p.up, p.down
}

type tapedConn struct {
	net.Conn
	tape *tape
}

func (c *tapedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.tape.mu.Lock()
	defer c.tape.mu.Unlock()
	if c.tape.running {
		c.tape.down = append(c.tape.down, b[:max(n, 0)]...)
	}
	return n, err
}

func (c *tapedConn) Write(b []byte) (int, error) {
	c.tape.mu.Lock()
	if c.tape.running {
		c.tape.up = append(c.tape.up, b...)
	}
	c.tape.mu.Unlock()
	return c.Conn.Write(b)
}
