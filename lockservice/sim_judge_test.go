package lockservice

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/internal/sim"
)

// simJudge checks what must hold whatever happens: numbers I1 to I7 below. Its
// methods that end in Locked need simWorld.mu.
type simJudge struct {
	s       *simWorld
	max     map[string]int64           // the highest token of each lock, by the records
	stored  map[string]int64           // the highest token that a storage has seen
	granted map[string]map[string]bool // by id: the locks of its grant
	ended   map[string]bool            // id and lock: released in the records
	losses  int
	lossAt  time.Time // the last restart or loss of data that may have hit a holding
	fresh   bool      // something has been granted since
	shared  int       // how often two were seen to hold a read lock together

	certainly []*Acquisition // scratch of standing
}

func newSimJudge(s *simWorld) simJudge {
	return simJudge{s: s, max: make(map[string]int64), stored: make(map[string]int64),
		granted: make(map[string]map[string]bool), ended: make(map[string]bool)}
}

// applied looks at each commit.
func (j *simJudge) applied(a sim.Applied) error {
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	fresh := make(map[string]bool)
	for _, set := range a.Writes.Sets {
		name, ok := j.s.cfg.keys.LockName(set.Key)
		if !ok {
			continue
		}
		var rec lockrules.Record
		if err := json.Unmarshal(set.Value, &rec); err != nil {
			return err
		}
		if err := j.recordLocked(name, &rec, a, fresh); err != nil {
			return fmt.Errorf("%w: %s", err, set.Value)
		}
	}
	return nil
}

func (j *simJudge) recordLocked(name string, rec *lockrules.Record, a sim.Applied, fresh map[string]bool) error {
	now := lockrules.Instant(a.Micros).Millis()
	j.s.graph.committed(name, rec, now)
	holders := slices.Clone(rec.ReadOwners)
	if rec.WriteOwner != nil {
		holders = append(holders, *rec.WriteOwner)
	}
	for i := range holders {
		h := &holders[i]
		if h.ReleasedAt != nil {
			j.ended[h.ID+" "+name] = true
			continue
		}
		if err := j.holdingLocked(name, h, a, fresh); err != nil {
			return err
		}
	}
	// Where the clock went back a lapsed holding may be alive again in the record.
	if w := rec.WriteOwner; w.Alive(now) && w.ReleasedAt == nil && len(rec.ReadOwners) > 0 && j.count(sim.ClockBack) == 0 {
		for i := range rec.ReadOwners {
			if r := &rec.ReadOwners[i]; r.Alive(now) && r.Node != w.Node {
				return fmt.Errorf("I2: %s has a writer and a reader of different nodes", name)
			}
		}
	}
	return nil
}

// holdingLocked checks a holding when its id is first seen.
func (j *simJudge) holdingLocked(name string, h *lockrules.Holding, a sim.Applied, fresh map[string]bool) error {
	now := lockrules.Instant(a.Micros).Millis()
	names := j.granted[h.ID]
	switch {
	case names[name]:
		if j.ended[h.ID+" "+name] && h.Alive(now) && j.lossAt.IsZero() {
			return fmt.Errorf("I7: %s was released and is held again on %s", h.ID, name)
		}
		return nil
	case names == nil:
		fresh[h.ID] = true
		names = make(map[string]bool)
		j.granted[h.ID] = names
	case !fresh[h.ID]:
		return fmt.Errorf("I5: %s was granted %s apart from the others", h.ID, name)
	}
	names[name] = true
	j.fresh = true
	j.s.counts["a lock was granted"]++
	// Where nothing takes time, many may be granted a lock, one after the other, its
	// record be lost, and made anew, all within a microsecond.
	newer := h.FencingToken > j.max[name] || h.FencingToken > j.max[name]-100 && j.s.kind == simAdmitted
	if !newer && !j.clockExcused() {
		return fmt.Errorf("I3: the token of %s on %s is not newer than %d", h.ID, name, j.max[name])
	}
	j.max[name] = max(j.max[name], h.FencingToken)
	if since := time.Since(j.lossAt); !j.lossAt.IsZero() && since < simLease-time.Millisecond && j.s.kind != simAdmitted {
		return fmt.Errorf("I4: %s was granted %s %v after a restart or loss", h.ID, name, since)
	}
	return nil
}

// clockExcused: tokens may fall if the clock went back and data was lost.
func (j *simJudge) clockExcused() bool {
	return j.count(sim.ClockBack) > 0 && (!j.lossAt.IsZero() || j.count(sim.KeyEvicted) > 0 || j.count(sim.KeyExpired) > 0)
}

// standing looks at everything while it stands still.
func (j *simJudge) standing() error {
	j.s.mu.Lock()
	defer j.s.mu.Unlock()
	j.noteLossLocked()
	if err := j.s.graph.standing(); err != nil || j.s.kind == simAdmitted {
		return err
	}
	j.certainly = j.certainly[:0]
	for _, h := range j.s.held {
		if j.certain(h) {
			j.certainly = append(j.certainly, h.a)
		}
	}
	for i, a := range j.certainly {
		for _, b := range j.certainly[:i] {
			if err := j.together(a, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// together says whether two may hold what they hold at the same time.
func (j *simJudge) together(a, b *Acquisition) error {
	if rootOf(a) == rootOf(b) {
		return nil
	}
	for _, x := range a.wants {
		for _, y := range b.wants {
			switch {
			case x.Name != y.Name:
			case x.Mode == lockrules.Write || y.Mode == lockrules.Write:
				return fmt.Errorf("I1: %s and %s both hold %s at %v", a.id, b.id, x.Name, time.Since(simEpoch))
			default:
				j.shared++
			}
		}
	}
	return nil
}

var simEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// certain is HasLock, but a look at it changes nothing. A node that has crashed
// holds nothing.
func (j *simJudge) certain(held simHeld) bool {
	now := held.a.svc.clock.now()
	for h := held.a; h != nil; h = h.parent {
		if h.state.Load() != stateHeld || len(h.wants) > 0 && now >= time.Duration(h.trustEnd.Load()) {
			return false
		}
	}
	return !held.c.n.port.Killed()
}

func rootOf(a *Acquisition) *Acquisition {
	for a.parent != nil {
		a = a.parent
	}
	return a
}

// noteLossLocked notes when a server last lost its memory of who holds what.
func (j *simJudge) noteLossLocked() {
	losses := j.s.w.Redis.Losses()
	// A second loss, with nothing granted since the first, loses nothing. The
	// hold-off may then count from the first: a commit that says so may be under way.
	if losses > j.losses && (j.fresh || j.lossAt.IsZero()) {
		j.lossAt, j.fresh = time.Now(), false
	}
	if losses > j.losses {
		j.restoredLocked()
	}
	j.losses = losses
}

// restoredLocked: an old snapshot may have brought back records of long ago.
func (j *simJudge) restoredLocked() {
	at := lockrules.Instant(j.s.w.Redis.Micros()).Millis()
	for _, key := range j.s.w.Redis.Keys() {
		var rec lockrules.Record
		data, _ := j.s.w.Redis.Get(key)
		if name, ok := j.s.cfg.keys.LockName(key); ok && json.Unmarshal(data, &rec) == nil {
			j.s.graph.committed(name, &rec, at)
		}
	}
}

func (j *simJudge) count(f sim.Fact) int { return j.s.w.Redis.Count(f) }

// enteredLocked compares a grant with what was committed.
func (j *simJudge) enteredLocked(a *Acquisition) {
	got := j.granted[a.id]
	if len(got) != len(a.wants) {
		j.s.fail("I5: %s wanted %v and was granted %v", a.id, a.wants, got)
	}
}

// storeLocked is a write to a storage that refuses old tokens.
func (j *simJudge) storeLocked(a *Acquisition, has bool) {
	for _, w := range a.wants {
		if w.Mode != lockrules.Write {
			continue
		}
		token := a.grant.Token
		switch {
		case token >= j.stored[w.Name]:
			j.stored[w.Name] = token
		case has && j.s.kind != simAdmitted && !j.clockExcused():
			j.s.fail("%s: the storage of %s has seen %d and refuses its holder's %d", a.id, w.Name, j.stored[w.Name], token)
		default:
			j.s.counts["a storage refused a late write"]++
		}
	}
}

// left looks at what is left when everybody has gone: no mark and no holding of
// a node that lives.
func (j *simJudge) left() {
	if j.count(sim.ClockBack) > 0 {
		return // what had lapsed may be alive again, until somebody looks at it
	}
	now := lockrules.Instant(j.s.w.Redis.Micros()).Millis()
	for _, key := range j.s.w.Redis.Keys() {
		name, ok := j.s.cfg.keys.LockName(key)
		if !ok {
			continue
		}
		data, _ := j.s.w.Redis.Get(key)
		var rec lockrules.Record
		if err := json.Unmarshal(data, &rec); err != nil {
			j.s.fail("%s: %w", name, err)
			return
		}
		for i := range rec.Waiting {
			if m := &rec.Waiting[i]; m.Alive(now) && j.lives(m.Node) {
				j.s.left = append(j.s.left, fmt.Sprintf("%s waits for %s", m.Node, name))
			}
		}
		if w := rec.WriteOwner; w.Alive(now) && w.ReleasedAt == nil && j.lives(w.Node) && !j.mayBeBack(w) {
			j.s.left = append(j.s.left, fmt.Sprintf("at %d %s holds %s: %s", now, w.ID, name, data))
		}
	}
}

// mayBeBack: a job's lock that was released, or never known to be granted, may be
// back with an old snapshot for as long as the job might have lasted, which is
// longer than what is waited for in the end. Nobody knows of it.
func (j *simJudge) mayBeBack(h *lockrules.Holding) bool {
	return h.LeaseMillis > lockrules.Millis(simLease.Milliseconds()) && j.count(sim.StartedOld) > 0
}

func (j *simJudge) lives(node string) bool {
	for _, n := range j.s.nodes {
		if n.name == node {
			// Close gives up after a while, and leaves to its lease what it can't undo.
			return !n.port.Killed() && !n.closed.Load()
		}
	}
	return false
}
