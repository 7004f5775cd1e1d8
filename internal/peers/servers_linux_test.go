package peers

import (
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

// server is what keeps the locks, and how it may be hurt.
type server interface {
	Addr() string
	flush(t *testing.T)
	restartEmpty(t *testing.T)
	// remember is how the server is now; restore restarts it as it was then.
	remember(t *testing.T)
	restore(t *testing.T)
}

func startServer(t *testing.T, k Kind) server {
	t.Helper()
	if k.Etcd {
		return startEtcd(t)
	}
	return &redisServer{Server: redistest.Start(t)}
}

type redisServer struct {
	*redistest.Server
	snapshot redistest.Snapshot
}

func (s *redisServer) flush(t *testing.T)        { s.Do(t, "FLUSHALL") }
func (s *redisServer) restartEmpty(t *testing.T) { s.RestartEmpty(t) }
func (s *redisServer) remember(t *testing.T)     { s.snapshot = s.SaveSnapshot(t) }
func (s *redisServer) restore(t *testing.T)      { s.RestoreSnapshot(t, s.snapshot) }

// etcdServer is a cluster of one, inside this process.
type etcdServer struct {
	dir    string
	client url.URL
	peer   url.URL
	etcd   *embed.Etcd
}

func startEtcd(t *testing.T) *etcdServer {
	t.Helper()
	s := &etcdServer{dir: t.TempDir(), client: freeURL(t), peer: freeURL(t)}
	s.start(t)
	t.Cleanup(func() { s.etcd.Close() })
	return s
}

func (s *etcdServer) start(t *testing.T) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = s.dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{s.client}, []url.URL{s.client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{s.peer}, []url.URL{s.peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogLevel = "panic"
	var err error
	s.etcd, err = embed.StartEtcd(cfg)
	require.NoError(t, err)
	select {
	case <-s.etcd.Server.ReadyNotify():
	case <-time.After(30 * time.Second):
		t.Fatal("etcd did not start within 30 s")
	}
}

func (s *etcdServer) Addr() string { return s.client.Host }

func (s *etcdServer) flush(t *testing.T) {
	t.Helper()
	t.Fatal("etcd can't be flushed")
}

func (s *etcdServer) restartEmpty(t *testing.T) {
	t.Helper()
	s.etcd.Close()
	require.NoError(t, os.RemoveAll(s.dir))
	s.start(t)
}

func (s *etcdServer) remember(t *testing.T) {
	t.Helper()
	t.Fatal("etcd is not restored here: that is a procedure of its own")
}

func (s *etcdServer) restore(t *testing.T) { s.remember(t) }
