package deadlock

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Hold is one lock that the chain of a waiter holds.
type Hold struct {
	Name  string `json:"n"`
	Write bool   `json:"w,omitempty"`
	ID    string `json:"id"` // of the acquisition; chains that share it share the lock
}

// Want is one lock that a waiter asks for.
type Want struct {
	Name  string `json:"n"`
	Write bool   `json:"w,omitempty"`
	// Past says of a wish to read that it goes past those who wait to write: they
	// came later, so they are in its way for a moment only.
	Past bool `json:"past,omitempty"`
}

// Blocker names the acquisitions that the records show in the way of one wish.
// It is told for people and for the confirmation; it makes no edge.
type Blocker struct {
	Name string   `json:"n"`
	IDs  []string `json:"ids"`
}

// Waiter is one waiting call. It needs all its wishes at once.
type Waiter struct {
	ID          string    `json:"id"` // unique per waiting call
	Node        string    `json:"-"`  // on the wire it is the sender
	Owner       string    `json:"owner,omitempty"`
	SinceMicros int64     `json:"since"` // Redis time, fixed for the whole wait
	Holds       []Hold    `json:"holds,omitempty"`
	Wants       []Want    `json:"wants"`
	Blockers    []Blocker `json:"by,omitempty"`
	Count       int       `json:"count,omitempty"` // plain waiters of the same wish that this one stands for, itself included
	Site        string    `json:"site,omitempty"`
}

// Key is the identity of a waiter over all nodes.
type Key struct{ Node, ID string }

// Key returns the identity of w.
func (w Waiter) Key() Key { return Key{w.Node, w.ID} }

// older orders waiters by data that never changes during a wait.
func older(a, b Waiter) int {
	return cmp.Or(cmp.Compare(a.SinceMicros, b.SinceMicros), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Node, b.Node))
}

// Reason is one way in which a waiter stands in another's way.
type Reason struct {
	Name   string
	Write  bool   // the mode held, or true for a queued writer
	HoldID string // the acquisition in the way; empty for a writer that only waits
}

// Why returns each reason for which w waits for v, in the order of w's wishes;
// none means that there is no edge from w to v.
func Why(w, v Waiter) []Reason {
	if w.Key() == v.Key() {
		return nil
	}
	var reasons []Reason
	queued := needs(v)
	for _, need := range needs(w) {
		for _, h := range v.Holds {
			if h.Name == need.Name && (h.Write || need.Write) && !holdsID(w, h.ID) {
				reasons = append(reasons, Reason{Name: h.Name, Write: h.Write, HoldID: h.ID})
			}
		}
		// Writers are preferred over readers who hold nothing of the name yet. A
		// reader who holds it needs no grant: needs has left that wish out.
		if need.queues() && slices.ContainsFunc(queued, func(q Want) bool { return q.Name == need.Name && q.Write }) {
			reasons = append(reasons, Reason{Name: need.Name, Write: true})
		}
	}
	return reasons
}

// queues says whether the wish has to let those pass who wait to write.
func (w Want) queues() bool { return !w.Write && !w.Past }

// needs returns what w still has to be granted, one wish per name, sorted: both
// modes of a name are the write, and what the chain holds already serves.
func needs(w Waiter) []Want {
	sorted := slices.Clone(w.Wants)
	slices.SortFunc(sorted, func(a, b Want) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), compareMode(b.Write, a.Write))
	})
	sorted = slices.CompactFunc(sorted, func(a, b Want) bool { return a.Name == b.Name })
	return slices.DeleteFunc(sorted, func(want Want) bool { return serves(w.Holds, want) })
}

func compareMode(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

func serves(holds []Hold, want Want) bool {
	return slices.ContainsFunc(holds, func(h Hold) bool { return h.Name == want.Name && (h.Write || !want.Write) })
}

func holdsID(w Waiter, id string) bool {
	return slices.ContainsFunc(w.Holds, func(h Hold) bool { return h.ID == id })
}

func holdsName(w Waiter, name string) bool {
	return slices.ContainsFunc(w.Holds, func(h Hold) bool { return h.Name == name })
}

// vertex is a waiter in the graph, with what is asked of it again and again.
type vertex struct {
	Waiter
	needs  []Want
	digest uint64 // of all that matters for the graph
	size   int    // bytes of its JSON; only kept for local waiters
}

func newVertex(w Waiter) *vertex {
	return &vertex{Waiter: w, needs: needs(w), digest: digest(w)}
}

// matters tells whether the waiter can be in a cycle at all: it must wait for
// something, and others must be able to wait for it.
func (v *vertex) matters() bool {
	return len(v.needs) > 0 && (len(v.Holds) > 0 || slices.ContainsFunc(v.needs, func(n Want) bool { return n.Write }))
}

// plain waiters hold nothing. Those with the same wishes are told once.
func (v *vertex) plain() bool { return len(v.Holds) == 0 }

// wish identifies what v waits for. The length before each name keeps apart
// names that contain the separators.
func (v *vertex) wish() string {
	var b strings.Builder
	for _, n := range v.needs {
		fmt.Fprintf(&b, "%d:%s:%t:%t;", len(n.Name), n.Name, n.Write, n.Past)
	}
	return b.String()
}

// weight approximates the memory of a waiter, for the cap on all remote ones.
func (v *vertex) weight() int {
	n := 400 + len(v.ID) + len(v.Node) + len(v.Owner) + len(v.Site)
	for _, h := range v.Holds {
		n += 64 + len(h.Name) + len(h.ID)
	}
	for _, w := range v.Wants {
		n += 96 + 2*len(w.Name)
	}
	for _, b := range v.Blockers {
		n += 48 + len(b.Name) + 16*len(b.IDs) + len(strings.Join(b.IDs, ""))
	}
	return n
}

// digest covers what decides edges and victims, and nothing else: blockers,
// counts and labels may differ between what two nodes know of the same wait.
func digest(w Waiter) uint64 {
	h := fnv.New64a()
	put := func(s string) { _, _ = io.WriteString(h, strconv.Itoa(len(s))+":"+s) }
	put(w.ID)
	put(strconv.FormatInt(w.SinceMicros, 10))
	for _, hold := range w.Holds {
		put("h" + strconv.FormatBool(hold.Write))
		put(hold.Name)
		put(hold.ID)
	}
	for _, want := range w.Wants {
		put("w" + strconv.FormatBool(want.Write))
		if want.Past {
			put("past")
		}
		put(want.Name)
	}
	return h.Sum64()
}

const (
	maxNameBytes  = 512
	maxIDBytes    = 128
	maxLabelBytes = 256
	maxCount      = 1 << 30
)

var errWaiter = errors.New("deadlock: invalid waiter")

// check refuses a waiter that breaks a cap. The error never quotes the waiter:
// it may come from the wire.
func (w *Waiter) check(l Limits) error {
	switch {
	case !between(w.ID, 1, maxIDBytes):
		return fmt.Errorf("%w: id", errWaiter)
	case w.SinceMicros <= 0:
		return fmt.Errorf("%w: start of the wait", errWaiter)
	case !between(w.Owner, 0, maxLabelBytes), !between(w.Site, 0, maxLabelBytes):
		return fmt.Errorf("%w: label", errWaiter)
	case w.Count < 0 || w.Count > maxCount:
		return fmt.Errorf("%w: count", errWaiter)
	case len(w.Wants) == 0 || len(w.Wants)+len(w.Holds) > l.NamesPerWaiter:
		return fmt.Errorf("%w: number of names", errWaiter)
	}
	for _, h := range w.Holds {
		if !between(h.Name, 1, maxNameBytes) || !between(h.ID, 1, maxIDBytes) {
			return fmt.Errorf("%w: hold", errWaiter)
		}
	}
	for _, want := range w.Wants {
		if !between(want.Name, 1, maxNameBytes) {
			return fmt.Errorf("%w: wish", errWaiter)
		}
	}
	return w.checkBlockers(l)
}

func (w *Waiter) checkBlockers(l Limits) error {
	n := 0
	for _, b := range w.Blockers {
		if n += max(1, len(b.IDs)); n > l.NamesPerWaiter || !between(b.Name, 1, maxNameBytes) {
			return fmt.Errorf("%w: blocker", errWaiter)
		}
		for _, id := range b.IDs {
			if !between(id, 1, maxIDBytes) {
				return fmt.Errorf("%w: blocker", errWaiter)
			}
		}
	}
	return nil
}

func between(s string, low, high int) bool {
	return len(s) >= low && len(s) <= high && utf8.ValidString(s)
}

// clip cuts a label to size, never inside a character.
func clip(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
