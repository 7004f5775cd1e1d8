package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// session is one connection.
type session struct {
	// Guarded by Redis.mu: the server's side.
	watched map[string]uint64 // key to its version when it was watched
	dead    bool              // closed; what is sent on it is never applied
	told    bool              // gone is closed
	info    identity          // what the client was told with INFO last

	// Owned by the holder of Port.turn: the client's side.
	pending bool // the server may hold watches for it
	guarded bool // the last exchange watched and read without an error

	gone chan struct{} // closed when the client learns that the connection has died
}

// identity is what INFO says of the server. It counts for a while on the
// connection that it came on, as it does in redistx.
type identity struct {
	runID  string
	uptime int64
	asked  time.Time // zero: never
}

const identityLasts = time.Second

func (i *identity) due(now time.Time) bool {
	return i.asked.IsZero() || now.Sub(i.asked) >= identityLasts
}

// cutLocked kills a connection on both sides.
func (r *Redis) cutLocked(s *session) {
	if s.dead {
		return
	}
	s.dead = true
	delete(r.sessions, s)
	r.facts[ConnectionCut]++
	s.tellLocked()
}

func (s *session) tellLocked() {
	if !s.told {
		s.told = true
		close(s.gone)
	}
}

// forgetLocked ends a connection that its client has closed.
func (r *Redis) forgetLocked(s *session) {
	s.dead = true
	delete(r.sessions, s)
}

// commandsOf are the commands of a commit, in order, each once: redistx sends
// several of a kind, but they fare alike.
func commandsOf(w *exchange.Writes) []string {
	var all []string
	if len(w.Sets) > 0 {
		all = append(all, "SET")
	}
	if len(w.Deletes) > 0 {
		all = append(all, "DEL")
	}
	if len(w.Publishes) > 0 {
		all = append(all, "PUBLISH")
	}
	return all
}

// transactLocked is MULTI … EXEC; without a commit it is UNWATCH. Either ends all watches.
func (r *Redis) transactLocked(c *call, f Fault) (committed bool, err error) {
	watched := c.s.watched
	c.s.watched = nil
	if c.commit.Empty() {
		return false, nil
	}
	once := f.refusals()
	multi := r.refusedLocked("MULTI", once)
	var denied []string
	first := multi
	commands := commandsOf(&c.commit)
	for _, command := range commands {
		if x := r.refusedLocked(command, once); x != nil {
			denied = append(denied, command)
			if first == nil {
				first = x
			}
		}
	}
	switch {
	case multi != nil:
		return false, r.looseLocked(c, multi, commands, denied)
	case first != nil:
		return false, first
	}
	if x := r.refusedLocked("EXEC", once); x != nil {
		x.Err = fmt.Errorf("EXECABORT Transaction discarded because of: %w", x.Err)
		return false, x
	}
	return r.execLocked(c, watched, f.Revoke)
}

// looseLocked is what happens if MULTI is refused: the rest runs at once,
// unguarded, as far as it isn't refused too.
func (r *Redis) looseLocked(c *call, multi *exchange.ServerError, commands, denied []string) error {
	if len(denied) < len(commands) {
		r.facts[PartlyApplied]++
		multi.Applied = exchange.Partly
		r.applyLocked(c, denied)
	}
	return multi
}

func (r *Redis) execLocked(c *call, watched map[string]uint64, revoke string) (committed bool, err error) {
	if r.dirtyLocked(watched) {
		r.countLocked(c, Conflicted, LateConflicted)
		return false, nil
	}
	if slices.Contains(commandsOf(&c.commit), revoke) {
		r.facts[PartlyApplied]++
		r.applyLocked(c, []string{revoke})
		return false, &exchange.ServerError{Command: revoke, Kind: exchange.NoPerm, Applied: exchange.Partly,
			Err: errors.New(reasons[exchange.NoPerm].words)}
	}
	r.countLocked(c, Committed, LateCommitted)
	r.applyLocked(c, nil)
	return true, nil
}

func (r *Redis) countLocked(c *call, normal, late Fact) {
	if c.left || c.s.told {
		normal = late
	}
	r.facts[normal]++
}

// dirtyLocked says whether a watched key was touched. An expiry that nobody has
// noticed yet counts.
func (r *Redis) dirtyLocked(watched map[string]uint64) bool {
	dirty := false
	for key, version := range watched {
		r.lookLocked(key)
		dirty = dirty || r.versions[key] != version
	}
	return dirty
}

func (r *Redis) applyLocked(c *call, except []string) {
	var w exchange.Writes
	if !slices.Contains(except, "SET") {
		w.Sets = c.commit.Sets
	}
	if !slices.Contains(except, "DEL") {
		w.Deletes = c.commit.Deletes
	}
	if !slices.Contains(except, "PUBLISH") {
		w.Publishes = c.commit.Publishes
	}
	for i := range w.Sets {
		r.setLocked(w.Sets[i].Key, w.Sets[i].Value, w.Sets[i].TTL)
	}
	for _, key := range w.Deletes {
		r.deleteLocked(key)
	}
	for _, m := range w.Publishes {
		r.publishLocked(m.Channel, m.Message)
	}
	if r.logging {
		r.log = append(r.log, Applied{Node: c.p.node.name, Number: c.number, Micros: r.microsLocked(),
			RunID: r.runID, Late: c.left || c.s.told, Writes: w})
	}
}

// watchLocked is WATCH.
func (r *Redis) watchLocked(s *session, keys []string) {
	s.watched = make(map[string]uint64, len(keys))
	for _, key := range keys {
		r.lookLocked(key)
		s.watched[key] = r.versions[key]
	}
}

// getLocked is GET.
func (r *Redis) getLocked(key string) exchange.Value {
	e, ok := r.lookLocked(key)
	switch {
	case !ok:
		return exchange.Value{}
	case e.wrongType:
		return exchange.Value{Exists: true, Err: errWrongType}
	}
	return exchange.Value{Data: append([]byte{}, e.value...), Exists: true}
}

var errWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
