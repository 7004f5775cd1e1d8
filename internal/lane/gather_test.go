package lane

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/faketime"
)

const testGather = time.Second

func gathers(cfg *Config) { cfg.Gather = testGather }

// holding has n locks held, and the server that granted them.
func (n *testNode) holding(locks int) (runID string) {
	for i := range locks {
		runID = n.get(id("%d", i), write(id("n%d", i))).RunID
	}
	faketime.Pass(2 * maxAge) // what was read for that is old
	return runID
}

func (n *testNode) renewPatiently(ctx context.Context, i int, runID string) error {
	_, lost, err := n.Renew(ctx, []string{id("n%d", i)}, renewal(id("%d", i)), runID, true)
	if err == nil {
		require.Empty(n.s.t, lost)
	}
	return err
}

func TestRenewalsThatFallTogetherShareATransaction(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node(gathers)
		runID := n.holding(100)
		var all sync.WaitGroup
		took := n.cost(func() {
			for i := range 100 {
				all.Go(func() {
					faketime.Pass(time.Duration(i) * testGather / 101)
					require.NoError(t, n.renewPatiently(t.Context(), i, runID))
				})
			}
			all.Wait()
		})
		require.Equal(t, int64(3), took, "one reads, one commits and reads for the second, one commits")
		rec, _ := s.record("n99")
		require.Equal(t, int64(1), rec.WriteOwner.Renewals)
	})
}

func TestCallerDoesNotPayForRenewalsThatWait(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node(gathers)
		runID := n.holding(10)
		n.get("other", write("other"))
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() { require.NoError(t, n.renewPatiently(t.Context(), i, runID)) })
		}
		synctest.Wait()
		require.Equal(t, int64(1), n.cost(func() { n.let("other", "other") }))
		all.Wait()
	})
}

// The record of a lock that was just renewed isn't read for what comes next.
func TestRenewedRecordsAreNotReadAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node(gathers)
		runID := n.holding(3)
		require.NoError(t, n.renewPatiently(t.Context(), 1, runID))
		require.Equal(t, int64(2), n.cost(func() { n.let("1", "n1") }), "one reads, one commits")
	})
}

func TestHolderDoesNotWaitForARenewalThatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node(gathers)
		runID := n.holding(1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.renewPatiently(ctx, 0, runID) }()
		synctest.Wait()
		began := time.Now()
		cancel() // it is released
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Zero(t, time.Since(began))
		faketime.Pass(2 * testGather)
		rec, _ := s.record("n0")
		require.Zero(t, rec.WriteOwner.Renewals, "nobody wants it any more")
	})
}

func TestCloseDoesNotWaitForARenewalThatWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node(gathers)
		runID := n.holding(1)
		ended := make(chan error, 1)
		go func() { ended <- n.renewPatiently(t.Context(), 0, runID) }()
		synctest.Wait()
		began := time.Now()
		n.close(time.Minute)
		require.ErrorIs(t, <-ended, ErrClosed)
		require.Less(t, time.Since(began), testGather)
	})
}
