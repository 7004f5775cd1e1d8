package peers

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/redis/rueidis/rueidislock"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/lockservice"
)

// Peer is a connection of one process to what keeps the locks.
type Peer interface {
	// Lock waits for the lock, and returns the signal that says whether it is held.
	Lock(ctx context.Context, name string) (holds func() bool, err error)
	Close()
}

// Kind is one library.
type Kind struct {
	Name string
	// Renewal is how often it renews a lease of that length, as it is used here.
	Renewal func(lease time.Duration) time.Duration
	Etcd    bool
	open    func(addr string, lease time.Duration) (Peer, error)
}

// Kinds are all that are measured.
var Kinds = []Kind{
	{Name: "RedisLockService", Renewal: part(2), open: openOurs},
	{Name: "rueidislock", Renewal: part(2), open: openRueidislock},
	{Name: "redsync, extended each third of the lease", Renewal: part(3), open: openRedsync},
	{Name: "etcd concurrency.Mutex", Renewal: part(3), Etcd: true, open: openEtcd},
}

func part(n time.Duration) func(time.Duration) time.Duration {
	return func(lease time.Duration) time.Duration { return lease / n }
}

func find(name string) Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	panic("unknown peer " + name)
}

func clientOption(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
}

type ours struct{ svc *lockservice.RedisLockService }

func openOurs(addr string, lease time.Duration) (Peer, error) {
	svc, err := lockservice.Open(context.Background(), "redis://"+addr+"/0", lockservice.WithLeaseTime(lease))
	if err != nil {
		return nil, err
	}
	return ours{svc}, nil
}

func (p ours) Lock(ctx context.Context, name string) (func() bool, error) {
	for {
		a, err := p.svc.Acquire(ctx, []lockservice.Lock{lockservice.WriteLock(name)}, lockservice.WithTimeout(time.Minute))
		if err == nil {
			return a.HasLock, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
}

func (p ours) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_ = p.svc.Close(ctx)
}

type rueidisLock struct{ locker rueidislock.Locker }

func openRueidislock(addr string, lease time.Duration) (Peer, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: clientOption(addr), KeyValidity: lease, KeyMajority: 1})
	if err != nil {
		return nil, err
	}
	return rueidisLock{locker}, nil
}

func (p rueidisLock) Lock(ctx context.Context, name string) (func() bool, error) {
	held, _, err := p.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return func() bool { return held.Err() == nil }, nil
}

func (p rueidisLock) Close() { p.locker.Close() }

type redSync struct {
	client rueidis.Client
	sync   *redsync.Redsync
	lease  time.Duration
	ctx    context.Context
	stop   context.CancelFunc
}

func openRedsync(addr string, lease time.Duration) (Peer, error) {
	client, err := rueidis.NewClient(clientOption(addr))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	return &redSync{client: client, sync: redsync.New(redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client))), lease: lease, ctx: ctx, stop: stop}, nil
}

// Lock extends the lock as its users do, since redsync has no loop of its own: each
// third of the lease, one attempt no longer than that, until one fails for good.
func (p *redSync) Lock(ctx context.Context, name string) (func() bool, error) {
	m := p.sync.NewMutex(name, redsync.WithExpiry(p.lease), redsync.WithTries(1<<30), redsync.WithRetryDelay(5*time.Millisecond))
	if err := m.LockContext(ctx); err != nil {
		return nil, err
	}
	var until atomic.Int64
	start := time.Now()
	keep := func() { until.Store(int64(m.Until().Sub(start))) }
	keep()
	go func() {
		tick := time.NewTicker(p.lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-p.ctx.Done():
				return
			}
			ctx, cancel := context.WithTimeout(p.ctx, p.lease/3)
			ok, _ := m.ExtendContext(ctx)
			refused := !ok && ctx.Err() == nil
			cancel()
			if ok {
				keep()
			} else if refused {
				until.Store(0)
				return
			}
		}
	}()
	return func() bool { return time.Since(start) < time.Duration(until.Load()) }, nil
}

func (p *redSync) Close() {
	p.stop()
	p.client.Close()
}

type etcd struct {
	client *clientv3.Client
	lease  time.Duration
}

func openEtcd(addr string, lease time.Duration) (Peer, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return etcd{client, lease}, nil
}

// Lock makes a new session when the one before has ended.
func (p etcd) Lock(ctx context.Context, name string) (func() bool, error) {
	for {
		session, err := p.lock(ctx, name)
		if err == nil {
			return func() bool {
				select {
				case <-session.Done():
					return false
				default:
					return true
				}
			}, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
}

func (p etcd) lock(ctx context.Context, name string) (*concurrency.Session, error) {
	session, err := concurrency.NewSession(p.client, concurrency.WithTTL(int(p.lease/time.Second)))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(session.Ctx(), cancel)
	defer stop()
	return session, concurrency.NewMutex(session, name).Lock(ctx)
}

func (p etcd) Close() { _ = p.client.Close() }
