package rig

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// EtcdRole is the role of the process that an embedded etcd runs in.
const EtcdRole = "etcd"

// Etcd is a cluster of one, in a process of its own.
type Etcd struct {
	Addr string

	process *Process
	dir     string
}

type etcdConfig struct {
	Dir, Client, Peer string
	NoFsync           bool
}

// StartEtcd starts one. With noFsync it doesn't wait for the disk, as Redis here
// doesn't.
func StartEtcd(noFsync bool) (*Etcd, error) {
	dir, err := os.MkdirTemp("", "bench-etcd-")
	if err != nil {
		return nil, err
	}
	client, err1 := freeAddr()
	peer, err2 := freeAddr()
	process, err3 := Start(EtcdRole, etcdConfig{Dir: dir, Client: client, Peer: peer, NoFsync: noFsync})
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	e := &Etcd{Addr: client, process: process, dir: dir}
	if err := process.Call("ready", nil, nil); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Commands is how many gRPC messages the server has received since it was started.
func (e *Etcd) Commands() (float64, error) {
	reply, err := http.Get("http://" + e.Addr + "/metrics")
	if err != nil {
		return 0, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return 0, err
	}
	var sum float64
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "grpc_server_msg_received_total{") {
			continue
		}
		fields := strings.Fields(line)
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// Close ends the server.
func (e *Etcd) Close() {
	e.process.Close()
	_ = os.RemoveAll(e.dir)
}

// RunEtcd is the [Role] named EtcdRole.
func RunEtcd(text json.RawMessage) (map[string]Handler, func(), error) {
	var c etcdConfig
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, nil, err
	}
	server, err := embed.StartEtcd(c.embed())
	if err != nil {
		return nil, nil, err
	}
	ready := func(json.RawMessage) (any, error) {
		select {
		case <-server.Server.ReadyNotify():
			return nil, nil
		case <-time.After(30 * time.Second):
			return nil, errors.New("not ready within 30 s")
		}
	}
	return map[string]Handler{"ready": ready}, server.Close, nil
}

func (c etcdConfig) embed() *embed.Config {
	cfg := embed.NewConfig()
	client, peer := httpURL(c.Client), httpURL(c.Peer)
	cfg.Dir = c.Dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = client, client
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = peer, peer
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogLevel = "panic"
	cfg.UnsafeNoFsync = c.NoFsync
	return cfg
}

func httpURL(addr string) []url.URL {
	return []url.URL{{Scheme: "http", Host: addr}}
}
