package locktest

import (
	"slices"
	"testing"
)

// Backend is what the suite runs on.
type Backend struct {
	name string
	// run runs a scenario; on a server of its own if it is going to hurt it.
	run func(t *testing.T, s scenario)
}

// scenario is one test of the suite.
type scenario struct {
	name  string
	run   func(t *testing.T, e *Env)
	hurts bool   // restarts, empties or measures the server
	disk  bool   // its server is to keep its data over a restart; with hurts
	only  string // a backend; the only one on which it makes sense
}

// The names of the backends.
const (
	bubbleName = "bubble"
	redisName  = "redis"
)

// InBubble is miniredis on fake time.
func InBubble() Backend {
	return Backend{name: bubbleName, run: func(t *testing.T, s scenario) { Bubble(t, s.run) }}
}

// areas are the parts of the suite.
var areas = []struct {
	name      string
	scenarios []scenario
}{
	{"Outcomes", outcomes},
	{"Modes", modes},
	{"Nesting", nesting},
	{"Identity", identity},
	{"Waiting", waiting},
	{"Turns", turns},
	{"Deadlines", deadlines},
	{"Multi", multi},
	{"Leases", leases},
	{"Loss", loss},
	{"Restarts", restarts},
	{"Tokens", tokens},
	{"Info", info},
	{"Input", input},
	{"Foreign", foreign},
	{"Close", closing},
	{"Sharing", sharing},
	{"Crowds", crowds},
}

// Exercise runs the suite.
func Exercise(t *testing.T, b Backend) {
	t.Helper()
	for _, area := range areas {
		t.Run(area.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range area.scenarios {
				if s.only != "" && s.only != b.name {
					continue
				}
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					b.run(t, s)
				})
			}
		})
	}
}

// in restricts scenarios to a backend.
func in(backend string, scenarios ...scenario) []scenario {
	all := slices.Clone(scenarios)
	for i := range all {
		all[i].only = backend
	}
	return all
}
