package lockservice

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/redislockservice/redislockservice/deadlock"
	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// settle is how long a cycle must have stood before anybody is hurt: that much
// the news that one of its calls has just ended may be under way.
const settle = 5 * time.Millisecond

// judge searches from what has changed, if anything, and sees to the victims of
// this node.
func (d *detector) judge() (searched bool) {
	d.mu.Lock()
	searched = len(d.search) > 0
	found := d.table.Find(d.search...)
	d.search = nil
	var mine []string
	for _, dl := range found {
		key := dl.VictimKey()
		if _, already := d.suspect[key.ID]; key.Node == d.s.node && !already {
			d.suspect[key.ID] = struct{}{}
			mine = append(mine, key.ID)
		}
	}
	d.mu.Unlock()
	for _, id := range mine {
		d.done.Go(func() { d.confirm(id) })
	}
	return searched
}

// confirm ends the wait of a victim if the cycle still stands and the records
// say the same.
func (d *detector) confirm(id string) {
	defer func() {
		d.mu.Lock()
		delete(d.suspect, id)
		d.mu.Unlock()
	}()
	if !d.rest(settle) {
		return
	}
	var gone []deadlock.Key
	for range maxGone {
		dl, parked, ok := d.still(id, gone)
		if !ok {
			return
		}
		no, yes := d.recordsConfirm(dl.Cycle)
		switch {
		case yes:
			d.end(dl, parked)
			return
		case no == nil:
			return // searched again with the next change or poll
		}
		gone = append(gone, *no)
	}
}

// maxGone is how many members of a cycle may turn out to be old news before the
// victim is left alone until the next search. A node that has crashed is believed
// to wait for three poll delays yet, and might hide a cycle that is real.
const maxGone = 8

// end has the victim's call give up.
func (d *detector) end(dl deadlock.Deadlock, parked lane.Parked) {
	e := newDeadlockError(dl)
	if parked.Abort(e) {
		d.s.log.Warn("deadlock: a waiting call gives up so that the others can go on",
			zap.Int("parties", len(e.Cycle)), zap.String("cycle", strings.ReplaceAll(e.story, "\n", " | ")))
	}
}

// still finds the deadlock whose victim is the call, as the table stands now;
// without those who are gone by the records, any that goes through it. What ends
// its wait is read while mu is held: the lane may be telling of it again.
func (d *detector) still(id string, gone []deadlock.Key) (deadlock.Deadlock, lane.Parked, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	call := d.parked[id]
	if call == nil {
		return deadlock.Deadlock{}, lane.Parked{}, false
	}
	key := deadlock.Key{Node: d.s.node, ID: id}
	if len(gone) > 0 {
		dl, ok := d.table.Through(key, gone)
		return dl, call.w.Parked, ok
	}
	for _, dl := range d.table.Find(key) {
		if dl.VictimKey() == key {
			return dl, call.w.Parked, true
		}
	}
	return deadlock.Deadlock{}, lane.Parked{}, false
}

func namesIn(cycle []deadlock.Waiter) []string {
	var names []string
	for i := range cycle {
		for _, reason := range deadlock.Why(cycle[i], cycle[(i+1)%len(cycle)]) {
			names = append(names, reason.Name)
		}
		for _, want := range cycle[i].Wants {
			names = append(names, want.Name)
		}
	}
	return unique(names)
}

// recordsConfirm says whether one snapshot of the records shows every edge of
// the cycle: what is said to be held is held by that very acquisition, and the
// node of each waiter has its mark where it is said to wait. So a message that
// is old or forged hurts nobody. If it doesn't, no is the member that isn't what
// it is said to be; nil if that can't be told.
func (d *detector) recordsConfirm(cycle []deadlock.Waiter) (no *deadlock.Key, yes bool) {
	ctx, cancel := context.WithTimeout(d.ctx, d.s.cfg.opTimeout)
	defer cancel()
	r, err := d.s.lane.Read(ctx, namesIn(cycle))
	if err != nil {
		return nil, false
	}
	no = goneByRecords(cycle, r)
	return no, no == nil
}

func goneByRecords(cycle []deadlock.Waiter, r lane.Reading) *deadlock.Key {
	now := r.At.Millis()
	for i := range cycle {
		w, next := &cycle[i], &cycle[(i+1)%len(cycle)]
		if !waitsInRecords(w, r, now) {
			key := w.Key()
			return &key
		}
		if !edgeInRecords(*w, *next, r, now) {
			key := next.Key()
			return &key
		}
	}
	return nil
}

func waitsInRecords(w *deadlock.Waiter, r lane.Reading, now lockrules.Millis) bool {
	for _, want := range w.Wants {
		rec, ok := r.Records[want.Name]
		if !ok || !marked(&rec, w.Node, want.Write, now) {
			return false
		}
	}
	return true
}

func marked(rec *lockrules.Record, node string, write bool, now lockrules.Millis) bool {
	for i := range rec.Waiting {
		m := &rec.Waiting[i]
		if m.Node == node && m.Alive(now) && (m.Write || !write) {
			return true
		}
	}
	return false
}

func edgeInRecords(w, next deadlock.Waiter, r lane.Reading, now lockrules.Millis) bool {
	for _, reason := range deadlock.Why(w, next) {
		rec, ok := r.Records[reason.Name]
		if !ok {
			continue
		}
		if reason.HoldID == "" {
			if marked(&rec, next.Node, true, now) {
				return true
			}
			continue
		}
		if h, _, found := rec.Find(reason.HoldID); found && h.Alive(now) && h.Node == next.Node {
			return true
		}
	}
	return false
}
