package redistest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// shared is the server of this test process that [Shared] hands out.
var shared struct {
	mu      sync.Mutex // guards the fields below
	allowed bool       // Main will stop the server
	server  *Server
	err     error // of the only attempt to start it
}

// Main is for TestMain: it runs the tests, stops the server of [Shared] and then
// fails the run if goroutines were left behind.
func Main(m *testing.M, opts ...goleak.Option) {
	shared.mu.Lock()
	shared.allowed = true
	shared.mu.Unlock()
	// The leak check must come after the shared server has gone, and it runs
	// right after Run: so stopping is made a part of it.
	goleak.VerifyTestMain(runThenStop{m}, append(GoleakOptions(), opts...)...)
}

type runThenStop struct{ m *testing.M }

func (r runThenStop) Run() int {
	code := r.m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintf(os.Stderr, "redistest: stop the shared server: %v\n", err)
		code = max(code, 1)
	}
	return code
}

// GoleakOptions ignores what testcontainers and the Docker client keep running for
// the life of the process: idle connections to the engine.
func GoleakOptions() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	}
}

// Shared returns the one server of this test process. It is started at the first
// call, for tests that leave it running and keep to their own [Prefix].
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.allowed {
		t.Fatal("redistest: Shared needs redistest.Main in TestMain, which stops the server")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = launch()
	}
	if shared.err != nil {
		t.Fatalf("redistest: %v", shared.err)
	}
	return shared.server
}

func stopShared() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.allowed = false
	if shared.server == nil {
		return nil
	}
	return shared.server.remove()
}

// Prefix returns a key prefix that no other test uses, also not in an earlier run. It
// is made of the test's name, without anything that has a meaning in keys or globs.
func Prefix(t testing.TB) string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '_'
	}, t.Name())
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return name[:min(len(name), 60)] + "-" + hex.EncodeToString(random[:])
}
