package deadlock

// index finds who stands at a name, over all vertices of a table.
type index struct {
	names map[string]*spot
	size  int // vertices
}

// spot is one name of the index.
type spot struct {
	holders map[*vertex]bool // true: holds it in write mode
	queued  map[*vertex]struct{}
}

func newIndex() index { return index{names: make(map[string]*spot)} }

func (x *index) at(name string) *spot {
	s := x.names[name]
	if s == nil {
		s = &spot{holders: make(map[*vertex]bool), queued: make(map[*vertex]struct{})}
		x.names[name] = s
	}
	return s
}

func (x *index) add(v *vertex) {
	x.size++
	for _, h := range v.Holds {
		s := x.at(h.Name)
		s.holders[v] = s.holders[v] || h.Write
	}
	for _, n := range v.needs {
		if n.Write {
			x.at(n.Name).queued[v] = struct{}{}
		}
	}
}

func (x *index) remove(v *vertex) {
	x.size--
	for _, h := range v.Holds {
		x.leave(v, h.Name)
	}
	for _, n := range v.needs {
		x.leave(v, n.Name)
	}
}

func (x *index) leave(v *vertex, name string) {
	s := x.names[name]
	if s == nil {
		return
	}
	delete(s.holders, v)
	delete(s.queued, v)
	if len(s.holders)+len(s.queued) == 0 {
		delete(x.names, name)
	}
}

// reach collects everybody whom start waits for, directly or not, start
// included, and tells whether start is among those waited for: only then is it
// in a cycle. Each name is gone through at most once per kind of wish, so the
// work is linear in what is reached; only an upgrade, which leaves out the
// holders of its own chain, goes through the holders of its name again.
type reach struct {
	*index
	start   *vertex
	found   []*vertex
	seen    map[*vertex]bool
	scanned map[Want]bool
	cycle   bool
}

func (x *index) reach(start *vertex) *reach {
	r := &reach{index: x, start: start, seen: make(map[*vertex]bool), scanned: make(map[Want]bool)}
	r.found = append(r.found, start)
	r.seen[start] = true
	for i := 0; i < len(r.found); i++ {
		v := r.found[i]
		for _, need := range v.needs {
			if s := x.names[need.Name]; s != nil {
				r.follow(v, need, s)
			}
		}
	}
	return r
}

func (r *reach) follow(v *vertex, need Want, s *spot) {
	upgrade := need.Write && holdsName(v.Waiter, need.Name)
	if !upgrade {
		if r.scanned[need] {
			return
		}
		r.scanned[need] = true
	}
	for u, write := range s.holders {
		if (need.Write || write) && (!upgrade || holdsForeign(v, u, need.Name)) {
			r.visit(u)
		}
	}
	if need.queues() {
		for u := range s.queued {
			r.visit(u)
		}
	}
}

func (r *reach) visit(u *vertex) {
	if u == r.start {
		r.cycle = true
	}
	if !r.seen[u] {
		r.seen[u] = true
		r.found = append(r.found, u)
	}
}
