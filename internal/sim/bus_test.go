package sim

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// ear remembers what a handler was told.
type ear struct {
	mu    sync.Mutex // guards heard
	heard []string
}

func (e *ear) hear(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, text)
}

func (e *ear) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.heard...)
}

func (e *ear) handler() Handler {
	return Handler{Message: e.hear, Down: func() { e.hear("down") }, Up: func() { e.hear("up") }}
}

func TestMessagesGoOutOnlyIfTheTransactionCommits(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		var e ear
		cancel := r.Subscribe("c", e.hear)
		p := r.Port()
		for _, conflict := range []bool{true, false} {
			watch(t, p, keyA)
			if conflict {
				r.Put(keyA, []byte("v"), 0)
			}
			w := set(keyA, "mine")
			w.Publishes = []exchange.Publish{{Channel: "c", Message: "1"}, {Channel: "other", Message: "x"}, {Channel: "c", Message: "2"}}
			require.Equal(t, !conflict, commit(t, p, w))
		}
		r.Settle()
		require.Equal(t, []string{"1", "2"}, e.all())
		cancel()
		r.Publish("c", "3")
		r.Settle()
		require.Equal(t, []string{"1", "2"}, e.all())
	})
}

func TestMessagesKeepTheirOrderUnlessTheyOvertake(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		r.SetGate(at(Message, 0, Fault{Delay: time.Second}))
		var e ear
		p := r.Port()
		p.Subscribe("c", e.handler())
		r.Publish("c", "1")
		r.Settle()

		r.Publish("c", "2")
		r.Publish("c", "3")
		r.Settle()
		require.Equal(t, []string{"1", "2", "3"}, e.all())

		r.SetGate(GateFunc(func(s Step) Fault {
			switch s.Number {
			case 4:
				return Fault{Delay: time.Second}
			case 5:
				return Fault{Overtake: true, Repeat: 1}
			default:
				return Fault{Lose: true}
			}
		}))
		for _, m := range []string{"4", "5", "6"} {
			r.Publish("c", m)
		}
		r.Settle()
		require.Equal(t, []string{"1", "2", "3", "5", "5", "4"}, e.all())
		facts := r.Facts()
		require.Equal(t, []int{1, 1, 1}, []int{facts[MessageOvertook], facts[MessageRepeated], facts[MessageLost]})
	})
}

func TestLostSubscriptionIsToldAndItsMessagesAreGone(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		r.SetGate(GateFunc(func(s Step) Fault {
			if s.Phase == Message || s.Phase == Subscribe {
				return Fault{Delay: time.Second}
			}
			return Fault{}
		}))
		var e ear
		p := r.Port()
		p.Subscribe("c", e.handler())
		r.Publish("c", "under way")
		p.CutSubscription()
		p.CutSubscription()
		r.Publish("c", "while down")
		r.Settle()
		r.Publish("c", "after")
		r.Settle()
		require.Equal(t, []string{"down", "up", "after"}, e.all())
	})
}

func TestSubscriptionIsDownWhileTheServerIs(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		var e ear
		p := r.Port()
		p.Subscribe("c", e.handler())
		r.Crash()
		r.Settle()
		require.Equal(t, []string{"down"}, e.all())
		r.Start(Nothing)
		r.Settle()
		r.Publish("c", "m")
		r.Settle()
		require.Equal(t, []string{"down", "up", "m"}, e.all())
	})
}

func TestHandlerThatWaitsHoldsUpOnlyItself(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		var e ear
		p := r.Port()
		let := make(chan struct{})
		p.Subscribe("c", Handler{Message: func(string) { <-let }})
		heard := make(chan struct{})
		p.Subscribe("c", Handler{Message: func(m string) { e.hear(m); close(heard) }})
		r.Publish("c", "m")
		<-heard
		close(let)
	})
}
