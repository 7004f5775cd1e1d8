package locktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// turns: nobody is passed over for ever, on his own service or another.
var turns = []scenario{
	{name: "BusyServiceDoesNotStarveAnother", run: busyService},
	{name: "ReadersGetInWhileWritersKeepComing", run: readersBesideWriters},
	{name: "NestedCallIsNotHeldUpByAnEldersTurn", run: nestedBesideElders},
}

// keepComing has callers take the lock again and again, each for a millisecond,
// until stop is called: there is always one that waits.
func (e *Env) keepComing(svc service, callers int, l lockservice.Lock) (stop func()) {
	ctx, cancel := context.WithCancel(e.T.Context())
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				a, err := svc.Acquire(ctx, locks(l), timeout(long))
				if err != nil {
					continue
				}
				e.pause(ctx, time.Millisecond)
				_ = a.Release(context.Background())
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// getsIn acquires a few times, one after the other, and is never kept out for as
// long as a poll delay.
func (e *Env) getsIn(svc service, l lockservice.Lock) {
	e.T.Helper()
	for range 5 {
		began := time.Now()
		a, err := svc.Acquire(e.T.Context(), locks(l), timeout(long))
		require.NoError(e.T, err)
		if e.Fake {
			require.Less(e.T, time.Since(began), 300*time.Millisecond)
		}
		letGo(e.T, a)
	}
}

func busyService(t *testing.T, e *Env) {
	busy, other := e.NewService(), e.NewService()
	stop := e.keepComing(busy, 20, write("x"))
	e.AwaitWaiting("x", 1)
	e.getsIn(other, write("x"))
	stop()
	e.free("x")
}

// Readers of a service that writes nothing, and of one whose own writers wait too.
func readersBesideWriters(t *testing.T, e *Env) {
	a, b, c := e.NewService(), e.NewService(), e.NewService()
	stopA, stopB := e.keepComing(a, 10, write("x")), e.keepComing(b, 10, write("x"))
	e.AwaitWaiting("x", 2)
	e.getsIn(c, read("x"))
	e.getsIn(a, read("x"))
	stopA()
	stopB()
	e.free("x")
}

// The elder waits for what the chain holds: if the nested call stood back for it,
// each would wait for the other.
func nestedBesideElders(t *testing.T, e *Env) {
	a, b := e.NewService(), e.NewService()
	outer := hold(t, t.Context(), a, write("outer"))
	y := hold(t, t.Context(), a, write("y"))
	elder := start(t, t.Context(), b, locks(write("outer"), write("y")))
	e.AwaitWaiting("y", 1)
	nested := start(t, outer.Context(), a, locks(write("y")))
	e.stillWaits(nested)
	e.Pass(100 * time.Millisecond)
	letGo(t, y)
	inner := nested.got()
	e.stillWaits(elder)
	letGo(t, inner)
	letGo(t, outer)
	letGo(t, elder.got())
}
