package lane

import "slices"

// namesOf are the records that the batch needs.
func (l *Lane) namesOf(b *batch) []string {
	set := newNameSet()
	for _, o := range b.ops {
		set.add(o.names)
	}
	set.add(b.names)
	for _, o := range b.retry {
		set.add(o.names)
	}
	for _, name := range set.names[:len(set.names):len(set.names)] {
		l.addCandidates(set, name)
	}
	return set.names
}

// wantedSoon are those of the batch's names whose records are likely to be wanted
// next. That of a lock that was just renewed isn't for another interval.
func (l *Lane) wantedSoon(b *batch, all []string) []string {
	isRenewal := func(o *op) bool { return o.kind == renew }
	if !slices.ContainsFunc(b.ops, isRenewal) {
		return all
	}
	others := *b
	others.ops = slices.DeleteFunc(slices.Clone(b.ops), isRenewal)
	return l.namesOf(&others)
}

// candidatesRead is for how many of those parked for a name, that may be
// handed it, all other records are read as well.
const candidatesRead = 4

func (l *Lane) addCandidates(set *nameSet, name string) {
	q := l.parked.names[name]
	if q == nil {
		return
	}
	for _, ops := range [...][]*op{q.writers, q.readers} {
		for i, o := range ops {
			if i == candidatesRead {
				break
			}
			set.add(o.names)
		}
	}
}

// nextNames are the records to read along with a batch's commit: its own,
// since they are the likeliest next, and those of what has been queued by now.
func (l *Lane) nextNames(own []string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return own
	}
	set := &nameSet{names: slices.Clone(own)}
	ops, renewals := 0, 0
	for _, o := range l.pending {
		if o.kind == renew {
			renewals++
		}
		if ops == maxOps || len(set.names)+len(o.names) > 2*maxNames {
			break
		}
		if o.kind != renew || renewals <= maxRenewals {
			set.add(o.names)
			ops++
		}
	}
	return set.names
}

// nameSet keeps names in the order in which they came.
type nameSet struct {
	names []string
	seen  map[string]struct{}
}

func newNameSet() *nameSet { return &nameSet{} }

func (s *nameSet) add(names []string) {
	for _, name := range names {
		if s.has(name) {
			continue
		}
		s.names = append(s.names, name)
		if s.seen != nil {
			s.seen[name] = struct{}{}
		}
	}
}

// has looks through a short list, and builds a map only for a long one.
func (s *nameSet) has(name string) bool {
	if s.seen == nil {
		if len(s.names) < 8 {
			for _, n := range s.names {
				if n == name {
					return true
				}
			}
			return false
		}
		s.seen = make(map[string]struct{}, 2*len(s.names))
		for _, n := range s.names {
			s.seen[n] = struct{}{}
		}
	}
	_, ok := s.seen[name]
	return ok
}
