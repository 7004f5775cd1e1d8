package fencing

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHighestRefusesOlderAndPassesEqual(t *testing.T) {
	t.Parallel()
	var h Highest
	require.Zero(t, h.Token())
	require.NoError(t, h.Check(5))
	require.NoError(t, h.Check(5))
	require.NoError(t, h.Check(9))

	err := h.Check(8)
	require.ErrorIs(t, err, ErrStaleToken)
	require.EqualError(t, err, "fencing: stale token: 8 is older than 9")
	require.Equal(t, int64(9), h.Token())
}

func TestHighestRefusesTokensThatNoGrantReturns(t *testing.T) {
	t.Parallel()
	var h Highest
	for _, token := range []int64{0, -1} {
		require.ErrorIs(t, h.Check(token), ErrInvalidArgument)
	}
	require.Zero(t, h.Token())
}

// The tokens of TestHighestNeverFallsUnderConcurrentChecks are 1 to goroutines*each.
const goroutines, each = 8, 500

// Whatever the interleaving: the highest is the largest token, and whoever was
// refused was refused because of a larger one that really was seen.
func TestHighestNeverFallsUnderConcurrentChecks(t *testing.T) {
	t.Parallel()
	var h Highest
	var wg sync.WaitGroup
	for g := range int64(goroutines) {
		wg.Go(func() {
			for i := range int64(each) {
				token := i*goroutines + g + 1
				checkOnce(t, &h, token)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(goroutines*each), h.Token())
}

func checkOnce(t *testing.T, h *Highest, token int64) {
	before := h.Token()
	err := h.Check(token)
	if after := h.Token(); after < token || after < before {
		t.Errorf("highest %d after a check of %d, %d before", after, token, before)
	}
	if err == nil && before > token {
		t.Errorf("token %d passed after %d", token, before)
	}
	if err == nil {
		return
	}
	var stale *StaleTokenError
	ok := errors.As(err, &stale)
	if !ok || stale.Highest <= token || stale.Highest > goroutines*each {
		t.Errorf("token %d refused by %v", token, err)
	}
}
