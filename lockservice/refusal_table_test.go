package lockservice

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/sim"
)

// The table has every kind of error reply at every command, and what becomes of
// whoever acquires, waits, holds and lets go while a server answers so. What real
// servers say and when is in fault_refusal_test.go; here is every combination, on
// fake time.

var refusalKinds = map[exchange.Kind]string{
	exchange.OOM: "OOM", exchange.ReadOnly: "READONLY", exchange.Loading: "LOADING", exchange.Misconf: "MISCONF",
	exchange.Busy: "BUSY", exchange.NoReplicas: "NOREPLICAS", exchange.NoAuth: "NOAUTH", exchange.NoPerm: "NOPERM",
	exchange.Unsupported: "unknown command", exchange.Other: "refused",
}

var refusedCommands = []string{"WATCH", "GET", "TIME", "INFO", "MULTI", "SET", "EXEC", "PUBLISH"}

var refusalSteps = map[string]func(*refusalTable){
	"Acquire":        (*refusalTable).acquire,
	"Wait":           (*refusalTable).wait,
	"Renew":          (*refusalTable).renew,
	"RenewInTime":    (*refusalTable).renewInTime,
	"Release":        (*refusalTable).release,
	"ReleaseForever": (*refusalTable).releaseForever,
}

// refusalTable is one cell: a server that refuses a command, and two services.
type refusalTable struct {
	*testing.T
	r       *sim.Redis
	a, b    *RedisLockService
	kind    exchange.Kind
	command string
}

func TestEveryRefusalOfEveryCommandAtEveryStep(t *testing.T) {
	t.Parallel()
	for kind, word := range refusalKinds {
		for _, command := range refusedCommands {
			for step, play := range refusalSteps {
				t.Run(fmt.Sprintf("%s/%s/%s", strings.ReplaceAll(word, " ", ""), command, step), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) { playRefusal(t, kind, command, play) })
				})
			}
		}
	}
}

func playRefusal(t *testing.T, kind exchange.Kind, command string, play func(*refusalTable)) {
	r := sim.NewRedis()
	r.SetGate(sim.Latency(time.Millisecond))
	c := &refusalTable{T: t, r: r, a: serviceOn(t, r.Port()), b: serviceOn(t, r.Port()), kind: kind, command: command}
	play(c)
	r.Accept()
	c.nothingIsLeft()
	require.NoError(t, c.a.Close(t.Context()))
	require.NoError(t, c.b.Close(t.Context()))
	r.Settle()
}

// refuse begins once INFO is due again, which is asked each second.
func (c *refusalTable) refuse() {
	faketime.Pass(2 * time.Second)
	c.r.Refuse(c.kind, c.command)
}

// needed says whether an acquire, a renewal and a release without waiters need the command.
func (c *refusalTable) needed() bool { return c.command != "PUBLISH" }

func (c *refusalTable) permanent() bool {
	return (&exchange.ServerError{Kind: c.kind}).Permanent()
}

// isRefusal looks at an error that tells of it.
func (c *refusalTable) isRefusal(err error) {
	c.Helper()
	require.ErrorIs(c, err, ErrUnavailable)
	require.ErrorContains(c, err, c.command)
	require.ErrorContains(c, err, refusalKinds[c.kind])
	require.False(c, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled), "nobody's ctx has ended: %v", err)
}

// nothingIsLeft: a moment after the server has come to its senses, or after the
// lease where a release never got through, everybody gets what he asks for.
func (c *refusalTable) nothingIsLeft() {
	c.Helper()
	for _, svc := range []*RedisLockService{c.a, c.b} {
		a, err := svc.Acquire(c.Context(), []Lock{WriteLock("n"), WriteLock("fresh")}, WithTimeout(simLease+simPoll))
		require.NoError(c, err)
		require.True(c, a.HasLock())
		require.NoError(c, a.Release(c.Context()))
	}
}

func (c *refusalTable) acquire() {
	c.refuse()
	began := time.Now()
	a, err := c.a.Acquire(c.Context(), []Lock{WriteLock("n")})
	if !c.needed() {
		require.NoError(c, err)
		require.NoError(c, a.Release(c.Context()))
		return
	}
	c.isRefusal(err)
	if c.permanent() {
		require.Less(c, time.Since(began), time.Second, "it won't get better by waiting")
		return
	}
	require.GreaterOrEqual(c, time.Since(began), simOp, "it may get better")
	require.Less(c, time.Since(began), simOp+time.Second)
}

// wait: whoever waits already rides it out.
func (c *refusalTable) wait() {
	held, err := c.a.Acquire(c.Context(), []Lock{WriteLock("n")})
	require.NoError(c, err)
	got := make(chan error, 1)
	go func() {
		a, err := c.b.Acquire(context.Background(), []Lock{WriteLock("n")}, WithTimeout(3*simLease))
		if err == nil {
			err = a.Release(context.Background())
		}
		got <- err
	}()
	c.refuse()
	faketime.Pass(simPoll + time.Second) // both have tried something meanwhile
	c.r.Accept()
	_ = held.Release(c.Context())
	require.NoError(c, <-got)
}

// renew: the holder is told in time, not before it has to be, and for good.
func (c *refusalTable) renew() {
	held, err := c.a.Acquire(c.Context(), []Lock{WriteLock("n")})
	require.NoError(c, err)
	c.refuse()
	if !c.needed() {
		faketime.Pass(3 * simLease)
		require.True(c, held.HasLock())
		require.NoError(c, held.Release(c.Context()))
		return
	}
	_, expiry := c.record()
	<-held.Lost()
	early := time.Until(expiry)
	require.Positive(c, early, "before Redis lets others in")
	require.Less(c, early, simLease/10, "not long before")
	require.False(c, held.HasLock())
	require.ErrorIs(c, context.Cause(held.Context()), ErrLockLost)
	require.ErrorIs(c, held.Release(c.Context()), ErrLockLost)
}

func (c *refusalTable) renewInTime() {
	held, err := c.a.Acquire(c.Context(), []Lock{WriteLock("n")})
	require.NoError(c, err)
	c.refuse()
	faketime.Pass(simLease / 2)
	c.r.Accept()
	faketime.Pass(2 * simLease)
	require.True(c, held.HasLock(), "a renewal is tried again until the lease ends")
	require.NoError(c, held.Release(c.Context()))
}

// release: the caller is not bothered with it, and it is made up for.
func (c *refusalTable) release() {
	held, err := c.a.Acquire(c.Context(), []Lock{WriteLock("n")})
	require.NoError(c, err)
	c.refuse()
	began := time.Now()
	require.NoError(c, held.Release(c.Context()))
	require.False(c, held.HasLock())
	require.Less(c, time.Since(began), simOp+time.Second)
	c.r.Accept()
	a, err := c.b.Acquire(c.Context(), []Lock{WriteLock("n")}, WithTimeout(2*time.Second))
	require.NoError(c, err, "long before the lease ends")
	require.NoError(c, a.Release(c.Context()))
}

// releaseForever: no record is held longer than a lease by nobody.
func (c *refusalTable) releaseForever() {
	held, err := c.a.Acquire(c.Context(), []Lock{WriteLock("n")})
	require.NoError(c, err)
	c.refuse()
	require.NoError(c, held.Release(c.Context()))
	faketime.Pass(simLease)
	c.r.Accept()
	a, err := c.b.Acquire(c.Context(), []Lock{WriteLock("n")})
	require.NoError(c, err)
	require.NoError(c, a.Release(c.Context()))
}

// record is the holder's id in the record and when its lease ends.
func (c *refusalTable) record() (id string, expiry time.Time) {
	c.r.Accept()
	defer c.r.Refuse(c.kind, c.command)
	infos, err := c.b.GetLockInfo(c.Context(), []string{"n"})
	require.NoError(c, err)
	require.Len(c, infos, 1)
	require.NotNil(c, infos[0].WriteOwner)
	return infos[0].WriteOwner.ID, infos[0].WriteOwner.ExpiresAt()
}
