package lockservice_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/redistest"
)

// deadlocksToMake is how many random deadlocks the test of several processes
// makes; DEADLOCKS sets another number.
func deadlocksToMake(t *testing.T) int {
	t.Helper()
	if s := os.Getenv("DEADLOCKS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		return n
	}
	return 40
}

// Random deadlocks of two to five parties over three processes, the poll delay
// at its default: exactly one call of each gives up, all others get their locks.
func TestRandomDeadlocksOverThreeProcessesHaveOneVictimEach(t *testing.T) {
	server := redistest.Start(t)
	prefix := redistest.Prefix(t)
	workers := make([]*worker, 3)
	for i := range workers {
		workers[i] = startWorker(t, server.URL(), prefix)
	}
	awaitUptime(t, workers[0])
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var took []time.Duration
	for n := range deadlocksToMake(t) {
		took = append(took, makeDeadlock(t, rng, server, prefix, workers, n))
	}
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))].Round(10 * time.Microsecond) }
	t.Logf("%d deadlocks, one victim each; from the last edge to the error: p50 %v, p99 %v, maximum %v",
		len(took), at(0.5), at(0.99), at(1))
}

// awaitUptime waits out the hold-off of a server that has just been started.
func awaitUptime(t *testing.T, w *worker) {
	t.Helper()
	e := within(t, w.lock(t, workerCommand{ID: "first", Write: []string{"first"}, Timeout: time.Minute}), time.Minute, "hold-off")
	require.True(t, e.Granted, e.Err)
	within(t, w.release(t, "first"), time.Minute, "release")
}

// party is one caller of a deadlock: it holds outer and then asks for inner.
type party struct {
	w            *worker
	outer, inner workerCommand
	got          <-chan workerEvent
	after        string // the name that somebody must be waiting to write first
}

// isWaitedFor says whether the name's record has a writer's mark.
func isWaitedFor(t *testing.T, server *redistest.Server, prefix, name string) bool {
	t.Helper()
	record := server.Do(t, "GET", "{"+prefix+"}:lock:"+name)
	text, err := record.ToString()
	return err == nil && strings.Contains(text, `"write":true`)
}

// makeDeadlock makes one, checks its end, and returns how long it took from the
// last edge to the victim's error.
func makeDeadlock(t *testing.T, rng *rand.Rand, server *redistest.Server, prefix string, workers []*worker, n int) time.Duration {
	t.Helper()
	parties := deadlockParties(rng, workers, n)
	for _, p := range parties {
		e := within(t, p.w.lock(t, p.outer), 30*time.Second, "outer lock")
		require.True(t, e.Granted, e.Err)
	}
	order := rng.Perm(len(parties))
	if parties[0].after != "" {
		order = []int{1, 0}
	}
	var last time.Time
	for _, i := range order {
		p := parties[i]
		if p.after != "" {
			require.Eventually(t, func() bool { return isWaitedFor(t, server, prefix, p.after) },
				30*time.Second, time.Millisecond, "the writer's mark")
		}
		p.got = p.w.lock(t, p.inner)
		last = time.Now()
		time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond) // poll: not waited for, it varies the order of arrival
	}
	return resolve(t, parties, last)
}

// resolve waits for the victim, lets go of what it held, and then of each that
// gets in.
func resolve(t *testing.T, parties []*party, last time.Time) (took time.Duration) {
	t.Helper()
	victims := 0
	left := len(parties)
	deadline := time.After(30 * time.Second)
	for left > 0 {
		progressed := false
		for _, p := range parties {
			if p.got == nil {
				continue
			}
			select {
			case e := <-p.got:
				p.got = nil
				left--
				progressed = true
				if e.Deadlock {
					victims++
					took = time.Since(last)
				} else {
					require.True(t, e.Granted, e.Err)
					within(t, p.w.release(t, p.inner.ID), 30*time.Second, "release of the inner lock")
				}
				within(t, p.w.release(t, p.outer.ID), 30*time.Second, "release of the outer lock")
			default:
			}
		}
		if progressed {
			continue
		}
		select {
		case <-deadline:
			t.Fatalf("the deadlock did not end: %d of %d still wait, %d victims", left, len(parties), victims)
		case <-time.After(200 * time.Microsecond): // poll: the events of several processes
		}
	}
	require.Equal(t, 1, victims, "victims of one deadlock")
	return took
}

// deadlockParties draws one of the kinds: a ring of writers, two upgrades of one
// name, or a reader behind a waiting writer.
func deadlockParties(rng *rand.Rand, workers []*worker, n int) []*party {
	name := func(i int) string { return fmt.Sprintf("dead-%d-%d", n, i) }
	make1 := func(i int, outer, inner workerCommand) *party {
		outer.ID, inner.ID = fmt.Sprintf("outer-%d-%d", n, i), fmt.Sprintf("inner-%d-%d", n, i)
		inner.Parent = outer.ID
		outer.Timeout, inner.Timeout = time.Minute, time.Minute
		return &party{w: workers[rng.IntN(len(workers))], outer: outer, inner: inner}
	}
	switch rng.IntN(6) {
	case 0: // upgrade against upgrade
		r, w := workerCommand{Read: []string{name(0)}}, workerCommand{Write: []string{name(0)}}
		return []*party{make1(0, r, w), make1(1, r, w)}
	case 1: // one holds read b and waits for read a, which the other, who holds c, waits to write together with b
		reader := make1(0, workerCommand{Read: []string{name(1)}}, workerCommand{Read: []string{name(0)}})
		reader.after = name(0)
		return []*party{
			reader,
			make1(1, workerCommand{Write: []string{name(2)}}, workerCommand{Write: []string{name(0), name(1)}}),
		}
	}
	k := 2 + rng.IntN(4)
	parties := make([]*party, k)
	for i := range parties {
		parties[i] = make1(i, workerCommand{Write: []string{name(i)}}, workerCommand{Write: []string{name((i + 1) % k)}})
	}
	return parties
}

// Heavy traffic of three processes that has no cycle in it: whoever is told of a
// deadlock was told wrongly. TRAFFIC sets another duration.
func TestNoDeadlockIsReportedWhereThereIsNone(t *testing.T) {
	lasts := 5 * time.Second
	if s := os.Getenv("TRAFFIC"); s != "" {
		var err error
		lasts, err = time.ParseDuration(s)
		require.NoError(t, err)
	}
	server := redistest.Start(t)
	prefix := redistest.Prefix(t)
	var ends []<-chan workerEvent
	for i := range 3 {
		w := startWorker(t, server.URL(), prefix)
		id := fmt.Sprint("traffic-", i)
		ends = append(ends, w.expect(id))
		require.NoError(t, w.in.Encode(workerCommand{Do: "traffic", ID: id, Timeout: lasts + 6*time.Second}))
	}
	var calls, wrong int64
	for _, end := range ends {
		e := within(t, end, lasts+2*time.Minute, "traffic")
		require.Empty(t, e.Err)
		calls, wrong = calls+e.Calls, wrong+e.False
	}
	require.Positive(t, calls)
	require.Zero(t, wrong, "false alarms in %d calls", calls)
	t.Logf("%d calls, nested ones not counted, no false alarm", calls)
}
