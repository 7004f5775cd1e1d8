package main

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.uber.org/zap"
)

type etcd struct {
	client *clientv3.Client
	lease  time.Duration

	// shared is the session of all contenders whose names differ; nil: each has its
	// own. A session that waits for a name twice would hold it twice.
	shared *concurrency.Session
	mu     sync.Mutex // guards busy
	busy   map[string]bool
}

func openEtcd(tuned bool) func(openConfig) (peer, error) {
	return func(c openConfig) (peer, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{c.Addr}, Logger: zap.NewNop()})
		if err != nil {
			return nil, err
		}
		p := &etcd{client: client, lease: c.Lease, busy: make(map[string]bool)}
		if tuned {
			p.shared, err = p.session()
		}
		return p, err
	}
}

func (p *etcd) session() (*concurrency.Session, error) {
	return concurrency.NewSession(p.client, concurrency.WithTTL(int(p.lease/time.Second)))
}

func (p *etcd) contender() (contender, error) {
	own, err := p.session()
	return &etcdContender{p, own}, err
}

func (p *etcd) close() { _ = p.client.Close() }

type etcdContender struct {
	peer *etcd
	own  *concurrency.Session
}

func (c *etcdContender) lock(ctx context.Context, names ...string) (func() error, error) {
	return oneByOne(names, func(name string) (func() error, error) {
		session, done := c.peer.sessionFor(c.own, name)
		m := concurrency.NewMutex(session, name)
		err := untilDone(ctx, func() error { return m.Lock(ctx) })
		if err != nil {
			done()
			return nil, err
		}
		return func() error { defer done(); return m.Unlock(context.Background()) }, nil
	})
}

// sessionFor is the shared one, unless another goroutine uses it for the name.
func (p *etcd) sessionFor(own *concurrency.Session, name string) (session *concurrency.Session, done func()) {
	if p.shared == nil {
		return own, func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy[name] {
		return own, func() {}
	}
	p.busy[name] = true
	return p.shared, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.busy, name)
	}
}

// rwlock is of the package's recipes. They take no context.
func (c *etcdContender) rwlock(_ context.Context, name string, write bool) (func() error, error) {
	m := recipe.NewRWMutex(c.own, name)
	if write {
		return m.Unlock, m.Lock()
	}
	return m.RUnlock, m.RLock()
}
