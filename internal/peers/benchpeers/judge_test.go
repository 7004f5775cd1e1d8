package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func TestQueueThatKeepsTheOrderHasNoInversions(t *testing.T) {
	t.Parallel()
	v := judgeQueue([]turn{{ms(0), ms(10), ms(11)}, {ms(1), ms(12), ms(13)}, {ms(2), ms(14), ms(15)}}, ms(9))
	require.Equal(t, 0.0, v["inversions"])
	require.Equal(t, 0.0, v["overlaps"])
	require.Equal(t, 6.0, v["total"])
	require.InDelta(t, 12.0/11.0, v["ratio"], 1e-9)
}

func TestWhoOvertakesAndWhoOverlapsIsCounted(t *testing.T) {
	t.Parallel()
	// The last to ask is the first; the second gets in while it is still there.
	v := judgeQueue([]turn{{ms(0), ms(14), ms(15)}, {ms(1), ms(11), ms(13)}, {ms(2), ms(10), ms(12)}}, ms(9))
	require.Equal(t, 3.0, v["inversions"])
	require.Equal(t, 1.0, v["overlaps"])
}

func TestWaiterThatIsNeverServedIsTheLongestWait(t *testing.T) {
	t.Parallel()
	a := loopArgs{Start: ms(0), Long: time.Second}
	v := judgeLoop([][]turn{
		{{ms(0), ms(10), ms(11)}, {ms(11), ms(21), ms(22)}},
		{{ms(0), ms(20), ms(21)}, {Asked: ms(22)}},
	}, a)
	require.Equal(t, 1.0, v["stuck"])
	require.Equal(t, 3.0, v["ops"])
	require.Equal(t, 6978.0, v["longest"])
}

// oneRound is a report in which somebody else is the best at job a, and a library
// without renewals has the smallest locks.
func oneRound() *report {
	return &report{Samples: []sample{
		{Job: "a", Peer: "ours", Values: values{"p50": 30}},
		{Job: "a", Peer: "ours", Values: values{"p50": 10}},
		{Job: "a", Peer: "ours", Values: values{"p50": 20}},
		{Job: "a", Peer: floorKey, Values: values{"p50": 5}},
		{Job: "a", Peer: "bsm", Values: values{"p50": 16}},
		{Job: "a", Peer: "etcd", Values: values{"p50": 40}},
		{Job: "f", Peer: "bsm", Values: values{"bytes": 100}},
		{Job: "f", Peer: "rueidislock", Values: values{"bytes": 3000}},
		{Job: "c", Peer: "bsm", Why: "broken"},
	}}
}

func TestBestPeerIsNeitherThisLibraryNorTheFloor(t *testing.T) {
	t.Parallel()
	r := oneRound()
	key, best := r.best("a", timeColumns[0])
	require.Equal(t, "bsm", key)
	require.Equal(t, 16.0, best)
	us, ok := r.median("a", "ours", "p50")
	require.True(t, ok)
	require.Equal(t, 20.0, us)
}

func TestWhoDoesNotRenewIsNotComparedByItsHeldLocks(t *testing.T) {
	t.Parallel()
	key, best := oneRound().best("f", columns["f"][0])
	require.Equal(t, "rueidislock", key)
	require.Equal(t, 3000.0, best)
}

func TestFailureOfThisLibraryFailsTheRun(t *testing.T) {
	t.Parallel()
	r := oneRound()
	require.NoError(t, r.failures(), "others may fail")
	r.Samples = append(r.Samples, sample{Job: "b", Peer: oursKey, Round: 2, Why: "broken"})
	require.ErrorContains(t, r.failures(), "job b, round 2: broken")
}

func TestTableSaysWhyNothingWasMeasured(t *testing.T) {
	t.Parallel()
	text := oneRound().markdown()
	require.Contains(t, text, "| bsm/redislock | – (broken) |")
	require.Contains(t, text, "- a, p50, µs: bsm/redislock with 16, against 20 here.")
	require.Contains(t, text, "| RedisLockService | 20 | 4.00 | 1.25 |")
}
