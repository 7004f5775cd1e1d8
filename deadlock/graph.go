package deadlock

import "slices"

// graph is the wait-for graph of a set of waiters, in linear size.
//
// Ten thousand writers that wait for the name of one reader, and ten thousand
// readers that wait for them, would be a hundred million edges. So an edge goes
// over a junction: waiter → (name, kind) → each waiter that stands there. Only
// an upgrade, which must leave out what its own chain holds, has a junction of
// its own. Each edge between waiters is exactly two steps.
//
// Everything is ordered by age, so that equal sets of waiters make equal graphs,
// and equal walks, on every node.
type graph struct {
	vs  []*vertex // oldest first
	out [][]int32 // of the waiters, then of the junctions

	from, seen []int32 // scratch of cycle: the step before, valid where seen is round
	round      int32
}

// place collects who stands at one name.
type place struct {
	holders, writeHolders, queued []int32
	all, write, queue             int32 // junctions; 0 until made
}

func newGraph(vs []*vertex) *graph {
	g := &graph{vs: slices.Clone(vs)}
	slices.SortFunc(g.vs, func(a, b *vertex) int { return older(a.Waiter, b.Waiter) })
	g.out = make([][]int32, len(g.vs), 2*len(g.vs)+1)
	places := g.places()
	for i, v := range g.vs {
		for _, need := range v.needs {
			if p := places[need.Name]; p != nil {
				g.link(int32(i), need, p)
			}
		}
	}
	return g
}

func (g *graph) places() map[string]*place {
	places := make(map[string]*place)
	at := func(name string) *place {
		p := places[name]
		if p == nil {
			p = new(place)
			places[name] = p
		}
		return p
	}
	for i, v := range g.vs {
		for _, h := range v.Holds {
			p := at(h.Name)
			p.holders = appendOnce(p.holders, int32(i))
			if h.Write {
				p.writeHolders = appendOnce(p.writeHolders, int32(i))
			}
		}
		for _, n := range v.needs {
			if n.Write {
				p := at(n.Name)
				p.queued = append(p.queued, int32(i))
			}
		}
	}
	return places
}

// appendOnce keeps a chain that holds a name twice from standing there twice;
// one waiter's entries follow each other.
func appendOnce(list []int32, i int32) []int32 {
	if n := len(list); n > 0 && list[n-1] == i {
		return list
	}
	return append(list, i)
}

func (g *graph) link(i int32, need Want, p *place) {
	v := g.vs[i]
	switch {
	case !need.Write:
		g.join(i, &p.write, p.writeHolders)
		if need.queues() {
			g.join(i, &p.queue, p.queued)
		}
	case holdsName(v.Waiter, need.Name):
		var own int32
		g.join(i, &own, g.foreign(v, need.Name, p.holders))
	default:
		g.join(i, &p.all, p.holders)
	}
}

func (g *graph) join(i int32, junction *int32, targets []int32) {
	if len(targets) == 0 {
		return
	}
	if *junction == 0 { // never a junction's number: that of the oldest waiter
		*junction = int32(len(g.out))
		g.out = append(g.out, targets)
	}
	g.out[i] = append(g.out[i], *junction)
}

func (g *graph) foreign(v *vertex, name string, holders []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(holders), func(i int32) bool { return !holdsForeign(v, g.vs[i], name) })
}

// holdsForeign tells whether u holds name by an acquisition that v's chain has
// no part in.
func holdsForeign(v, u *vertex, name string) bool {
	return slices.ContainsFunc(u.Holds, func(h Hold) bool { return h.Name == name && !holdsID(v.Waiter, h.ID) })
}

func (g *graph) waiter(i int32) bool { return int(i) < len(g.vs) }

// knots returns the strongly connected groups of two or more waiters,
// looking only at waiters of the mask (nil: all). A waiter is in
// a cycle exactly if it is in a knot. Tarjan's algorithm with a stack of its
// own: a chain of a hundred thousand waiters must not be a deep recursion.
func (g *graph) knots(mask []bool) [][]int32 {
	t := tarjan{g: g, mask: mask, index: make([]int32, len(g.out)), low: make([]int32, len(g.out)), on: make([]bool, len(g.out))}
	for i := range g.vs {
		if t.index[i] == 0 && t.allowed(int32(i)) {
			t.walk(int32(i))
		}
	}
	return t.knots
}

type tarjan struct {
	g          *graph
	mask       []bool
	index, low []int32 // order of the visit, from 1
	on         []bool
	next       int32
	stack      []int32
	knots      [][]int32
}

type frame struct{ v, edge int32 }

func (t *tarjan) allowed(i int32) bool { return t.mask == nil || !t.g.waiter(i) || t.mask[i] }

func (t *tarjan) enter(v int32) frame {
	t.next++
	t.index[v], t.low[v] = t.next, t.next
	t.stack, t.on[v] = append(t.stack, v), true
	return frame{v: v}
}

func (t *tarjan) walk(root int32) {
	path := []frame{t.enter(root)}
	for len(path) > 0 {
		f := &path[len(path)-1]
		if int(f.edge) == len(t.g.out[f.v]) {
			v := f.v
			path = path[:len(path)-1]
			if t.low[v] == t.index[v] {
				t.pop(v)
			}
			if len(path) > 0 {
				up := path[len(path)-1].v
				t.low[up] = min(t.low[up], t.low[v])
			}
			continue
		}
		to := t.g.out[f.v][f.edge]
		f.edge++
		switch {
		case !t.allowed(to):
		case t.index[to] == 0:
			path = append(path, t.enter(to))
		case t.on[to]:
			t.low[f.v] = min(t.low[f.v], t.index[to])
		}
	}
}

func (t *tarjan) pop(root int32) {
	var knot []int32
	for {
		v := t.stack[len(t.stack)-1]
		t.stack, t.on[v] = t.stack[:len(t.stack)-1], false
		if t.g.waiter(v) {
			knot = append(knot, v)
		}
		if v == root {
			break
		}
	}
	if len(knot) > 1 {
		t.knots = append(t.knots, knot)
	}
}

// cycle returns a shortest cycle through v among the waiters of the mask, in
// order and beginning with v, or nil. steps counts the work.
func (g *graph) cycle(v int32, mask []bool, steps *int) []int32 {
	if g.from == nil {
		g.from, g.seen = make([]int32, len(g.out)), make([]int32, len(g.out))
	}
	g.round++
	queue := []int32{v}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, to := range g.out[at] {
			*steps++
			if to == v {
				return g.path(v, at)
			}
			if g.seen[to] == g.round || g.waiter(to) && !mask[to] {
				continue
			}
			g.from[to], g.seen[to] = at, g.round
			queue = append(queue, to)
		}
	}
	return nil
}

func (g *graph) path(start, end int32) []int32 {
	var back []int32
	for at := end; at != start; at = g.from[at] {
		if g.waiter(at) {
			back = append(back, at)
		}
	}
	back = append(back, start)
	slices.Reverse(back)
	return back
}
