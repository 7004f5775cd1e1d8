package fencingtest

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

const writers = 50

// atOnce runs n functions, which start together, and returns their errors.
func atOnce(n int, do func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			errs[i] = do(i)
		})
	}
	close(start)
	all.Wait()
	return errs
}

// ledger makes a table of payments without a unique constraint, so that only
// the guard stands against a double entry.
func (db *database) ledger(t *testing.T) {
	t.Helper()
	db.exec(t, "CREATE TABLE entry (seq INTEGER NOT NULL, account INTEGER NOT NULL, token BIGINT NOT NULL)")
}

// pay books one account. The sequence number is read and written under the
// fence's row lock alone: two writers at once would take the same.
func (db *database) pay(t *testing.T, g *fencing.Guard, account int, token int64) error {
	return db.write(t, g, "interest", token, func(tx *sql.Tx) error {
		var seq int64
		if err := tx.QueryRowContext(t.Context(), "SELECT COALESCE(MAX(seq), 0) + 1 FROM entry").Scan(&seq); err != nil {
			return err
		}
		_, err := tx.ExecContext(t.Context(), db.sql("INSERT INTO entry VALUES (?, ?, ?)"), seq, account, token)
		return err
	})
}

// The old holder has its list of unpaid accounts and is paused. The new one
// pays all of them, 50 at once, and the old one wakes up amid.
func TestFiftyWritersAndAStaleOneMakeNoDoubleEntry(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		const oldToken, newToken = 41, 42
		g := db.guard(t)
		db.ledger(t)
		require.NoError(t, db.check(t, g, "interest", oldToken), "the old holder read its list")
		require.NoError(t, db.check(t, g, "interest", newToken), "the new holder read its list")

		errs := atOnce(2*writers, func(i int) error {
			if i%2 == 0 {
				return db.pay(t, g, i/2, newToken)
			}
			return db.pay(t, g, i/2, oldToken)
		})
		for i, err := range errs {
			if i%2 == 0 {
				require.NoError(t, err, "no false refusal")
			} else {
				requireStale(t, err, "interest", oldToken, newToken)
			}
		}
		requireEachPaidOnce(t, db, newToken)
	})
}

func requireEachPaidOnce(t *testing.T, db *database, token int64) {
	t.Helper()
	require.Equal(t, int64(writers), db.number(t, "SELECT COUNT(*) FROM entry WHERE token = ?", token))
	require.Equal(t, int64(writers), db.number(t, "SELECT COUNT(*) FROM entry"))
	require.Equal(t, int64(writers), db.number(t, "SELECT COUNT(DISTINCT account) FROM entry"))
	require.Equal(t, int64(writers), db.number(t, "SELECT MAX(seq) FROM entry"), "the writers went one after the other")
}

// The control: the same two holders without the guard pay everything twice.
func TestWithoutTheGuardAStaleWriterMakesDoubleEntries(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		db.ledger(t)
		for _, token := range []int64{42, 41} { // the stale one wakes up after
			for account := range writers {
				require.NoError(t, db.pay(t, nil, account, token))
			}
		}
		require.Equal(t, int64(2*writers), db.number(t, "SELECT COUNT(*) FROM entry"))
		require.Equal(t, int64(writers), db.number(t, "SELECT COUNT(DISTINCT account) FROM entry"))
	})
}

func TestConcurrentFirstUseOfOneResource(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		for round := range 5 {
			resource := fmt.Sprint("job ", round)
			for _, err := range atOnce(writers, func(int) error { return db.check(t, g, resource, 7) }) {
				require.NoError(t, err)
			}
			require.Equal(t, int64(7), db.highest(t, resource))
		}
		require.Equal(t, int64(5), db.number(t, "SELECT COUNT(*) FROM lock_fence"))
	})
}

func TestConcurrentFirstUseOfManyResources(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		for _, err := range atOnce(writers, func(i int) error { return db.check(t, g, fmt.Sprint("job ", i), 7) }) {
			require.NoError(t, err)
		}
		require.Equal(t, int64(writers), db.number(t, "SELECT COUNT(*) FROM lock_fence"))
	})
}

// A first use that rolls back takes its row with it, while others wait for it.
// A database may resolve that by a deadlock error (InnoDB does); the caller
// tries again, and nobody sees a refusal or a duplicate key.
func TestConcurrentFirstUseWhileSomeRollBack(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		abandoned := errors.New("abandoned")
		errs := atOnce(writers, func(i int) error {
			for {
				err := db.write(t, g, "job", 7, func(*sql.Tx) error {
					if i%2 == 0 {
						return abandoned
					}
					return nil
				})
				if c := code(err); c != "1213" { // InnoDB's deadlock
					return err
				}
			}
		})
		for i, err := range errs {
			if i%2 == 0 {
				require.ErrorIs(t, err, abandoned)
			} else {
				require.NoError(t, err)
			}
		}
		require.Equal(t, int64(7), db.highest(t, "job"))
	})
}

// 50 holders with 50 tokens at once, on a resource that is new. Which of them
// pass is chance, but in the order of the commits tokens never fall, each
// refusal has a reason, and the newest holder always passes.
func TestWritersOfFiftyTokensCommitInTheOrderOfTheirTokens(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		db.ledger(t)
		errs := atOnce(writers, func(i int) error { return db.pay(t, g, i, int64(i+1)) })

		passed := 0
		for i, err := range errs {
			if err == nil {
				passed++
				continue
			}
			var stale *fencing.StaleTokenError
			require.ErrorAs(t, err, &stale)
			require.Greater(t, stale.Highest, int64(i+1))
			require.NoError(t, errs[stale.Highest-1], "refused because of a token that had passed")
		}
		require.NoError(t, errs[writers-1])
		require.Equal(t, int64(writers), db.highest(t, "interest"))
		require.Equal(t, int64(passed), db.number(t, "SELECT COUNT(*) FROM entry"))
		require.Zero(t, db.number(t,
			"SELECT COUNT(*) FROM entry a JOIN entry b ON a.seq <= b.seq AND a.token > b.token"))
	})
}

// The older holder has checked, and hasn't written yet. The newer one must not
// get past its check before that write is in, or is given up.
func TestRowIsLockedUntilTheTransactionEnds(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		impatient := *db
		impatient.DB = db.impatient()
		for _, older := range []int64{1, 3, 3} { // new row, raised row, equal token
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, g.Check(t.Context(), tx, "job", older))

			err = impatient.check(t, g, "job", older+1)
			require.Equal(t, db.waitedTooLong, code(err), "%v", err)
			require.NotErrorIs(t, err, fencing.ErrStaleToken)
			require.NoError(t, tx.Commit())
		}
		require.NoError(t, impatient.check(t, g, "job", 4))
	})
}
