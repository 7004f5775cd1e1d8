package fencingtest

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

// requireOneFailed wants one success and one error of the database, which is no
// refusal, and whose code the caller can find.
func requireOneFailed(t *testing.T, wantCode string, errs ...error) {
	t.Helper()
	var failed []error
	for _, err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	require.Len(t, failed, 1)
	require.Equal(t, wantCode, code(failed[0]), "%v", failed[0])
	require.NotErrorIs(t, failed[0], fencing.ErrStaleToken)
}

// Two transactions check two resources in opposite orders.
func crossChecks(t *testing.T, db *database) []error {
	t.Helper()
	g := db.guard(t)
	first, second := []string{"a", "b"}, []string{"b", "a"}
	bothHaveOne := make(chan struct{}, 2)
	proceed := make(chan struct{})
	go func() {
		<-bothHaveOne
		<-bothHaveOne
		close(proceed)
	}()
	return atOnce(2, func(i int) error {
		order := [][]string{first, second}[i]
		return db.write(t, g, order[0], 7, func(tx *sql.Tx) error {
			bothHaveOne <- struct{}{}
			<-proceed
			return g.Check(t.Context(), tx, order[1], 7)
		})
	})
}

// SQLite has one writer at a time, so it has no deadlock to find.
func TestDeadlockOfTwoResourcesIsPassedOn(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		requireOneFailed(t, "40P01", crossChecks(t, newPostgreSQL(t))...)
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		requireOneFailed(t, "1213", crossChecks(t, newMariaDB(t))...)
	})
}

// readThenCheck reads in a transaction, lets another holder check and write,
// and then checks in that transaction with a newer token. It returns the error
// and what the transaction sees after it.
func readThenCheck(t *testing.T, db *database) (err error, sees int64) {
	t.Helper()
	db.account(t)
	g := db.guard(t)
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback()) }()
	look := func() (balance int64) {
		require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT balance FROM account WHERE id = 1").Scan(&balance))
		return balance
	}
	require.Equal(t, int64(100), look())

	other := &holder{db: db, guard: g, token: 7}
	require.NoError(t, other.readChecked(t))
	require.NoError(t, other.add(t, 10))
	if err := g.Check(t.Context(), tx, "account-1", 8); err != nil {
		return err, 0
	}
	return nil, look()
}

// Check comes first in its transaction, because of what happens otherwise.
func TestReadBeforeTheCheckUnderRepeatableRead(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL reports it", func(t *testing.T) {
		t.Parallel()
		err, _ := readThenCheck(t, newPostgreSQL(t))
		requireOneFailed(t, "40001", err)
	})
	t.Run("MariaDB goes on with the old data", func(t *testing.T) {
		t.Parallel()
		err, sees := readThenCheck(t, newMariaDB(t))
		require.NoError(t, err)
		require.Equal(t, int64(100), sees)
	})
}

// Under the default isolation of MySQL, REPEATABLE READ, a check that had to
// wait still judges by the newest token, and what is read after it is new too.
func TestCheckFirstSeesWhatItWaitedFor(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		db.account(t)
		g := db.guard(t)
		require.NoError(t, db.check(t, g, "account-1", 1))

		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, g.Check(t.Context(), tx, "account-1", 5))
		h := &holder{db: db}
		require.NoError(t, h.store(t, tx, 110))

		// The older one and the newer one start while the row is locked.
		var sees int64
		var stale, newer error
		began, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			close(began)
			stale = db.check(t, g, "account-1", 4)
			newer = db.write(t, g, "account-1", 6, func(tx *sql.Tx) error {
				return tx.QueryRowContext(t.Context(), "SELECT balance FROM account WHERE id = 1").Scan(&sees)
			})
		}()
		<-began
		require.NoError(t, tx.Commit())
		<-done
		requireStale(t, stale, "account-1", 4, 5)
		require.NoError(t, newer)
		require.Equal(t, int64(110), sees)
	})
}

// An older holder whose transaction began before the newer one's check: what it
// sees is old, its check must not be.
func TestStaleTokenIsRefusedFromAnOldSnapshot(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, db *database) error {
		g := db.guard(t)
		require.NoError(t, db.check(t, g, "job", 1))
		tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback()) }()
		var n int
		require.NoError(t, tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM lock_fence").Scan(&n))
		require.NoError(t, db.check(t, g, "job", 9))
		return g.Check(t.Context(), tx, "job", 8)
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		requireOneFailed(t, "40001", check(t, newPostgreSQL(t)))
	})
	t.Run("MariaDB", func(t *testing.T) {
		t.Parallel()
		requireStale(t, check(t, newMariaDB(t)), "job", 8, 9)
	})
}
