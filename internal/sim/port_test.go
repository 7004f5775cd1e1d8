package sim

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/faketime"
)

func requireConnError(t *testing.T, err error, sent bool) {
	t.Helper()
	var conn *exchange.ConnError
	require.ErrorAs(t, err, &conn)
	require.Equal(t, sent, conn.Sent)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's ctx is another one")
}

func TestLostRequestIsNeverApplied(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		r.SetGate(at(Request, 1, Fault{Lose: true}))
		p := r.Port()
		watch(t, p, keyA)
		start := time.Now()
		committed, _, err := p.Exchange(within(t, time.Second), set(keyA, "v"), []string{keyA})
		requireConnError(t, err, true)
		require.False(t, committed)
		require.Equal(t, time.Second, time.Since(start))
		faketime.Pass(time.Hour)
		require.Empty(t, r.Keys())
		require.Equal(t, 1, r.Facts()[RequestLost])
		require.Equal(t, 1, r.Facts()[TimedOut])
	})
}

func TestLostReplyIsApplied(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		r.SetGate(at(Reply, 1, Fault{Lose: true}))
		p := r.Port()
		watch(t, p, keyA)
		committed, _, err := p.Exchange(within(t, time.Second), set(keyA, "v"), []string{keyA})
		requireConnError(t, err, true)
		require.False(t, committed)
		requireValue(t, r, keyA, "v")
	})
}

func TestConnectionCutBeforeTheRequestAfterTheCommitAndBeforeTheReply(t *testing.T) {
	t.Parallel()
	for phase, applied := range map[Phase]bool{Request: false, Read: true, Reply: true} {
		t.Run(phase.String(), func(t *testing.T) {
			both(t, func(t *testing.T, r *Redis) {
				r.SetGate(at(phase, 1, Fault{Cut: true}))
				p := r.Port()
				watch(t, p, keyA)
				_, _, err := p.Exchange(within(t, time.Minute), set(keyA, "v"), []string{keyA})
				requireConnError(t, err, true)
				snap := watch(t, p, keyA)
				require.Equal(t, applied, snap.Values[0].Exists)
			})
		})
	}
}

// TestLateCommitOfADeadConnection is the EXEC that still sits in a socket's
// buffer when its client has long gone on with another connection.
func TestLateCommitOfADeadConnection(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		between func(t *testing.T, r *Redis, p *Port)
		applied bool
	}{
		{"nothing happened: it is applied", func(*testing.T, *Redis, *Port) {}, true},
		{"its key was only read: it is applied", func(t *testing.T, _ *Redis, p *Port) { watch(t, p, keyA) }, true},
		{"its key was written: its WATCH fails", func(t *testing.T, _ *Redis, p *Port) {
			watch(t, p, keyA)
			require.True(t, commit(t, p, set(keyA, "same")))
		}, false},
		{"the server has crashed: it is gone", func(_ *testing.T, r *Redis, _ *Port) { r.Restart(Everything) }, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *Redis) {
				r.Put(keyA, []byte("same"), 0)
				r.SetGate(at(Request, 1, Fault{Late: true, Delay: time.Hour}))
				p := r.Port()
				watch(t, p, keyA)
				start := time.Now()
				_, _, err := p.Exchange(within(t, time.Minute), set(keyA, "ghost"), []string{keyA})
				requireConnError(t, err, true)
				require.Equal(t, start, time.Now(), "the client is told at once")
				c.between(t, r, p)
				requireValue(t, r, keyA, "same")
				r.Settle()
				require.Equal(t, time.Hour, time.Since(start))
				if c.applied {
					requireValue(t, r, keyA, "ghost")
					require.Equal(t, 1, r.Facts()[LateCommitted])
				} else {
					requireValue(t, r, keyA, "same")
					require.Equal(t, 1, r.Facts()[LateConflicted]+r.Facts()[RequestDead])
				}
			})
		})
	}
}

func TestRequestThatOutlivesItsCallerIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		r.SetGate(at(Request, 1, Fault{Delay: 3 * time.Second}))
		p := r.Port()
		watch(t, p, keyA)
		w := set(keyA, "ghost")
		_, _, err := p.Exchange(within(t, time.Second), w, []string{keyA})
		requireConnError(t, err, true)
		copy(w.Sets[0].Value, "reused by the caller")
		r.Settle()
		requireValue(t, r, keyA, "ghost")
		require.Equal(t, 1, r.Facts()[LateCommitted])
		require.Empty(t, r.sessions, "the server has closed what the client had given up")
	})
}

func TestReadsOfOneExchangeMayBeTorn(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		move := func() { r.Put(keyA, []byte("1"), 0); r.Put(keyB, []byte("1"), 0) }
		g := at(Read, 0, Fault{})
		r.SetGate(GateFunc(func(s Step) Fault {
			if s.Phase == Read && s.Part == 1 && len(g.seen) == 0 {
				g.seen <- struct{}{}
				move()
			}
			return Fault{}
		}))
		p := r.Port()
		snap := watch(t, p, keyA, keyB)
		require.False(t, snap.Values[0].Exists)
		require.True(t, snap.Values[1].Exists)
		require.False(t, commit(t, p, set(keyA, "mine")), "which is why answers rest on a commit")
	})
}

func TestOnlyTheDeadlineEndsAnExchangeThatWasSent(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		r.SetGate(Latency(time.Second))
		p := r.Port()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		time.AfterFunc(time.Second, cancel)
		_, _, err := p.Exchange(ctx, nil, []string{keyA})
		require.NoError(t, err, "as on a real connection")
		_, _, err = p.Exchange(ctx, nil, []string{keyA})
		requireConnError(t, err, false)
		start := time.Now()
		r.SetGate(at(Reply, 0, Fault{Lose: true}))
		_, _, err = p.Exchange(context.Background(), nil, []string{keyA})
		requireConnError(t, err, true)
		require.Equal(t, defaultTimeout, time.Since(start))
	})
}

func TestLatencyIsThatOfBothWays(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		r.SetGate(Latency(50 * time.Microsecond))
		start := time.Now()
		watch(t, r.Port(), keyA, keyB)
		require.Equal(t, 100*time.Microsecond, time.Since(start))
	})
}

func TestDialThatIsLostOrRefusedHasSentNothing(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		for _, f := range []Fault{{Lose: true}, {Cut: true}, {Delay: time.Hour}} {
			r.SetGate(at(Dial, 0, f))
			_, _, err := r.Port().Exchange(within(t, time.Second), nil, []string{keyA})
			requireConnError(t, err, false)
		}
		r.SetGate(Latency(0))
		r.Crash()
		_, _, err := r.Port().Exchange(within(t, time.Second), nil, []string{keyA})
		requireConnError(t, err, false)
		r.Settle()
		require.Empty(t, r.sessions)
	})
}

func TestClosedPortSaysSo(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		watch(t, p, keyA)
		p.Close()
		p.Close()
		_, _, err := p.Exchange(within(t, time.Minute), nil, []string{keyA})
		require.ErrorIs(t, err, exchange.ErrClosed)
		require.Empty(t, r.sessions)
	})
}

func TestCloseEndsTheExchangeUnderWay(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		g := at(Reply, 0, Fault{Lose: true})
		r.SetGate(g)
		p := r.Port()
		done := make(chan error)
		ctx := within(t, time.Minute)
		go func() {
			_, _, err := p.Exchange(ctx, nil, []string{keyA})
			done <- err
		}()
		<-g.seen
		p.Close()
		requireConnError(t, <-done, true)
	})
}

func TestKilledNodeHearsNothingMoreButWhatItSentIsApplied(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		r.SetGate(at(Request, 1, Fault{Delay: time.Second}))
		p := r.Port()
		p.Subscribe("c", Handler{Message: func(string) { t.Error("a message reached a dead node") }})
		watch(t, p, keyA)
		time.AfterFunc(time.Millisecond, p.Kill)
		_, _, err := p.Exchange(within(t, time.Minute), set(keyA, "v"), []string{keyA})
		require.ErrorIs(t, err, ErrKilled)
		requireConnError(t, err, true)
		_, _, err = p.Exchange(within(t, time.Minute), nil, []string{keyA})
		require.ErrorIs(t, err, ErrKilled)
		requireConnError(t, err, false)
		r.Publish("c", "m")
		r.Settle()
		requireValue(t, r, keyA, "v")
	})
}

func TestPausedNodeHearsLater(t *testing.T) {
	bubble(t, func(t *testing.T, r *Redis) {
		p := r.Port()
		var heard time.Time
		p.Subscribe("c", Handler{Message: func(string) { heard = time.Now() }})
		p.Pause()
		start := time.Now()
		time.AfterFunc(time.Minute, p.Resume)
		r.Publish("c", "m")
		_, _, err := p.Exchange(within(t, time.Second), nil, []string{keyA})
		requireConnError(t, err, true)
		_, _, err = p.Exchange(within(t, time.Hour), nil, []string{keyA})
		require.NoError(t, err)
		r.Settle()
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, start.Add(time.Minute), heard)
	})
}

// TestCountersAreNeverLost has many ports at once add to two keys: with WATCH no
// addition is lost, and both keys always agree.
func TestCountersAreNeverLost(t *testing.T) {
	both(t, func(t *testing.T, r *Redis) {
		const ports, rounds = 8, 25
		var all sync.WaitGroup
		for range ports {
			p := r.Port()
			all.Go(func() {
				for range rounds {
					add(t, p)
				}
			})
		}
		all.Wait()
		requireValue(t, r, keyA, fmt.Sprint(ports*rounds))
		requireValue(t, r, keyB, fmt.Sprint(ports*rounds))
	})
}

func add(t *testing.T, p *Port) {
	snap := watch(t, p, keyA, keyB)
	for {
		var n int
		_, _ = fmt.Sscan(string(snap.Values[0].Data), &n)
		next := []byte(fmt.Sprint(n + 1))
		w := &exchange.Writes{Sets: []exchange.Set{{Key: keyA, Value: next}, {Key: keyB, Value: next}}}
		committed, again, err := p.Exchange(within(t, time.Minute), w, []string{keyA, keyB})
		if err != nil || committed {
			if err != nil {
				t.Error(err)
			}
			return
		}
		snap = again
	}
}
