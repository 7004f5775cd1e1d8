package fencing

import (
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var allDialects = []Dialect{PostgreSQL, MySQL, SQLite}

func newGuard(t *testing.T, d Dialect, opts ...Option) *Guard {
	t.Helper()
	g, err := New(d, opts...)
	require.NoError(t, err)
	return g
}

func TestUnknownDialectIsRefused(t *testing.T) {
	t.Parallel()
	for _, d := range []Dialect{0, -1, SQLite + 1} {
		g, err := New(d)
		require.ErrorIs(t, err, ErrInvalidArgument)
		require.ErrorContains(t, err, d.String())
		require.Nil(t, g)
	}
}

func TestDialectsHaveNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "PostgreSQL MySQL SQLite Dialect(9)",
		strings.Join([]string{PostgreSQL.String(), MySQL.String(), SQLite.String(), Dialect(9).String()}, " "))
}

func TestTableNameThatNeedsQuotingIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", " ", "lock fence", "lock-fence", "1fence", `"fence"`, "`fence`", "fence;", "fence--", "x(y)",
		"a.b.c", ".fence", "schema.", "schema..fence", "fençe", "fence\x00", "fence\n", "{table}", "ſence",
		strings.Repeat("a", maxTablePart+1), "s." + strings.Repeat("a", maxTablePart+1),
		"x; DROP TABLE account",
	} {
		g, err := New(SQLite, WithTable(name))
		require.ErrorIs(t, err, ErrInvalidArgument, "%q", name)
		require.Nil(t, g)
	}
}

func TestPlainTableNameStandsInEveryStatement(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"f", "_f", "Lock_Fence2", "billing.lock_fence", strings.Repeat("a", maxTablePart)} {
		for _, d := range allDialects {
			s := newGuard(t, d, WithTable(name)).sql
			require.Contains(t, s.create, "EXISTS "+name+" (")
			require.Contains(t, s.raise, "INTO "+name+" ")
			require.NotContains(t, s.create+s.raise+s.read, "{")
		}
	}
}

func TestDefaultTable(t *testing.T) {
	t.Parallel()
	for _, d := range allDialects {
		require.Contains(t, newGuard(t, d).DDL(), "CREATE TABLE IF NOT EXISTS lock_fence (")
	}
}

// The byte comparison of resources is in the DDL alone: a change there is a
// change of the rule.
func TestResourcesCompareAsBytesInTheDDL(t *testing.T) {
	t.Parallel()
	require.Contains(t, newGuard(t, PostgreSQL).DDL(), `VARCHAR(512) COLLATE "C"`)
	require.Contains(t, newGuard(t, MySQL).DDL(), "VARBINARY(512)")
	require.Contains(t, newGuard(t, MySQL).DDL(), "ENGINE=InnoDB")
	require.NotContains(t, newGuard(t, SQLite).DDL(), "COLLATE")
}

// checkAnswers are the answers to one Check that finds highest in the row.
func checkAnswers(d Dialect, highest int64) []fakeAnswer {
	if d == MySQL {
		return []fakeAnswer{{}, {value: highest}}
	}
	return []fakeAnswer{{value: highest}}
}

func TestInvalidArgumentsNeverTouchTheDatabase(t *testing.T) {
	t.Parallel()
	calls := []struct {
		resource string
		token    int64
		says     string
	}{
		{"", 1, "empty"},
		{strings.Repeat("x", maxResource+1), 1, "513 bytes"},
		{"a\xffb", 1, "UTF-8"},
		{"a\x00b", 1, "NUL"},
		{"job", 0, "token 0"},
		{"job", -1, "token -1"},
		{"job", math.MinInt64, "not positive"},
	}
	for _, d := range allDialects {
		db, fake := openFake(t)
		for _, c := range calls {
			err := newGuard(t, d).Check(t.Context(), db, c.resource, c.token)
			require.ErrorIs(t, err, ErrInvalidArgument)
			require.NotErrorIs(t, err, ErrStaleToken)
			require.ErrorContains(t, err, c.says)
			require.Less(t, len(err.Error()), 200, "the resource is not repeated at full length")
		}
		require.Empty(t, fake.seen())
	}
}

func TestUnusableGuardOrDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	db, fake := openFake(t)
	for _, g := range []*Guard{nil, {}} {
		require.ErrorIs(t, g.Check(t.Context(), db, "job", 1), ErrInvalidArgument)
		require.ErrorIs(t, g.CreateTable(t.Context(), db), ErrInvalidArgument)
	}
	g := newGuard(t, SQLite)
	require.ErrorIs(t, g.Check(t.Context(), nil, "job", 1), ErrInvalidArgument)
	require.ErrorIs(t, g.CreateTable(t.Context(), nil), ErrInvalidArgument)
	require.Empty(t, fake.seen())
}

func TestLargestArgumentsPass(t *testing.T) {
	t.Parallel()
	for _, d := range allDialects {
		db, _ := openFake(t, checkAnswers(d, math.MaxInt64)...)
		resource := strings.Repeat("ü", maxResource/2)
		require.NoError(t, newGuard(t, d).Check(t.Context(), db, resource, math.MaxInt64))
	}
}

func TestStaleTokenNamesResourceTokenAndHighest(t *testing.T) {
	t.Parallel()
	for _, d := range allDialects {
		db, _ := openFake(t, checkAnswers(d, 8)...)
		err := newGuard(t, d).Check(t.Context(), db, "nightly-interest", 7)

		require.ErrorIs(t, err, ErrStaleToken)
		var stale *StaleTokenError
		require.ErrorAs(t, err, &stale)
		require.Equal(t, StaleTokenError{Resource: "nightly-interest", Token: 7, Highest: 8}, *stale)
		require.EqualError(t, err, `fencing: stale token: 7 is older than 8, the highest seen for "nightly-interest"`)
	}
}

func TestEqualTokenPasses(t *testing.T) {
	t.Parallel()
	for _, d := range allDialects {
		db, _ := openFake(t, checkAnswers(d, 7)...)
		require.NoError(t, newGuard(t, d).Check(t.Context(), db, "job", 7))
	}
}

// One statement where the dialect allows, and the values as arguments, never in
// the text.
func TestStatementsOfOneCheck(t *testing.T) {
	t.Parallel()
	for _, d := range allDialects {
		db, fake := openFake(t, checkAnswers(d, 7)...)
		g := newGuard(t, d)
		require.NoError(t, g.Check(t.Context(), db, "job'; --", 7))

		want := []fakeCall{{g.sql.raise, []any{"job'; --", int64(7)}}}
		if d == MySQL {
			want = []fakeCall{{g.sql.raise, []any{"job'; --", int64(7), int64(7)}}, {g.sql.read, []any{"job'; --"}}}
		}
		require.Equal(t, want, fake.seen())
	}
}

func TestCheckWorksOnTxAndConn(t *testing.T) {
	t.Parallel()
	db, _ := openFake(t, fakeAnswer{value: int64(1)}, fakeAnswer{value: int64(1)})
	g := newGuard(t, SQLite)

	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, g.Check(t.Context(), tx, "job", 1))
	require.NoError(t, tx.Commit())

	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	require.NoError(t, g.Check(t.Context(), conn, "job", 1))
	require.NoError(t, conn.Close())
}

// A failure of the database is neither a pass nor a refusal.
func TestDatabaseErrorIsWrappedAndIsNoRefusal(t *testing.T) {
	t.Parallel()
	deadlock := errors.New("deadlock found")
	for _, d := range allDialects {
		for failing := range checkAnswers(d, 1) {
			answers := checkAnswers(d, 1)
			answers[failing] = fakeAnswer{err: deadlock}
			db, _ := openFake(t, answers...)
			err := newGuard(t, d).Check(t.Context(), db, "job", 1)
			require.ErrorIs(t, err, deadlock)
			require.NotErrorIs(t, err, ErrStaleToken)
			require.ErrorContains(t, err, `"job"`)
		}
	}
}

// A trigger or a row-level policy may swallow the row: then nothing is known,
// and nothing passes.
func TestMissingRowDoesNotPass(t *testing.T) {
	t.Parallel()
	for _, d := range allDialects {
		answers := checkAnswers(d, 1)
		answers[len(answers)-1] = fakeAnswer{}
		db, _ := openFake(t, answers...)
		require.ErrorIs(t, newGuard(t, d).Check(t.Context(), db, "job", 1), sql.ErrNoRows)
	}
}

func TestCreateTableSurvivesACollisionInTheCatalogue(t *testing.T) {
	t.Parallel()
	db, fake := openFake(t, fakeAnswer{err: errors.New("duplicate key in pg_type")}, fakeAnswer{})
	g := newGuard(t, PostgreSQL)
	require.NoError(t, g.CreateTable(t.Context(), db))
	require.Equal(t, []fakeCall{{query: g.DDL()}, {query: g.DDL()}}, fake.seen())
}

func TestCreateTableReportsItsFirstError(t *testing.T) {
	t.Parallel()
	denied := errors.New("permission denied")
	db, _ := openFake(t, fakeAnswer{err: denied}, fakeAnswer{err: errors.New("transaction is aborted")})
	require.ErrorIs(t, newGuard(t, PostgreSQL).CreateTable(t.Context(), db), denied)
}
