package redistest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"
)

// lifecycleTimeout bounds one start, stop or pause. Generous: it is only ever
// reached when something is broken.
const lifecycleTimeout = 60 * time.Second

// backend runs one redis-server. The commands that it gets are in this order:
// start, then any of pause, unpause and stop, then start again. remove may come
// at any time and more than once.
type backend interface {
	fmt.Stringer // what runs: for logs
	start(ctx context.Context) error
	// stop returns after the server is gone. kill means SIGKILL, else SIGTERM.
	stop(ctx context.Context, kill bool) error
	pause(ctx context.Context) error
	unpause(ctx context.Context) error
	// wipe removes the data of a stopped server.
	wipe(ctx context.Context) error
	readData(ctx context.Context, file string) ([]byte, error)
	writeData(ctx context.Context, file string, content []byte) error
	remove(ctx context.Context) error
}

// Server is one Redis server of a test.
type Server struct {
	port     int
	password string
	backend  backend
	release  func() // gives the port back
	running  bool
	paused   bool
}

type config struct {
	args []string
}

// Option changes how [Start] runs the server.
type Option func(*config)

// WithArgs adds arguments of redis-server, such as "--appendonly", "yes". The
// default is a server without persistence: --save "" --appendonly no. A password
// given by --requirepass is used by all clients of this package.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

// Start runs a server for the test and stops it when the test ends.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := launch(opts...)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Logf("redistest: %s at %s", s.backend, s.Addr())
	t.Cleanup(func() {
		if err := s.remove(); err != nil {
			t.Errorf("redistest: remove the server: %v", err)
		}
	})
	return s
}

// launch is Start without a test: the shared server outlives any single one.
func launch(opts ...Option) (*Server, error) {
	cfg := config{args: []string{"--save", "", "--appendonly", "no"}}
	for _, opt := range opts {
		opt(&cfg)
	}
	ctx, cancel := context.WithTimeout(context.Background(), imageTimeout+lifecycleTimeout)
	defer cancel()
	kind, err := chooseKind(ctx)
	if err != nil {
		return nil, err
	}
	return launchOn(ctx, kind, cfg.args)
}

// launchOn looks for a port that nobody uses. A reserved port may still be taken by
// a program outside this package, so a failed bind means the next one.
func launchOn(ctx context.Context, kind string, args []string) (*Server, error) {
	var lastErr error
	for range 10 {
		port, release, err := reservePort()
		if err != nil {
			return nil, err
		}
		s := &Server{port: port, release: release, password: passwordIn(args), backend: newBackend(kind, port, args)}
		if lastErr = s.start(ctx); lastErr == nil {
			return s, nil
		}
		if err := s.remove(); err != nil {
			return nil, err
		}
		if !isPortTaken(lastErr) {
			return nil, lastErr
		}
	}
	return nil, fmt.Errorf("no free port found: %w", lastErr)
}

func newBackend(kind string, port int, args []string) backend {
	if kind == kindBinary {
		return newBinary(port, args)
	}
	return newContainer(port, args)
}

func passwordIn(args []string) string {
	at := slices.Index(args, "--requirepass")
	if at < 0 || at+1 >= len(args) {
		return ""
	}
	return args[at+1]
}

// Addr returns host:port, the same over all restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Password returns the password given by --requirepass, or "".
func (s *Server) Password() string { return s.password }

// URL returns the address of database 0 as a redis:// URL, with the password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr(), Path: "/0"}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// Stop ends the server with SIGTERM: it saves what its arguments let it save.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	s.must(t, "stop", func(ctx context.Context) error { return s.stop(ctx, false) })
}

// Kill ends the server with SIGKILL.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.must(t, "kill", func(ctx context.Context) error { return s.stop(ctx, true) })
}

// Start starts a stopped server on the data that it left behind.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	s.must(t, "start", s.start)
}

// Restart kills the server and starts it on what it had written to its disk:
// nothing, unless its arguments turn persistence on.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.must(t, "restart", func(ctx context.Context) error {
		if err := s.stop(ctx, true); err != nil {
			return err
		}
		return s.start(ctx)
	})
}

// RestartEmpty kills the server and starts it without any data, whatever its
// arguments say about persistence.
func (s *Server) RestartEmpty(t testing.TB) {
	t.Helper()
	s.must(t, "restart empty", func(ctx context.Context) error {
		if err := s.stop(ctx, true); err != nil {
			return err
		}
		if err := s.backend.wipe(ctx); err != nil {
			return err
		}
		return s.start(ctx)
	})
}

// Pause freezes the server: it still accepts connections, by its kernel, but
// answers nothing until [Server.Unpause].
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.must(t, "pause", func(ctx context.Context) error {
		if err := s.backend.pause(ctx); err != nil {
			return err
		}
		s.paused = true
		return nil
	})
}

// Unpause lets a paused server go on. It then also works on what was sent to it in
// the meantime, even by clients that gave up long ago.
func (s *Server) Unpause(t testing.TB) {
	t.Helper()
	s.must(t, "unpause", s.unpause)
}

func (s *Server) must(t testing.TB, what string, do func(context.Context) error) {
	t.Helper()
	// Not t.Context: that is done already when a t.Cleanup function restarts a server.
	ctx, cancel := context.WithTimeout(context.Background(), lifecycleTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		t.Fatalf("redistest: %s the server at %s: %v", what, s.Addr(), err)
	}
}

func (s *Server) start(ctx context.Context) error {
	if s.running {
		return fmt.Errorf("it is running already")
	}
	if err := s.backend.start(ctx); err != nil {
		return err
	}
	s.running = true
	return s.waitReady(ctx)
}

// stop of a stopped server does nothing, so that a test may Kill first and look at
// what its clients do before it calls Restart.
func (s *Server) stop(ctx context.Context, kill bool) error {
	if !s.running {
		return nil
	}
	// A frozen process doesn't get SIGTERM, and in a container not even SIGKILL.
	if s.paused && !kill {
		if err := s.unpause(ctx); err != nil {
			return err
		}
	}
	if err := s.backend.stop(ctx, kill); err != nil {
		return err
	}
	s.running, s.paused = false, false
	return nil
}

func (s *Server) unpause(ctx context.Context) error {
	if err := s.backend.unpause(ctx); err != nil {
		return err
	}
	s.paused = false
	return nil
}

func (s *Server) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), lifecycleTimeout)
	defer cancel()
	defer s.release()
	return s.backend.remove(ctx)
}
