package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Redis is a redis-server from PATH that keeps nothing on disk.
type Redis struct {
	Addr string

	client  rueidis.Client
	process *os.Process
	exited  chan struct{}
	dir     string
	counted float64 // how often it was asked to count
}

// StartRedis starts one on a free port of loopback.
func StartRedis() (*Redis, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	r := &Redis{Addr: addr}
	if r.dir, err = os.MkdirTemp("", "bench-redis-"); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", r.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--maxclients", "20000")
	if r.exited, err = spawn(cmd); err != nil {
		return nil, fmt.Errorf("run redis-server: %w", err)
	}
	r.process = cmd.Process
	if err := r.connect(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Redis) connect() (err error) {
	for range 200 {
		r.client, err = rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{r.Addr}, ForceSingleClient: true, DisableCache: true,
		})
		if err == nil {
			return nil
		}
		if r.client != nil {
			r.client.Close()
			r.client = nil
		}
		time.Sleep(25 * time.Millisecond) // poll: until the server answers
	}
	return fmt.Errorf("redis-server does not answer: %w", err)
}

// Commands is how many commands the server has run since it was started, those in
// scripts and transactions too, but not those that count them.
func (r *Redis) Commands() (float64, error) {
	info, err := r.Info("commandstats")
	if err != nil {
		return 0, err
	}
	var sum float64
	for line := range strings.Lines(info) {
		_, rest, ok := strings.Cut(line, ":calls=")
		if !ok {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseFloat(calls, 64)
		if err != nil {
			return 0, fmt.Errorf("commandstats: %w", err)
		}
		sum += n
	}
	r.counted++
	return sum - r.counted, nil
}

// Info is a section of the server's INFO.
func (r *Redis) Info(section string) (string, error) {
	return r.client.Do(context.Background(), r.client.B().Info().Section(section).Build()).ToString()
}

// Field is a number out of INFO.
func (r *Redis) Field(section, field string) (float64, error) {
	info, err := r.Info(section)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("INFO %s has no %s", section, field)
}

// Close ends the server.
func (r *Redis) Close() {
	if r.client != nil {
		r.client.Close()
	}
	_ = r.process.Kill()
	<-r.exited
	_ = os.RemoveAll(r.dir)
}

func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
