package redistest

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// ClientOption returns the options of [Server.Client], for tests that change some.
// The buffers are small, and a silent server is noticed after three seconds.
func (s *Server) ClientOption() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:         []string{s.Addr()},
		Password:            s.password,
		ForceSingleClient:   true,
		DisableCache:        true,
		Dialer:              net.Dialer{Timeout: 2 * time.Second, KeepAlive: time.Second},
		ConnWriteTimeout:    3 * time.Second,
		ReadBufferEachConn:  16 << 10,
		WriteBufferEachConn: 16 << 10,
		RingScaleEachConn:   7,
		BlockingPoolSize:    64,
	}
}

// Client returns a client of the server; it is closed when the test ends.
func (s *Server) Client(t testing.TB) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(s.ClientOption())
	if err != nil {
		t.Fatalf("redistest: connect to %s: %v", s.Addr(), err)
	}
	t.Cleanup(client.Close)
	return client
}

// Do runs one command as an administrator and fails the test if it gives an
// error. A nil reply is none. Each call has a connection of its own: a kept one
// would answer the first command after a restart with EOF.
func (s *Server) Do(t testing.TB, args ...string) rueidis.RedisMessage {
	t.Helper()
	client, err := rueidis.NewClient(s.ClientOption())
	if err != nil {
		t.Fatalf("redistest: connect to %s: %v", s.Addr(), err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	msg, err := client.Do(ctx, client.B().Arbitrary(args...).Build()).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("redistest: %s: %v", args[0], err)
	}
	return msg
}

// CommandStats returns how often the server ran each command since its start or
// the last CONFIG RESETSTAT; subcommands have names such as "client|list".
func (s *Server) CommandStats(t testing.TB) map[string]int64 {
	t.Helper()
	msg := s.Do(t, "INFO", "commandstats")
	text, err := msg.ToString()
	if err != nil {
		t.Fatalf("redistest: INFO commandstats: %v", err)
	}
	return parseCommandStats(text)
}

// parseCommandStats reads lines such as cmdstat_get:calls=3,usec=5,usec_per_call=…
func parseCommandStats(text string) map[string]int64 {
	stats := make(map[string]int64)
	for line := range strings.Lines(text) {
		_, entry, found := strings.Cut(strings.TrimSpace(line), "cmdstat_")
		if !found {
			continue
		}
		name, fields, _ := strings.Cut(entry, ":calls=")
		calls, _, _ := strings.Cut(fields, ",")
		if n, err := strconv.ParseInt(calls, 10, 64); err == nil {
			stats[strings.ToLower(name)] = n
		}
	}
	return stats
}
