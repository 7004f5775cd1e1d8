package deadlock

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOppositeOrderOfTwoLocks(t *testing.T) {
	t.Parallel()
	found := Victims([]Waiter{
		wait("A", 1, "w:a", "|", "w:b"),
		wait("B", 2, "w:b", "|", "w:a"),
	})
	require.Len(t, found, 1)
	require.Equal(t, []string{"A", "B"}, cycleIDs(found[0]))
	require.Equal(t, "B", found[0].VictimKey().ID)
}

func TestRingsOfThreeToFiveHaveOneVictim(t *testing.T) {
	t.Parallel()
	for n := 3; n <= 5; n++ {
		var ws []Waiter
		for i := range n {
			ws = append(ws, wait(numbered("", i), int64(10-i), "w:"+numbered("", i), "|", "w:"+numbered("", (i+1)%n)))
		}
		found := Victims(ws)
		require.Len(t, found, 1)
		require.Len(t, found[0].Cycle, n)
		require.Equal(t, numbered("", n-1), found[0].Cycle[0].ID, "the oldest comes first")
		require.Equal(t, numbered("", 0), found[0].VictimKey().ID, "the youngest gives up")
	}
}

// The third kind of the original: nobody holds a, but a writer waits for it.
func TestWriterPreferenceClosesACycle(t *testing.T) {
	t.Parallel()
	found := Victims([]Waiter{
		wait("reader", 1, "r:b", "|", "r:a"),
		wait("writer", 2, "|", "w:a", "w:b"),
	})
	require.Equal(t, []string{"reader"}, victimIDs(found), "the writer is younger, but holds nothing")
}

func TestTwoWhoHoldNothingCanBlockEachOther(t *testing.T) {
	t.Parallel()
	found := Victims([]Waiter{
		wait("A", 1, "|", "w:a", "r:b"),
		wait("B", 2, "|", "w:b", "r:a"),
	})
	require.Equal(t, []string{"B"}, victimIDs(found))
}

func TestUpgradeAgainstUpgrade(t *testing.T) {
	t.Parallel()
	found := Victims([]Waiter{
		wait("A", 1, "r:x", "|", "w:x"),
		wait("B", 2, "r:x", "|", "w:x"),
	})
	require.Equal(t, []string{"B"}, victimIDs(found))
}

func TestUpgradeIsNotBlockedByAWaitingWriter(t *testing.T) {
	t.Parallel()
	require.Empty(t, Victims([]Waiter{
		wait("upgrade", 1, "r:x", "|", "w:x"),
		wait("writer", 2, "|", "w:x"),
		wait("reader", 3, "|", "r:x"),
	}))
}

// A held read needs no new grant, so no waiting writer is in its way.
func TestReaderWhoHoldsTheNameIgnoresTheWaitingWriter(t *testing.T) {
	t.Parallel()
	writer := wait("writer", 2, "|", "w:x")
	require.Empty(t, Why(wait("reader", 1, "r:x", "|", "r:x", "w:z"), writer))
	require.NotEmpty(t, Why(wait("stranger", 1, "r:y", "|", "r:x", "w:z"), writer))
}

func TestDiamondIsNoCycle(t *testing.T) {
	t.Parallel()
	require.Empty(t, Victims([]Waiter{
		wait("top", 4, "w:t", "|", "w:l", "w:r"),
		wait("left", 3, "w:l", "|", "w:b"),
		wait("right", 2, "w:r", "|", "w:b"),
		wait("bottom", 1, "w:b", "|", "w:free"),
	}))
}

func TestOwnChainIsNeverInItsOwnWay(t *testing.T) {
	t.Parallel()
	require.Empty(t, Victims([]Waiter{wait("A", 1, "r:x", "|", "w:x")}))
	require.Empty(t, Victims([]Waiter{wait("A", 1, "w:x", "|", "r:x", "w:x")}))
}

// Two goroutines of one context share the outer lock, not what each has nested.
func TestSharedOuterLockMakesNoEdge(t *testing.T) {
	t.Parallel()
	outer := Hold{Name: "x", ID: "outer"}
	a := Waiter{ID: "A", Node: "n", SinceMicros: 1, Holds: []Hold{outer}, Wants: []Want{{Name: "x", Write: true}}}
	b := Waiter{ID: "B", Node: "n", SinceMicros: 2, Holds: []Hold{outer}, Wants: []Want{{Name: "x", Write: true}}}
	require.Empty(t, Victims([]Waiter{a, b}))
	require.Empty(t, Why(a, b))

	// But a third who holds x by an acquisition of its own is in the way of both.
	c := wait("C", 3, "r:x", "|", "w:x")
	require.Equal(t, []string{"C"}, victimIDs(Victims([]Waiter{a, b, c})), "C breaks both cycles")

	b.Holds = []Hold{outer, {Name: "y", Write: true, ID: "nested"}}
	b.Wants = []Want{{Name: "z"}}
	a.Wants = []Want{{Name: "y"}}
	require.Empty(t, Why(b, a))
	require.Equal(t, []Reason{{Name: "y", Write: true, HoldID: "nested"}}, Why(a, b))
}

// One waiter on both cycles is the only victim, though the others are younger.
func TestOverlappingCyclesNeedOneVictimIfOneWillDo(t *testing.T) {
	t.Parallel()
	found := Victims([]Waiter{
		wait("hub", 1, "w:h", "|", "w:a", "w:b"),
		wait("A", 2, "w:a", "|", "w:h"),
		wait("B", 3, "w:b", "|", "w:h"),
	})
	require.Equal(t, []string{"hub"}, victimIDs(found))
}

func TestSeparateCyclesEachHaveAVictim(t *testing.T) {
	t.Parallel()
	found := Victims([]Waiter{
		wait("A", 1, "w:a", "|", "w:b"), wait("B", 2, "w:b", "|", "w:a"),
		wait("C", 3, "w:c", "|", "w:d"), wait("D", 4, "w:d", "|", "w:c"),
	})
	require.Equal(t, []string{"B", "D"}, victimIDs(found))
}

func TestSameStartIsDecidedByID(t *testing.T) {
	t.Parallel()
	found := Victims([]Waiter{
		wait("B", 7, "w:b", "|", "w:a"),
		wait("A", 7, "w:a", "|", "w:b"),
	})
	require.Equal(t, []string{"B"}, victimIDs(found))
}

func TestWaiterToldTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	a, b := wait("A", 1, "w:a", "|", "w:b"), wait("B", 2, "w:b", "|", "w:a")
	require.Equal(t, Victims([]Waiter{a, b}), Victims([]Waiter{b, a, a, b}))
}

// TestLargeKnotsLeaveNoCycle compares nothing with the smallest set, which is not
// promised, but each promise with what the oracle says of who is stuck.
func TestLargeKnotsLeaveNoCycle(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 5))
	large := 0
	for range 40 {
		ws := randomWaiters(rng, 14+rng.IntN(20))
		found := Victims(ws)
		dead := map[Key]bool{}
		for _, d := range found {
			dead[d.VictimKey()] = true
		}
		var left []Waiter
		for _, w := range ws {
			if !dead[w.Key()] {
				left = append(left, w)
			}
		}
		require.Empty(t, stuck(left))
		require.Len(t, dead, len(found))
		for _, d := range found {
			requireLargeCycle(t, d, dead)
		}
		for _, knot := range newGraph(vertices(ws)).knots(nil) {
			if len(knot) > exactMembers && len(found) > 1 {
				large++
			}
		}
		rng.Shuffle(len(ws), func(i, j int) { ws[i], ws[j] = ws[j], ws[i] })
		require.Equal(t, found, Victims(ws), "the order of the table must not matter")
	}
	require.Greater(t, large, 10, "the sample has lost its hard cases")
}

func requireLargeCycle(t *testing.T, d Deadlock, dead map[Key]bool) {
	t.Helper()
	victims, holding := 0, 0
	for i, w := range d.Cycle {
		require.NotEmpty(t, Why(w, d.Cycle[(i+1)%len(d.Cycle)]))
		if dead[w.Key()] {
			victims++
		}
		if len(w.Holds) > 0 {
			holding++
		}
	}
	require.Equal(t, 1, victims)
	if len(d.Cycle[d.Victim].Holds) == 0 {
		require.Zero(t, holding)
	}
}

// randomWaiters holds names consistently: a name has one writer or some readers.
func randomWaiters(rng *rand.Rand, n int) []Waiter {
	names := 2 + n/2
	mode := make([]int, names) // 0 free, 1 read, 2 written
	ws := make([]Waiter, n)
	for i := range ws {
		words := []string{}
		for range rng.IntN(3) {
			name, write := rng.IntN(names), rng.IntN(2) == 0
			switch {
			case write && mode[name] == 0:
				mode[name] = 2
				words = append(words, "w:"+numbered("", name))
			case !write && mode[name] < 2:
				mode[name] = 1
				words = append(words, "r:"+numbered("", name))
			}
		}
		words = append(words, "|")
		for range 1 + rng.IntN(3) {
			words = append(words, []string{"r:", "w:"}[rng.IntN(2)]+numbered("", rng.IntN(names)))
		}
		ws[i] = wait(numbered("", i), int64(1+rng.IntN(n)), words...)
	}
	return ws
}

// The large path must give the exact answer too where one victim is enough.
func TestHubOfThousandsIsTheOnlyVictim(t *testing.T) {
	t.Parallel()
	ws := []Waiter{wait("hub", 5_000, "w:h", "|", "r:q")}
	for i := range 3_000 {
		ws = append(ws, wait(numbered("plain", i), int64(i+1), "|", "w:h", "w:q", "w:"+numbered("x", i)))
	}
	found := Victims(ws)
	require.Equal(t, []string{"hub"}, victimIDs(found))
	require.Len(t, found[0].Cycle, 2)
}

func TestAllReadersUpgradeOnlyTheOldestStays(t *testing.T) {
	t.Parallel()
	var ws []Waiter
	for i := range 300 {
		ws = append(ws, wait(numbered("", i), int64(i+1), "r:x", "|", "w:x"))
	}
	found := Victims(ws)
	require.Len(t, found, 299)
	require.NotContains(t, victimIDs(found), numbered("", 0))
}

func TestLargePathAgreesWithExactWhereOneIsEnough(t *testing.T) {
	t.Parallel()
	singles := 0
	for code := uint32(0); code < 1<<12; code += everyGraph {
		edges := graphOf(4, code)
		for plain := range uint32(16) {
			g := newGraph(vertices(realize(edges, plain)))
			for _, members := range g.knots(nil) {
				if checkLarge(t, g, members) {
					singles++
				}
			}
		}
	}
	require.Positive(t, singles)
}

func vertices(ws []Waiter) []*vertex {
	vs := make([]*vertex, len(ws))
	for i, w := range ws {
		vs[i] = newVertex(w)
	}
	return vs
}

// checkLarge runs the parts for large knots on a small one.
func checkLarge(t *testing.T, g *graph, members []int32) bool {
	t.Helper()
	var vs []*vertex
	for _, m := range members {
		vs = append(vs, g.vs[m])
	}
	k := &knot{graph: newGraph(vs), dies: make([]bool, len(vs))}
	exact := smallest(k.adjacency(), k.plainSet())
	v := k.single()
	require.Equal(t, exact&(exact-1) == 0, v >= 0, "one is enough, or is not")
	if v >= 0 {
		require.Equal(t, exact, uint32(1)<<v)
	}
	k.keepOldest()
	left := k.mask(func(i int32) bool { return !k.dies[i] })
	require.Empty(t, k.knots(left))
	for _, d := range k.deadlocks() {
		dead := map[Key]bool{}
		for i := range k.dies {
			dead[k.vs[i].Key()] = k.dies[i]
		}
		requireLargeCycle(t, d, dead)
	}
	return v >= 0
}

// A chain of waiters must not overflow a stack, nor a search take its square.
func TestLongChainAndLongRing(t *testing.T) {
	t.Parallel()
	const n = 20_000
	var ws []Waiter
	for i := range n {
		ws = append(ws, wait(numbered("", i), int64(i+1), "w:"+numbered("", i), "|", "w:"+numbered("", i+1)))
	}
	require.Empty(t, Victims(ws))
	ws[n-1].Wants[0].Name = numbered("", 0)
	found := Victims(ws)
	require.Equal(t, []string{numbered("", n-1)}, victimIDs(found))
	require.Len(t, found[0].Cycle, n)
}
