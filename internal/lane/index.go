package lane

import (
	"cmp"
	"slices"
	"time"

	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// index is the parked operations, by name and in arrival order. It belongs to
// whoever has the baton.
type index struct {
	all   map[*op]struct{}
	names map[string]*queue
	seq   uint64
	due   time.Duration // not later than the first due of any queue; 0: none
	debts debts
}

// queue is who is parked for one name.
type queue struct {
	writers []*op
	readers []*op
	due     time.Duration // when something in their way lapses; 0: nothing known
}

func newIndex() index {
	return index{all: make(map[*op]struct{}), names: make(map[string]*queue), debts: newDebts()}
}

func (x *index) add(o *op) {
	if o.waiting {
		return
	}
	o.waiting = true
	x.seq++
	o.seq = x.seq
	x.all[o] = struct{}{}
	for _, w := range o.req.Wants {
		q := x.names[w.Name]
		if q == nil {
			q = &queue{}
			x.names[w.Name] = q
		}
		if w.Mode == lockrules.Write {
			q.writers = append(q.writers, o)
		} else {
			q.readers = append(q.readers, o)
		}
	}
}

func (x *index) remove(o *op) {
	if !o.waiting {
		return
	}
	o.waiting = false
	delete(x.all, o)
	for _, w := range o.req.Wants {
		q := x.names[w.Name]
		if w.Mode == lockrules.Write {
			q.writers = without(q.writers, o)
		} else {
			q.readers = without(q.readers, o)
		}
		if len(q.writers)+len(q.readers) == 0 {
			delete(x.names, w.Name)
		}
	}
}

// without removes o, which most often is the first.
func without(ops []*op, o *op) []*op {
	if len(ops) > 0 && ops[0] == o {
		ops[0] = nil
		return ops[1:]
	}
	if i := slices.Index(ops, o); i >= 0 {
		return slices.Delete(ops, i, i+1)
	}
	return ops
}

// setDue notes when name is to be tried next without a reason from outside.
func (x *index) setDue(name string, due time.Duration) {
	q := x.names[name]
	if q == nil {
		return
	}
	q.due = due
	if due != 0 && (x.due == 0 || due < x.due) {
		x.due = due
	}
}

// takeDue removes and returns the names whose time has come.
func (x *index) takeDue(now time.Duration, to []string) []string {
	if x.due == 0 || now < x.due {
		return to
	}
	x.due = 0
	for name, q := range x.names {
		switch {
		case q.due == 0:
		case q.due <= now:
			q.due = 0
			to = append(to, name)
		case x.due == 0 || q.due < x.due:
			x.due = q.due
		}
	}
	slices.Sort(to) // map order must not decide anything
	return to
}

// nextDue is when something parked is to be tried, by its queue's due or by the
// poll, or a debt is to be paid.
func (x *index) nextDue(pollAt time.Duration) time.Duration {
	due := x.debts.due
	if len(x.all) == 0 {
		return due
	}
	for _, d := range [...]time.Duration{x.due, pollAt} {
		if due == 0 || d != 0 && d < due {
			due = d
		}
	}
	return due
}

// inOrder is everything parked, in arrival order.
func (x *index) inOrder() []*op {
	ops := make([]*op, 0, len(x.all))
	for o := range x.all {
		ops = append(ops, o)
	}
	slices.SortFunc(ops, func(a, b *op) int { return cmp.Compare(a.seq, b.seq) })
	return ops
}
