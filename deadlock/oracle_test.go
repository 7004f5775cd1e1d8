package deadlock

import (
	"math/bits"
	"slices"
)

// The oracle is written apart from the code under test, and dumb: it asks who
// could ever go on, by the rules of the locks, and lists all simple cycles.

// goesOn tells whether w would be granted everything if the others stood still.
func goesOn(w Waiter, others []Waiter) bool {
	for _, want := range w.Wants {
		if !want.Write && slices.Contains(w.Wants, Want{Name: want.Name, Write: true}) {
			continue // both modes of a name are the write
		}
		held, heldWrite := false, false
		for _, h := range w.Holds {
			if h.Name == want.Name {
				held, heldWrite = true, heldWrite || h.Write
			}
		}
		if heldWrite || held && !want.Write {
			continue
		}
		for _, o := range others {
			if o.ID != w.ID && inTheWay(w, want, o) {
				return false
			}
		}
	}
	return true
}

func inTheWay(w Waiter, want Want, o Waiter) bool {
	mine := map[string]bool{}
	for _, h := range w.Holds {
		mine[h.ID] = true
	}
	oWrites := false
	for _, h := range o.Holds {
		if h.Name != want.Name {
			continue
		}
		oWrites = oWrites || h.Write
		if !mine[h.ID] && (h.Write || want.Write) {
			return true
		}
	}
	for _, other := range o.Wants {
		if !want.Write && !want.Past && other.Name == want.Name && other.Write && !oWrites {
			return true
		}
	}
	return false
}

// stuck lets everybody go on who can, and returns who never will.
func stuck(ws []Waiter) []Waiter {
	left := append([]Waiter(nil), ws...)
	for again := true; again; {
		again = false
		for i, w := range left {
			if goesOn(w, left) {
				left = append(left[:i:i], left[i+1:]...)
				again = true
				break
			}
		}
	}
	return left
}

// oracleEdges: i waits for j if i would go on, were it not for j alone.
func oracleEdges(ws []Waiter) []uint32 {
	edges := make([]uint32, len(ws))
	for i := range ws {
		for j := range ws {
			if i != j && !goesOn(ws[i], ws[j:j+1]) {
				edges[i] |= 1 << j
			}
		}
	}
	return edges
}

// simpleCycles lists the member sets of all simple cycles, each once per cycle.
func simpleCycles(edges []uint32) []uint32 {
	var cycles []uint32
	var walk func(start, at int, path uint32)
	walk = func(start, at int, path uint32) {
		for to := start; to < len(edges); to++ {
			switch {
			case edges[at]&(1<<to) == 0:
			case to == start:
				cycles = append(cycles, path)
			case path&(1<<to) == 0:
				walk(start, to, path|1<<to)
			}
		}
	}
	for start := range edges {
		walk(start, start, 1<<start)
	}
	return cycles
}

// oracleVictims tries all sets. Bits are ordered by age.
func oracleVictims(edges []uint32, plain uint32) uint32 {
	cycles := simpleCycles(edges)
	best, found := uint32(0), false
	for set := uint32(0); set < 1<<len(edges); set++ {
		if breaksAll(cycles, set) && (!found || better(set, best, plain)) {
			best, found = set, true
		}
	}
	return best
}

func breaksAll(cycles []uint32, set uint32) bool {
	for _, c := range cycles {
		if c&set == 0 {
			return false
		}
	}
	return true
}

func better(a, b, plain uint32) bool {
	if x, y := bits.OnesCount32(a&plain), bits.OnesCount32(b&plain); x != y {
		return x < y
	}
	if x, y := bits.OnesCount32(a), bits.OnesCount32(b); x != y {
		return x < y
	}
	for i := 31; i >= 0; i-- {
		if (a^b)&(1<<i) != 0 {
			return a&(1<<i) != 0
		}
	}
	return false
}

// realize builds waiters with exactly these edges. Everybody waits to write a
// name of his own; who waits for him wishes to read it.
func realize(edges []uint32, plain uint32) []Waiter {
	ws := make([]Waiter, len(edges))
	for i := range edges {
		words := []string{}
		if plain&(1<<i) == 0 {
			words = append(words, "w:"+numbered("held", i))
		}
		words = append(words, "|", "w:"+numbered("queue", i))
		for j := range edges {
			if edges[i]&(1<<j) != 0 {
				words = append(words, "r:"+numbered("queue", j))
			}
		}
		ws[i] = wait(numbered("", i), int64(i+1), words...)
	}
	return ws
}
