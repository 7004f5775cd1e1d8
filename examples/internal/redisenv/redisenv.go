// Package redisenv gives the examples a Redis: the server of REDIS_URL if that is
// set, else an embedded miniredis, so that they run on a machine without any.
//
// The embedded server is for trying things out. It lives in the process of the
// example, so it proves nothing about crashes and restarts of a server.
package redisenv

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/lockservice"
)

// Redis is a server, and the clients that were made for it.
type Redis struct {
	Description string // what it is: the first line of a story

	option   rueidis.ClientOption
	prefix   string // of the keys, new for each run
	embedded *miniredis.Miniredis
	services []*lockservice.RedisLockService
	lines    []*Line
}

// Open finds or starts the server.
func Open() (*Redis, error) {
	r := &Redis{prefix: "example-" + rand.Text()[:8]}
	if url := os.Getenv("REDIS_URL"); url != "" {
		option, err := rueidis.ParseURL(url)
		if err != nil {
			return nil, errors.New("REDIS_URL is not like redis://user:password@host:6379/0")
		}
		r.option, r.Description = option, "the Redis of REDIS_URL"
		return r, nil
	}
	err := r.embed()
	return r, err
}

func (r *Redis) embed() error {
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return err
	}
	m.ClockTTL(true)
	m.Server().SetPreHook(answerInfo)
	r.embedded, r.option.InitAddress = m, []string{m.Addr()}
	r.Description = "an embedded miniredis (set REDIS_URL for a real one)"
	return nil
}

// answerInfo serves a section of INFO that miniredis doesn't have. The server claims
// to be up for an hour, else no lock would be granted for the length of a lease.
func answerInfo(p *server.Peer, cmd string, args ...string) bool {
	if cmd != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
		return false
	}
	p.WriteBulk("# Server\r\nredis_version:7.0.0\r\nrun_id:embedded\r\nuptime_in_seconds:3600\r\n")
	return true
}

// Close ends what was opened. Services that are closed already don't mind.
func (r *Redis) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, svc := range r.services {
		_ = svc.Close(ctx)
	}
	for _, l := range r.lines {
		l.client.Close()
	}
	if r.embedded != nil {
		r.embedded.Close()
	}
}

// Service makes a lock service with a line of its own to the server, as an instance
// of a program has. Leases are short, so that a story takes seconds. Close closes it,
// unless that was done before.
func (r *Redis) Service(ctx context.Context, owner string, opts ...lockservice.Option) (*lockservice.RedisLockService, *Line, error) {
	line := &Line{conns: make(map[net.Conn]struct{})}
	option := r.option
	option.ForceSingleClient, option.DisableCache, option.PipelineMultiplex = true, true, -1
	option.Dialer.Timeout, option.ConnWriteTimeout = time.Second, 2*time.Second
	option.DialCtxFn = line.dial
	var err error
	if line.client, err = rueidis.NewClient(option); err != nil {
		return nil, nil, err
	}
	r.lines = append(r.lines, line)
	svc, err := lockservice.New(ctx, line.client, append([]lockservice.Option{
		lockservice.WithKeyPrefix(r.prefix), lockservice.WithOwner(owner),
		lockservice.WithLeaseTime(time.Second), lockservice.WithPollDelay(200 * time.Millisecond),
		lockservice.WithConnectionTimeout(2 * time.Second),
	}, opts...)...)
	if err != nil {
		return nil, nil, err
	}
	r.services = append(r.services, svc)
	err = svc.WaitUntilReady(ctx)
	return svc, line, err
}

// Line is the way of one instance to the server. It can be cut.
type Line struct {
	client rueidis.Client

	mu    sync.Mutex // guards the fields below
	cut   bool
	conns map[net.Conn]struct{}
}

func (l *Line) dial(ctx context.Context, addr string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, fmt.Errorf("the line to %s is cut", addr)
	}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if config != nil {
		conn = tls.Client(conn, config)
	}
	l.conns[conn] = struct{}{}
	return conn, nil
}

// Cut takes the server away from the instance, for good.
func (l *Line) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for conn := range l.conns {
		_ = conn.Close()
	}
}
