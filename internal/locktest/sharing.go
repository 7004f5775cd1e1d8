package locktest

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
	"github.com/redislockservice/redislockservice/pubsub"
)

// sharing: services beside each other, with what they have in common.
var sharing = slices.Concat([]scenario{
	{name: "TwoServicesShareOnePubSub", run: sharedPubSub},
	{name: "TwoServicesShareOneClient", run: sharedClient},
	{name: "ShorterLeaseOfAnotherReaderCutsNobodysShort", run: leasesDiffer},
}, in(bubbleName,
	scenario{name: "LeaseIsJudgedByTheRecordAndNotByTheReadersOwn", run: judgedByRecord},
))

func sharedPubSub(t *testing.T, e *Env) {
	client := e.Client()
	shared, err := pubsub.New(t.Context(), client)
	require.NoError(t, err)
	t.Cleanup(func() { _ = shared.Close() })
	messages := make(chan string, 10)
	channel := e.Prefix + "-news"
	_, err = shared.Subscribe(t.Context(), channel, pubsub.Handler{Message: func(m string) { messages <- m }})
	require.NoError(t, err)

	a := e.NewServiceOn(client, lockservice.WithPubSub(shared))
	b := e.NewServiceOn(client, lockservice.WithPubSub(shared))
	for _, pair := range [][2]service{{a, b}, {b, a}} {
		held := hold(t, t.Context(), pair[0], write("x"))
		p := start(t, t.Context(), pair[1], locks(write("x")))
		e.AwaitWaiting("x", 1)
		began := time.Now()
		letGo(t, held)
		letGo(t, p.got())
		if e.Fake {
			require.Less(t, time.Since(began), 10*time.Millisecond)
		}
	}
	require.NoError(t, a.Close(t.Context()))
	require.NoError(t, shared.Publish(t.Context(), channel, "still there"))
	require.Equal(t, "still there", <-messages, "it stays the caller's")
	require.True(t, tries(t, t.Context(), b, write("x")))
}

func sharedClient(t *testing.T, e *Env) {
	client := e.Client()
	a, b := e.NewServiceOn(client), e.NewServiceOn(client)
	held := hold(t, t.Context(), a, write("x"))
	require.False(t, tries(t, t.Context(), b, read("x")))
	p := start(t, t.Context(), b, locks(read("x")))
	e.AwaitWaiting("x", 1)
	letGo(t, held)
	letGo(t, p.got())
}

// J58
func leasesDiffer(t *testing.T, e *Env) {
	long, short := e.NewService(lockservice.WithLeaseTime(2*e.Lease)), e.NewService()
	first := hold(t, t.Context(), long, read("x"))
	second := hold(t, t.Context(), short, read("x"))
	readers := infoOf(t, short, "x").ReadOwners
	require.Len(t, readers, 2)
	require.Equal(t, 2*e.Lease.Milliseconds(), *readers[0].ExpiresAtEpochMillis-readers[0].AcquiredAtEpochMillis)
	require.Equal(t, e.Lease.Milliseconds(), *readers[1].ExpiresAtEpochMillis-readers[1].AcquiredAtEpochMillis)
	require.Greater(t, e.ttl("x"), e.Lease+e.Lease/2, "as long as the longest needs it")
	letGo(t, second)
	require.Greater(t, e.ttl("x"), e.Lease+e.Lease/2)
	require.True(t, first.HasLock())
	letGo(t, first)
}

func judgedByRecord(t *testing.T, e *Env) {
	short := e.NewService(lockservice.WithLeaseTime(time.Second))
	e.plantWriter("x", "slow", 10*time.Minute)
	e.Pass(10*time.Minute - time.Second)
	require.False(t, tries(t, t.Context(), short, write("x")))
	e.Pass(time.Second)
	require.True(t, tries(t, t.Context(), short, write("x")))
}
