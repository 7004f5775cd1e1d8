package fencingtest

import (
	"database/sql"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

// write is what a holder does: one transaction with the check first and then
// the write. A nil guard is the control: the same without the check.
func (db *database) write(t *testing.T, g *fencing.Guard, resource string, token int64, do func(tx *sql.Tx) error) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if g != nil {
		if err := g.Check(t.Context(), tx, resource, token); err != nil {
			return err
		}
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// check is a write that writes nothing.
func (db *database) check(t *testing.T, g *fencing.Guard, resource string, token int64) error {
	t.Helper()
	return db.write(t, g, resource, token, func(*sql.Tx) error { return nil })
}

func requireStale(t *testing.T, err error, resource string, token, highest int64) {
	t.Helper()
	require.ErrorIs(t, err, fencing.ErrStaleToken)
	var stale *fencing.StaleTokenError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fencing.StaleTokenError{Resource: resource, Token: token, Highest: highest}, *stale)
}

func TestOlderTokenIsRefusedEqualAndNewerPass(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		require.NoError(t, db.check(t, g, "job", 5), "the first use creates the row")
		require.Equal(t, int64(5), db.highest(t, "job"))
		require.NoError(t, db.check(t, g, "job", 5), "one holder writes many times")
		require.NoError(t, db.check(t, g, "job", 9))
		requireStale(t, db.check(t, g, "job", 8), "job", 8, 9)
		require.NoError(t, db.check(t, g, "job", 9))
		require.Equal(t, int64(9), db.highest(t, "job"))
		require.NoError(t, db.check(t, g, "other", 1), "another resource has its own")
	})
}

func TestEqualTokenPassesTwiceInOneTransaction(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		for range 2 { // the row is new, then old
			require.NoError(t, db.write(t, g, "job", 5, func(tx *sql.Tx) error {
				return g.Check(t.Context(), tx, "job", 5)
			}))
		}
		require.Equal(t, int64(5), db.highest(t, "job"))
	})
}

func TestRollbackLeavesTheHighestUnchanged(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		abandon := func(token int64) {
			tx, err := db.BeginTx(t.Context(), nil)
			require.NoError(t, err)
			require.NoError(t, g.Check(t.Context(), tx, "job", token))
			require.NoError(t, tx.Rollback())
		}
		abandon(9)
		require.Zero(t, db.number(t, "SELECT COUNT(*) FROM lock_fence"))
		require.NoError(t, db.check(t, g, "job", 5))
		abandon(9)
		require.Equal(t, int64(5), db.highest(t, "job"))
		require.NoError(t, db.check(t, g, "job", 6))
	})
}

// A refused holder that commits nevertheless changes nothing at the fence.
func TestRefusalLeavesTheHighestUnchanged(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		require.NoError(t, db.check(t, g, "job", 9))
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		requireStale(t, g.Check(t.Context(), tx, "job", 8), "job", 8, 9)
		require.NoError(t, tx.Commit())
		require.Equal(t, int64(9), db.highest(t, "job"))
	})
}

// A collation that takes two of these for one would refuse the writers of one
// because of the other.
func TestResourcesThatOnlyLookAlikeHaveFencesOfTheirOwn(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		alike := []string{"job", "Job", "job ", " job", "job\t", "jöb", "jo\u0308b", "jób", "ｊob", "j\u200bob", "straße", "strasse", "%", "_", "j_b", "1", "01", "1.0", "日本", "🔒"}
		for i, resource := range alike {
			require.NoError(t, db.check(t, g, resource, int64(len(alike)-i)), "%q", resource)
		}
		require.Equal(t, int64(len(alike)), db.number(t, "SELECT COUNT(*) FROM lock_fence"))
		for i, resource := range alike {
			require.Equal(t, int64(len(alike)-i), db.highest(t, resource), "%q", resource)
		}
	})
}

func TestLargestResourceAndTokenFit(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		ascii, wide := strings.Repeat("x", 512), strings.Repeat("🔒", 128)
		for _, resource := range []string{ascii, ascii[:511], wide} {
			require.NoError(t, db.check(t, g, resource, math.MaxInt64-1))
			require.NoError(t, db.check(t, g, resource, math.MaxInt64))
			requireStale(t, db.check(t, g, resource, math.MaxInt64-1), resource, math.MaxInt64-1, math.MaxInt64)
		}
		require.Equal(t, int64(3), db.number(t, "SELECT COUNT(*) FROM lock_fence"))
	})
}

// Every instance of a program creates the table when it starts.
func TestCreateTableByManyAtOnce(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g, err := fencing.New(db.dialect)
		require.NoError(t, err)
		errs := make([]error, 12)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = g.CreateTable(t.Context(), db) })
		}
		all.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		require.NoError(t, db.check(t, g, "job", 7))
		require.NoError(t, g.CreateTable(t.Context(), db), "and later again")
		require.Equal(t, int64(7), db.highest(t, "job"), "without touching what is in it")
	})
}

func TestTableOfAnotherNameAndReservedWord(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		for _, name := range []string{"Billing_Fence2", db.schema + ".fence"} {
			g, err := fencing.New(db.dialect, fencing.WithTable(name))
			require.NoError(t, err)
			require.NoError(t, g.CreateTable(t.Context(), db))
			require.NoError(t, db.check(t, g, "job", 2))
			requireStale(t, db.check(t, g, "job", 1), "job", 1, 2)
			require.Equal(t, int64(1), db.number(t, "SELECT COUNT(*) FROM "+name))
		}
		g, err := fencing.New(db.dialect, fencing.WithTable("order"))
		require.NoError(t, err)
		require.NotEmpty(t, code(g.CreateTable(t.Context(), db)), "the database refuses it")
	})
}

func TestMissingTableIsNoRefusal(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g, err := fencing.New(db.dialect)
		require.NoError(t, err)
		err = db.check(t, g, "job", 1)
		require.ErrorContains(t, err, "lock_fence")
		require.NotEmpty(t, code(err))
		require.NotErrorIs(t, err, fencing.ErrStaleToken)
	})
}
