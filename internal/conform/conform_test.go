package conform

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
	"github.com/redislockservice/redislockservice/internal/redistest"
)

// step is one thing that happens, in every world. It says what came of it.
type step struct {
	what string
	do   func(w world) string
	// expires: the keys with a short expiry are to be gone before it. They also go
	// when a sequence takes so long that they might go in the middle of a step.
	expires bool
	// arms: from here on a short expiry runs.
	arms bool
}

var keys = []string{"{p}:a", "{p}:b", "{p}:c"}

// script makes the steps of a seed. rights says whether rights are taken away,
// which miniredis has none of.
func script(seed uint64, rights bool) []step {
	r := rand.New(rand.NewPCG(seed, 17))
	var steps []step
	for range 60 {
		steps = append(steps, pick(r, rights))
	}
	return steps
}

func pick(r *rand.Rand, rights bool) step {
	key, ttl := keys[r.IntN(len(keys))], []time.Duration{0, long, short}[r.IntN(3)]
	value := strconv.Itoa(r.IntN(3)) // often the same as before: it counts as a touch
	arms := ttl == short
	switch n := r.IntN(100); {
	case n < 30:
		return read(r.IntN(nodes), some(r))
	case n < 65:
		return commit(r, r.IntN(nodes))
	case n < 72:
		return step{what: fmt.Sprintf("SET %s %s %v", key, value, ttl), arms: arms, do: func(w world) string { w.set(key, value, ttl); return "" }}
	case n < 77:
		return step{what: "DEL " + key, do: func(w world) string { w.del(key); return "" }}
	case n < 82:
		touched := max(ttl, short)
		return step{what: fmt.Sprintf("PEXPIRE %s %v", key, touched), arms: touched == short, do: func(w world) string { w.touch(key, touched); return "" }}
	case n < 84:
		return step{what: "RPUSH " + key, do: func(w world) string { w.list(key); return "" }}
	case n < 86:
		return step{what: "FLUSHDB", do: func(w world) string { w.flush(); return "" }}
	case n < 88:
		return step{what: "kill", do: func(w world) string { w.kill(); return "" }}
	case n < 90:
		return step{what: "time goes by", expires: true, do: func(world) string { return "" }}
	case n < 92:
		return finished(r.IntN(nodes), some(r))
	case n < 94:
		node := r.IntN(nodes)
		return step{what: fmt.Sprintf("node %d drops its watches", node), do: func(w world) string { return exchanged(w, node, nil, nil) }}
	case n < 97 && rights:
		command := []string{"watch", "get", "mget", "exists", "set", "del", "publish", "multi", "time", "info"}[r.IntN(10)]
		return step{what: "deny " + command, do: func(w world) string {
			w.deny(command)
			if command == "info" {
				w.kill() // it is asked on each new connection, and then only when the answer is old
			}
			return ""
		}}
	}
	return step{what: "allow", do: func(w world) string { w.allow(); return "" }}
}

// some keys, in any order.
func some(r *rand.Rand) []string {
	var chosen []string
	for _, i := range r.Perm(len(keys))[:1+r.IntN(len(keys))] {
		chosen = append(chosen, keys[i])
	}
	return chosen
}

func read(node int, keys []string) step {
	return step{what: fmt.Sprintf("node %d reads %v", node, keys), do: func(w world) string { return exchanged(w, node, nil, keys) }}
}

// finished is an exchange whose ctx has ended.
func finished(node int, keys []string) step {
	return step{what: fmt.Sprintf("node %d reads %v too late", node, keys), do: func(w world) string {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, _, err := w.port(node).Exchange(ctx, nil, keys)
		return kindOf(err)
	}}
}

func commit(r *rand.Rand, node int) step {
	writes := &exchange.Writes{}
	arms := false
	for _, key := range some(r) {
		if r.IntN(4) == 0 {
			writes.Deletes = append(writes.Deletes, key)
			continue
		}
		ttl := []time.Duration{0, long, long, short}[r.IntN(4)]
		arms = arms || ttl == short
		writes.Sets = append(writes.Sets, exchange.Set{Key: key, Value: []byte(strconv.Itoa(r.IntN(3))), TTL: ttl})
	}
	if r.IntN(3) == 0 {
		writes.Publishes = append(writes.Publishes, exchange.Publish{Channel: "{p}:wake:n", Message: "m"})
	}
	var next []string
	if r.IntN(3) > 0 {
		next = some(r)
	}
	return step{what: fmt.Sprintf("node %d commits %d sets, deletes %v, publishes %d, then reads %v", node, len(writes.Sets), writes.Deletes, len(writes.Publishes), next),
		arms: arms, do: func(w world) string { return exchanged(w, node, writes, next) }}
}

// exchanged runs an exchange, and says what is compared of it.
func exchanged(w world, node int, writes *exchange.Writes, keys []string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	committed, snap, err := w.port(node).Exchange(ctx, writes, keys)
	var said strings.Builder
	fmt.Fprintf(&said, "committed %v, %s", committed, kindOf(err))
	for _, v := range snap.Values {
		switch {
		case v.Err != nil:
			said.WriteString(", foreign type")
		case !v.Exists:
			said.WriteString(", missing")
		default:
			fmt.Fprintf(&said, ", %q", v.Data)
		}
	}
	if err == nil && len(keys) > 0 {
		age := time.Since(time.UnixMicro(snap.Micros)).Abs()
		fmt.Fprintf(&said, ", time is told %v, server %v", age < time.Minute, snap.RunID != "" && snap.Uptime >= 0)
	}
	return said.String()
}

// errLate says that the machine was so slow that an expiry may have come in between.
var errLate = errors.New("a short expiry may have come too early")

// play runs the steps in all worlds, and compares.
func play(worlds []world, steps []step) (trail []string, err error) {
	var armed time.Time
	for _, s := range steps {
		if s.expires || !armed.IsZero() && time.Since(armed) > short/4 {
			<-time.After(short + short/4)
			armed = time.Time{}
		}
		if s.arms && armed.IsZero() {
			armed = time.Now()
		}
		said := make([]string, len(worlds))
		for i, w := range worlds {
			said[i] = s.do(w)
			for _, key := range keys {
				said[i] += "; " + w.look(key)
			}
		}
		trail = append(trail, s.what+" -> "+said[0])
		if !armed.IsZero() && time.Since(armed) > short*3/4 {
			return trail, errLate
		}
		for i := 1; i < len(worlds); i++ {
			if said[i] != said[0] {
				return trail, fmt.Errorf("%s: %s says %s, %s says %s", s.what, worlds[0].name(), said[0], worlds[i].name(), said[i])
			}
		}
	}
	return trail, nil
}

// seeds is how many sequences are tried of each kind; CONFORM_SEEDS asks for more.
func seeds(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(os.Getenv("CONFORM_SEEDS"), 10, 64)
	if err != nil {
		return 25
	}
	return n
}

func TestThePortInMemoryIsTrue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, rights := range []bool{false, true} {
		t.Run(map[bool]string{false: "AllThree", true: "WithRightsTakenAway"}[rights], func(t *testing.T) {
			t.Parallel()
			late := 0
			for seed := range seeds(t) {
				late += compare(t, server, seed, rights)
			}
			t.Logf("%d sequences, %d of them again since the machine was slow", seeds(t), late)
		})
	}
}

// compare plays one seed, again if the machine was too slow.
func compare(t *testing.T, server *redistest.Server, seed uint64, rights bool) (late int) {
	t.Helper()
	for late < 20 {
		var trail []string
		var err error
		t.Run(fmt.Sprintf("%d", seed), func(t *testing.T) {
			worlds := []world{newSimWorld(t), newServerWorld(t, server, rights)}
			if !rights {
				worlds = append(worlds, newMiniWorld(t))
			}
			trail, err = play(worlds, script(seed, rights))
		})
		if err == nil {
			return late
		}
		if !errors.Is(err, errLate) {
			require.FailNow(t, err.Error(), "seed %d:\n%s", seed, strings.Join(trail, "\n"))
		}
		late++
	}
	require.FailNow(t, "the machine is too slow", "seed %d", seed)
	return late
}

// newServerWorld is the real port on a real server: in a database of its own, with
// a user of its own.
func newServerWorld(t *testing.T, server *redistest.Server, rights bool) *redisWorld {
	t.Helper()
	user, database := "three", 1
	if rights {
		user, database = "rights", 2
	}
	server.Do(t, "ACL", "SETUSER", user, "reset", "on", "nopass", "~*", "&*", "+@all")
	option := server.ClientOption()
	option.SelectDB = database
	admin, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(admin.Close)
	option.Username, option.Password = user, "any"
	w := newRedisWorld(t, "redis", admin, option)
	w.flush()
	return w
}
