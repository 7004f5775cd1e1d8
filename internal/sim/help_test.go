package sim

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

const (
	keyA = "{p}:lock:a"
	keyB = "{p}:lock:b"
)

// both runs a test inside a bubble and outside of one: the model must not care.
func both(t *testing.T, test func(t *testing.T, r *Redis)) {
	t.Helper()
	t.Parallel()
	t.Run("bubble", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { settled(t, test) })
	})
	t.Run("real time", func(t *testing.T) {
		t.Parallel()
		settled(t, test)
	})
}

// bubble runs a test inside a bubble only, for the sake of its clock.
func bubble(t *testing.T, test func(t *testing.T, r *Redis)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { settled(t, test) })
}

func settled(t *testing.T, test func(t *testing.T, r *Redis)) {
	r := NewRedis()
	test(t, r)
	r.Settle()
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func set(key, value string) *exchange.Writes {
	return &exchange.Writes{Sets: []exchange.Set{{Key: key, Value: []byte(value)}}}
}

// watch reads the keys; the next exchange may commit.
func watch(t *testing.T, p *Port, keys ...string) exchange.Snapshot {
	t.Helper()
	committed, snap, err := p.Exchange(within(t, time.Minute), nil, keys)
	require.NoError(t, err)
	require.False(t, committed)
	require.Len(t, snap.Values, len(keys))
	return snap
}

// commit commits and reads nothing.
func commit(t *testing.T, p *Port, w *exchange.Writes) bool {
	t.Helper()
	committed, _, err := p.Exchange(within(t, time.Minute), w, nil)
	require.NoError(t, err)
	return committed
}

func requireValue(t *testing.T, r *Redis, key, want string) {
	t.Helper()
	value, ok := r.Get(key)
	require.True(t, ok)
	require.Equal(t, want, string(value))
}

// once is a gate with one fault, at the first step that matches.
type once struct {
	phase Phase
	part  int
	skip  int // so many matches before
	fault Fault
	seen  chan struct{} // an element for each match
	count atomic.Int32
}

// at makes a gate that does f to the first step of a phase after skip others.
func at(phase Phase, skip int, f Fault) *once {
	return &once{phase: phase, skip: skip, fault: f, seen: make(chan struct{}, 1000)}
}

func (g *once) Pass(s Step) Fault {
	if s.Phase != g.phase || s.Part != g.part {
		return Fault{}
	}
	g.seen <- struct{}{}
	if int(g.count.Add(1)) == g.skip+1 {
		return g.fault
	}
	return Fault{}
}
