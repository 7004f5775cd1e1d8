package lockrules

import "slices"

// StarvesAfter is how long somebody waits before age counts. Up to then whoever
// is quickest gets in, and writers before readers, which costs the fewest messages
// and idle moments; beyond it the eldest goes first, so that nobody is passed over
// for ever. It is the starvation mode of sync.Mutex, over nodes.
const StarvesAfter Millis = 25

func starves(since, now Millis) bool { return now-since > StarvesAfter }

// passes says whether the asker, who wants to read, goes past a writer that came
// after it. What a mark says is the oldest wait of its node, reader or writer, so
// a mark may keep out a reader for longer than its writer has waited, never the
// other way round: whoever waits longest of all is kept out by holders only. Of
// equals the reader goes first, or the readers of two nodes would keep each other
// out by the marks that they wait behind.
func (a *Asker) passes(writer, now Millis) bool { return a.elder(writer) && starves(a.Since, now) }

// elder says whether the asker has waited for no less than somebody has since then.
func (a *Asker) elder(since Millis) bool { return a.Since != 0 && a.Since <= since }

// passesAt is when the asker will go past a writer, who is in the way until then
// or until its own end.
func (a *Asker) passesAt(writer, end Millis) Millis {
	if !a.elder(writer) {
		return end
	}
	return min(end, a.Since+StarvesAfter+1)
}

// GoesFirst is the mark of the node that somebody on self, who has waited since
// then and could be granted the lock to write, has to let go first: the eldest of
// those that starve, have waited longer by as much, and can get in. The margin
// lets a node serve its own a while before the lock changes sides. skip tells of
// marks that have had their turn.
//
// A node of the previous version says in its mark since when anybody has waited
// there without a break. It looks older than it is, so it is let go first more
// often than is its due, at the cost of what skip allows.
func GoesFirst(rec Record, self string, since, now Millis, skip func(Mark) bool) (first Mark, yes bool) {
	for i := range rec.Waiting {
		m := &rec.Waiting[i]
		if m.Node == self || !m.Alive(now) || !starves(m.Since, now) || m.Since+StarvesAfter >= since {
			continue
		}
		if (!yes || m.Since < first.Since) && rec.gains(m, now) && !skip(*m) {
			first, yes = *m, true
		}
	}
	return first, yes
}

// WakeFirst is whom of the nodes that [Wake] names it is enough to wake, since the
// others can't get in beside them: the one whose waiter is the eldest, if it wants to
// write, else all that want to read. others says that there are more, whom
// somebody has to wake should none of these come. Those that skip tells of haven't
// come before.
func WakeFirst(rec Record, self string, now Millis, skip func(Mark) bool) (nodes []string, others bool) {
	all := Wake(rec, self, now)
	if len(all) < 2 || HeldByAnybody(rec, now) {
		return all, false
	}
	var first *Mark
	for i := range rec.Waiting {
		m := &rec.Waiting[i]
		if slices.Contains(all, m.Node) && (first == nil || m.Since < first.Since) && !skip(*m) {
			first = m
		}
	}
	switch {
	case first == nil:
		return all, false
	case first.Write:
		return []string{first.Node}, true
	}
	nodes = slices.DeleteFunc(all, rec.waitsToWrite)
	return nodes, len(nodes) < len(all)
}

func (r *Record) waitsToWrite(node string) bool {
	return slices.ContainsFunc(r.Waiting, func(m Mark) bool { return m.Node == node && m.Write })
}

// PassesAt is when a reader who has waited since then goes past the writers that
// came after it; 0 if that isn't still to come, or somebody writes, whose release
// tells those who wait.
func PassesAt(rec Record, since, now Millis) Millis {
	if rec.WriteOwner.Alive(now) || starves(since, now) {
		return 0
	}
	return since + StarvesAfter + 1
}
