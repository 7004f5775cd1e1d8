package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const wantStory = `On an embedded miniredis (set REDIS_URL for a real one).
00:05. Interest is due for 2026-03-14.
A holds the lock, token OLD, and reads what is due: 3 accounts.
A freezes, before it has paid anybody. Its lease ends.
B holds the lock, token NEW, and reads what is due: 3 accounts.
  B pays account 1: 13.15
  B pays account 2: 55.61
  B pays account 3: 0.99
A wakes up, and goes on with its list.
  A pays account 1: refused: fencing: stale token: OLD is older than NEW, the highest seen for "nightly-interest"
The last line of defence, where no token helps:
  B pays account 1 again: interest already paid: account 1 on 2026-03-14: constraint failed: UNIQUE constraint failed: interest_entry.account_id, interest_entry.business_day (2067)
  A write without the guard: interest already paid: account 1 on 2026-03-14: constraint failed: UNIQUE constraint failed: interest_entry.account_id, interest_entry.business_day (2067)
A's run ends with two errors: the refusal, and the loss of its lock.
The ledger for 2026-03-14: 3 entries for 3 accounts, all with token NEW, 69.75 in all.
`

func TestStory(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, redisenv.Tell(t.Context(), &out, tellIn))
	require.Equal(t, wantStory, mask(out.String()))
}

// mask puts names in the place of the two tokens, which are new in each run, and of
// what is said of the server.
func mask(story string) string {
	server, rest, _ := strings.Cut(story, "\n")
	if strings.Contains(server, "REDIS_URL") {
		server, _, _ = strings.Cut(wantStory, "\n")
	}
	tokens := regexp.MustCompile(`token (\d+)`).FindAllStringSubmatch(rest, 2)
	if len(tokens) == 2 && len(tokens[0][1]) == len(tokens[1][1]) && tokens[0][1] < tokens[1][1] {
		rest = strings.NewReplacer(tokens[0][1], "OLD", tokens[1][1], "NEW").Replace(rest)
	}
	return server + "\n" + rest
}

// newLedger returns a ledger with two accounts.
func newLedger(t *testing.T) *ledger {
	t.Helper()
	l, err := openLedger(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.close()) })
	_, err = l.db.ExecContext(t.Context(), "INSERT INTO account VALUES (1, 365000, 10000), (2, 730000, 10000)")
	require.NoError(t, err)
	return l
}

func TestPaidAccountsAreNoLongerDue(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	dues, err := l.due(t.Context(), "2026-03-14", 1)
	require.NoError(t, err)
	require.Equal(t, []interestDue{{1, 1000}, {2, 2000}}, dues)

	require.NoError(t, l.pay(t.Context(), dues[0], "2026-03-14", 1))
	dues, err = l.due(t.Context(), "2026-03-14", 1)
	require.NoError(t, err)
	require.Equal(t, []interestDue{{2, 2000}}, dues)

	dues, err = l.due(t.Context(), "2026-03-15", 1)
	require.NoError(t, err)
	require.Len(t, dues, 2, "another day")
}

// The new holder has only read its list so far, and already the old one cannot
// pay from under it.
func TestReadingTheListFencesTheOldHolderOff(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	dues, err := l.due(t.Context(), "2026-03-14", 1)
	require.NoError(t, err)
	_, err = l.due(t.Context(), "2026-03-14", 2)
	require.NoError(t, err)
	require.ErrorIs(t, l.pay(t.Context(), dues[0], "2026-03-14", 1), fencing.ErrStaleToken)
	_, err = l.due(t.Context(), "2026-03-14", 1)
	require.ErrorIs(t, err, fencing.ErrStaleToken)
}

// A payment that the constraint refuses rolls the raised token back with it.
func TestRefusedPaymentLeavesTheFenceUnchanged(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	due := interestDue{account: 1, amount: 1000}
	require.NoError(t, l.pay(t.Context(), due, "2026-03-14", 1))
	require.ErrorIs(t, l.pay(t.Context(), due, "2026-03-14", 9), errAlreadyPaid)
	require.NoError(t, l.pay(t.Context(), due, "2026-03-15", 2))
}

func TestLedgerOpensAgainWithWhatItHas(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ledger.db")
	for token := range int64(3) {
		l, err := openLedger(t.Context(), file)
		require.NoError(t, err)
		_, err = l.due(t.Context(), "2026-03-14", token+1)
		require.NoError(t, err)
		if token > 0 {
			_, err = l.due(t.Context(), "2026-03-14", token)
			require.ErrorIs(t, err, fencing.ErrStaleToken)
		}
		require.NoError(t, l.close())
	}
}

func TestBusinessDayIsTheBanksYesterday(t *testing.T) {
	t.Parallel()
	bank, err := time.LoadLocation("Europe/Istanbul")
	require.NoError(t, err)
	for now, want := range map[string]string{
		"2026-03-14T21:05:00Z": "2026-03-14", // 00:05 of the 15th in Istanbul
		"2026-03-14T20:59:00Z": "2026-03-13", // still the 14th there
		"2025-12-31T21:05:00Z": "2025-12-31",
	} {
		at, err := time.Parse(time.RFC3339, now)
		require.NoError(t, err)
		require.Equal(t, want, businessDayBefore(at, bank), now)
	}
}
