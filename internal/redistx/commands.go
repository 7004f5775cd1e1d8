package redistx

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

// fixedCommands never change; pinned, so that rueidis doesn't recycle them.
type fixedCommands struct {
	multi, exec, unwatch, time, info rueidis.Completed
}

func newFixedCommands(client rueidis.Client) fixedCommands {
	return fixedCommands{
		multi:   client.B().Multi().Build().Pin(),
		exec:    client.B().Exec().Build().Pin(),
		unwatch: client.B().Unwatch().Build().Pin(),
		time:    client.B().Time().Build().Pin(),
		info:    client.B().Info().Section("server").Build().Pin(),
	}
}

// plan is the layout of a batch, for reading its answers.
type plan struct {
	sets, deletes, publishes int  // commands of each between MULTI and EXEC
	writes                   int  // their sum; 0: no MULTI … EXEC
	first                    int  // index of the first answer that belongs to the reads
	keys                     int  // 0: no reads
	together                 bool // read by MGET and EXISTS, else by a GET each
	info                     bool // INFO comes last
}

// command names the i-th command between MULTI and EXEC.
func (p plan) command(i int) string {
	switch {
	case i < p.sets:
		return "SET"
	case i < p.sets+p.deletes:
		return "DEL"
	}
	return "PUBLISH"
}

// assemble fills p.batch. Called with the turn.
func (p *Port) assemble(c *conn, commit *exchange.Writes, keys []string, now time.Time) plan {
	plan := plan{keys: len(keys)}
	p.batch = p.batch[:0]
	switch {
	case !commit.Empty():
		plan.sets, plan.deletes, plan.publishes = len(commit.Sets), min(1, len(commit.Deletes)), len(commit.Publishes)
		plan.writes = plan.sets + plan.deletes + plan.publishes
		p.transaction(commit)
	case c.pending:
		// Watches add up; without this a batch that was never committed would
		// make the next one fail on keys it has nothing to do with.
		p.batch = append(p.batch, p.fixed.unwatch)
	}
	plan.first = len(p.batch)
	if len(keys) > 0 {
		plan.info = !c.identified(now)
		plan.together = len(keys) >= manyKeys
		p.reads(keys, plan)
	}
	return plan
}

func (p *Port) transaction(commit *exchange.Writes) {
	b := p.client.B()
	p.batch = append(p.batch, p.fixed.multi)
	for i := range commit.Sets {
		p.batch = append(p.batch, setCommand(b, &commit.Sets[i]))
	}
	if len(commit.Deletes) > 0 {
		p.batch = append(p.batch, b.Del().Key(commit.Deletes...).Build())
	}
	for _, m := range commit.Publishes {
		p.batch = append(p.batch, b.Publish().Channel(m.Channel).Message(m.Message).Build())
	}
	p.batch = append(p.batch, p.fixed.exec)
}

func setCommand(b rueidis.Builder, s *exchange.Set) rueidis.Completed {
	set := b.Set().Key(s.Key).Value(rueidis.BinaryString(s.Value))
	if s.TTL <= 0 {
		return set.Build()
	}
	// Rounded up: PX 0 is an error, and a key must not go before its time.
	ms := (s.TTL + time.Millisecond - 1) / time.Millisecond
	return set.PxMilliseconds(int64(ms)).Build()
}

// manyKeys is from how many keys on they are read together. Two commands then do
// for all, of which the server needs a third of the time that a GET each takes.
const manyKeys = 3

// reads watches first: what is read afterwards is at least as new as the watch.
// It also removes a key that is expired and still present; a WATCH alone would
// not notice its going.
//
// MGET shows a key of a foreign type as missing. EXISTS tells how many there
// are: if that is not the number of values, each key is read by its GET.
func (p *Port) reads(keys []string, plan plan) {
	b := p.client.B()
	p.batch = append(p.batch, b.Watch().Key(keys...).Build())
	if plan.together {
		p.batch = append(p.batch, b.Mget().Key(keys...).Build(), b.Exists().Key(keys...).Build())
	} else {
		p.gets(keys)
	}
	p.batch = append(p.batch, p.fixed.time)
	if plan.info {
		p.batch = append(p.batch, p.fixed.info)
	}
}

func (p *Port) gets(keys []string) {
	b := p.client.B()
	for _, key := range keys {
		p.batch = append(p.batch, b.Get().Key(key).Build())
	}
}

// reads is how many answers the reading of the keys has.
func (p plan) reads() int {
	if p.together {
		return 2
	}
	return p.keys
}
