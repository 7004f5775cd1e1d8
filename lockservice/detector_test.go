package lockservice

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/lane"
	"github.com/redislockservice/redislockservice/internal/lockrules"
)

// A reader waits for those who wait to write, and came first, until they have had
// the lock. Those who came later it goes past as soon as it starves: nobody has to die
// for that. What the rules say of equals holds here, too: the reader goes first.
func TestReaderTellsWhetherItGoesPastTheWritersInItsWay(t *testing.T) {
	const since = lockrules.Instant(5_000_900)
	blocked := func(name string, reason lockrules.Reason, came lockrules.Millis) lockrules.Blocker {
		return lockrules.Blocker{Name: name, Reason: reason, Mode: lockrules.Write, Since: came}
	}
	cases := map[string]struct {
		blockers []lockrules.Blocker
		past     bool
	}{
		"a writer that came first":           {[]lockrules.Blocker{blocked("n", lockrules.WriterWaits, 4_999)}, false},
		"one that came at the same time":     {[]lockrules.Blocker{blocked("n", lockrules.WriterWaits, 5_000)}, true},
		"one that came later":                {[]lockrules.Blocker{blocked("n", lockrules.WriterWaits, 5_001)}, true},
		"one of each":                        {[]lockrules.Blocker{blocked("n", lockrules.WriterWaits, 5_001), blocked("n", lockrules.WriterWaits, 4_000)}, false},
		"one that came first, for another":   {[]lockrules.Blocker{blocked("m", lockrules.WriterWaits, 4_000)}, true},
		"a holder only, whatever comes next": {[]lockrules.Blocker{blocked("n", lockrules.Held, 4_000)}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := lane.Waiting{Since: since, Blockers: c.blockers,
				Wants: []lockrules.Want{{Name: "n", Mode: lockrules.Read}, {Name: "m", Mode: lockrules.Write}}}
			told := (&waitTag{site: &callStack{}}).waiter(w)
			require.Equal(t, c.past, told.Wants[0].Past)
			require.False(t, told.Wants[1].Past, "who wants to write goes past nobody")
		})
	}
}
