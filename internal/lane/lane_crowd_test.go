package lane

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Ten thousand callers who come at once must not cost somebody's lock: its
// renewal was put behind all of them.
func TestRenewalIsNotQueuedBehindACrowd(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		g := n.get("holder", write("held"))
		var crowd sync.WaitGroup
		for i := range 10_000 {
			crowd.Go(func() { n.get(id("%d", i), write(id("n%d", i))) })
		}
		synctest.Wait() // one exchange is under way, all others are queued
		began := time.Now()
		_, lost := n.renewNow("holder", g.RunID, 0, "held")
		require.Empty(t, lost)
		require.LessOrEqual(t, time.Since(began), 8*moment, "two exchanges under way, and two of its own")
		crowd.Wait()
	})
}

// Renewals go ahead, but don't take all: thousands that are due at the same
// time must not keep callers out.
func TestCallerIsNotQueuedBehindACrowdOfRenewals(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		const held = 5000
		runID := n.get("0", write("n0")).RunID
		for i := 1; i < held; i++ {
			n.get(id("%d", i), write(id("n%d", i)))
		}
		var crowd sync.WaitGroup
		for i := range held {
			crowd.Go(func() { n.renewNow(id("%d", i), runID, 0, id("n%d", i)) })
		}
		synctest.Wait()
		began := time.Now()
		n.get("late", write("late"))
		require.LessOrEqual(t, time.Since(began), 12*moment, "of the forty that the renewals take")
		crowd.Wait()
	})
}
