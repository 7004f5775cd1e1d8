package deadlock

import (
	"math/bits"
	"slices"
)

// Deadlock is one cycle of waiters: each waits for the next, the last for the
// first. The cycle begins with its oldest member. No other member of it is a
// victim.
type Deadlock struct {
	Cycle  []Waiter
	Victim int // index in Cycle
}

// VictimKey returns who has to give up.
func (d Deadlock) VictimKey() Key { return d.Cycle[d.Victim].Key() }

// Victims returns the victims of a full table, each with a cycle that only this
// victim breaks, oldest victim first. The result depends on the set of waiters
// alone, not on their order. The rules are in the package documentation.
func Victims(waiters []Waiter) []Deadlock {
	seen := make(map[Key]bool, len(waiters))
	var vs []*vertex
	for _, w := range waiters {
		if v := newVertex(w); v.matters() && !seen[w.Key()] {
			seen[w.Key()] = true
			vs = append(vs, v)
		}
	}
	return victims(vs)
}

func victims(vs []*vertex) []Deadlock {
	g := newGraph(vs)
	var found []Deadlock
	for _, knot := range g.knots(nil) {
		found = append(found, g.untie(knot)...)
	}
	sortDeadlocks(found)
	return found
}

func sortDeadlocks(ds []Deadlock) {
	slices.SortFunc(ds, func(a, b Deadlock) int { return older(a.Cycle[a.Victim], b.Cycle[b.Victim]) })
}

// untie names the victims of one knot. It builds the graph of the knot alone,
// so that the answer is the same whatever else a table or a search has seen.
func (g *graph) untie(members []int32) []Deadlock {
	vs := make([]*vertex, len(members))
	for i, m := range members {
		vs[i] = g.vs[m]
	}
	k := &knot{graph: newGraph(vs)}
	k.choose()
	return k.deadlocks()
}

const (
	// exactMembers bounds the knots for which all sets of victims are compared.
	exactMembers = 12
	// maxSteps bounds the work on one larger knot. It counts edges, not time, so
	// every node stops at the same place.
	maxSteps = 20_000_000
)

type knot struct {
	*graph
	dies  []bool
	steps int
}

func (k *knot) choose() {
	k.dies = make([]bool, len(k.vs))
	if len(k.vs) <= exactMembers {
		set := smallest(k.adjacency(), k.plainSet())
		for i := range k.vs {
			k.dies[i] = set&(1<<i) != 0
		}
		return
	}
	if v := k.single(); v >= 0 {
		k.dies[v] = true
		return
	}
	k.keepOldest()
}

// adjacency gives the edges between waiters as bit sets.
func (k *knot) adjacency() []uint32 {
	edges := make([]uint32, len(k.vs))
	for i := range edges {
		for _, junction := range k.out[i] {
			for _, to := range k.out[junction] {
				edges[i] |= 1 << to
			}
		}
	}
	return edges
}

func (k *knot) plainSet() (set uint32) {
	for i, v := range k.vs {
		if v.plain() {
			set |= 1 << i
		}
	}
	return set
}

// smallest compares all sets of victims that break every cycle: as few members
// as possible that hold nothing, then as few others as possible, then the one
// with the youngest (bits are ordered by age, so that is the larger number).
// This order has the property that after one victim has gone, the others stay
// exactly the answer for the rest.
func smallest(edges []uint32, plain uint32) uint32 {
	all := uint32(1)<<len(edges) - 1
	best, bestCost := all, cost(all, plain)
	for set := all; ; set-- {
		// Going down, the first of equal cost is the one with the youngest.
		if c := cost(set, plain); c < bestCost && acyclic(edges, all&^set) {
			best, bestCost = set, c
		}
		if set == 0 {
			return best
		}
	}
}

func cost(set, plain uint32) int {
	return bits.OnesCount32(set&plain)<<8 + bits.OnesCount32(set&^plain)
}

// acyclic takes away, again and again, whoever waits for nobody that is left.
func acyclic(edges []uint32, left uint32) bool {
	for {
		free := uint32(0)
		for rest := left; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros32(rest)
			if edges[i]&left == 0 {
				free |= 1 << i
			}
		}
		if left &^= free; left == 0 || free == 0 {
			return left == 0
		}
	}
}

// single finds the youngest member that alone breaks every cycle, or -1. It must
// be on any one cycle, so only the members of a short one are tried.
func (k *knot) single() int32 {
	cycle := k.anyCycle()
	slices.Sort(cycle)
	plainOnly := !slices.ContainsFunc(cycle, func(i int32) bool { return !k.vs[i].plain() })
	mask := k.mask(func(int32) bool { return true })
	for _, v := range slices.Backward(cycle) {
		if k.steps += len(k.out); k.steps > maxSteps/2 {
			return -1
		}
		if k.vs[v].plain() != plainOnly {
			continue
		}
		mask[v] = false
		if len(k.knots(mask)) == 0 {
			return v
		}
		mask[v] = true
	}
	return -1
}

// anyCycle returns a cycle of members that hold nothing, if there is one (only
// such members may break it), else any.
func (k *knot) anyCycle() []int32 {
	plain := k.mask(func(i int32) bool { return k.vs[i].plain() })
	if inner := k.knots(plain); len(inner) > 0 {
		return k.cycle(inner[0][0], plain, &k.steps)
	}
	return k.cycle(0, k.mask(func(int32) bool { return true }), &k.steps)
}

func (k *knot) mask(in func(int32) bool) []bool {
	mask := make([]bool, len(k.vs))
	for i := range mask {
		mask[i] = in(int32(i))
	}
	return mask
}

// keepOldest goes from the oldest to the youngest, first those that hold
// nothing, then the others, and keeps whoever closes no cycle with those kept
// before. A victim never decides about a later one, so here too the others stay
// the answer when one has gone.
func (k *knot) keepOldest() {
	kept := make([]bool, len(k.vs))
	for _, plain := range []bool{true, false} {
		for i, v := range k.vs {
			if v.plain() != plain {
				continue
			}
			if k.steps > maxSteps {
				return // what is left is found by the next search
			}
			kept[i] = true
			if k.cycle(int32(i), kept, &k.steps) != nil {
				kept[i], k.dies[i] = false, true
			}
		}
	}
}

// deadlocks gives each victim a shortest cycle that no other victim breaks.
func (k *knot) deadlocks() []Deadlock {
	var found []Deadlock
	mask := k.mask(func(i int32) bool { return !k.dies[i] })
	plain := k.mask(func(i int32) bool { return !k.dies[i] && k.vs[i].plain() })
	for i, v := range k.vs {
		if k.steps > 2*maxSteps {
			break // found by the next search
		}
		if !k.dies[i] {
			continue
		}
		in := mask
		if v.plain() {
			in = plain
		}
		if cycle := k.cycle(int32(i), in, &k.steps); cycle != nil {
			found = append(found, k.deadlock(cycle))
		}
	}
	return found
}

// deadlock turns a cycle that begins with the victim round to its oldest member.
func (k *knot) deadlock(cycle []int32) Deadlock {
	oldest := slices.Index(cycle, slices.Min(cycle))
	d := Deadlock{Victim: (len(cycle) - oldest) % len(cycle)}
	for i := range cycle {
		d.Cycle = append(d.Cycle, k.vs[cycle[(oldest+i)%len(cycle)]].Waiter)
	}
	return d
}
