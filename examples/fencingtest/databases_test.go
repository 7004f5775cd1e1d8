package fencingtest

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

// connections is the pool of one test: enough for its 50 writers at once.
const connections = 60

// database is an empty database of one test.
type database struct {
	*sql.DB
	dialect fencing.Dialect
	schema  string

	// impatient opens the same database so that waiting for a lock soon ends
	// in the database's own error, whose code is waitedTooLong.
	impatient     func() *sql.DB
	waitedTooLong string
}

// onEachDatabase runs the test on PostgreSQL, MariaDB and SQLite.
func onEachDatabase(t *testing.T, test func(t *testing.T, db *database)) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); test(t, newPostgreSQL(t)) })
	t.Run("MariaDB", func(t *testing.T) { t.Parallel(); test(t, newMariaDB(t)) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); test(t, newSQLite(t)) })
}

var databasesMade atomic.Int64

func newName() string { return fmt.Sprintf("test%d", databasesMade.Add(1)) }

func newPostgreSQL(t *testing.T) *database {
	t.Helper()
	require.NoError(t, postgres.err)
	schema := newName()
	_, err := postgres.admin.ExecContext(t.Context(), "CREATE SCHEMA "+schema)
	require.NoError(t, err)
	open := func(more string) *sql.DB { return open(t, "pgx", postgresDSN(postgres.socket, schema)+more) }
	return &database{
		DB: open(""), dialect: fencing.PostgreSQL, schema: schema,
		impatient: func() *sql.DB { return open(" lock_timeout=300") }, waitedTooLong: "55P03",
	}
}

func newMariaDB(t *testing.T) *database {
	t.Helper()
	require.NoError(t, mariadb.err)
	name := newName()
	_, err := mariadb.admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	open := func(more string) *sql.DB { return open(t, "mysql", mariadbDSN(mariadb.socket, name)+more) }
	return &database{
		DB: open(""), dialect: fencing.MySQL, schema: name,
		impatient: func() *sql.DB { return open("?innodb_lock_wait_timeout=1") }, waitedTooLong: "1205",
	}
}

func newSQLite(t *testing.T) *database {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.db")
	open := func(busyMillis int) *sql.DB {
		pragmas := url.Values{"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyMillis), "journal_mode(WAL)", "synchronous(OFF)",
		}}
		return open(t, "sqlite", "file:"+file+"?"+pragmas.Encode())
	}
	return &database{
		DB: open(60_000), dialect: fencing.SQLite, schema: "main",
		impatient: func() *sql.DB { return open(300) }, waitedTooLong: "5",
	}
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	require.NoError(t, err)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func postgresDSN(dir, schema string) string {
	return fmt.Sprintf("host=%s user=postgres dbname=postgres search_path=%s", dir, schema)
}

func mariadbDSN(socket, name string) string { return fmt.Sprintf("root@unix(%s)/%s", socket, name) }

// sql returns the query with the dialect's placeholders in place of ?.
func (db *database) sql(query string) string {
	if db.dialect != fencing.PostgreSQL {
		return query
	}
	parts := strings.Split(query, "?")
	for i := range parts[1:] {
		parts[i] += "$" + strconv.Itoa(i+1)
	}
	return strings.Join(parts, "")
}

// exec runs a statement outside any transaction of the test.
func (db *database) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), db.sql(query), args...)
	require.NoError(t, err)
}

// number returns the one integer that a query yields.
func (db *database) number(t *testing.T, query string, args ...any) (n int64) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), db.sql(query), args...).Scan(&n))
	return n
}

// guard returns a guard whose table exists.
func (db *database) guard(t *testing.T) *fencing.Guard {
	t.Helper()
	g, err := fencing.New(db.dialect)
	require.NoError(t, err)
	require.NoError(t, g.CreateTable(t.Context(), db))
	return g
}

// highest returns what the guard's table holds for resource.
func (db *database) highest(t *testing.T, resource string) int64 {
	t.Helper()
	return db.number(t, "SELECT highest_token FROM lock_fence WHERE resource = ?", resource)
}

// code returns the error code of the database's own error in err's chain.
func code(err error) string {
	var p *pgconn.PgError
	var m *mysql.MySQLError
	var s *sqlite.Error
	switch {
	case errors.As(err, &p):
		return p.Code
	case errors.As(err, &m):
		return strconv.Itoa(int(m.Number))
	case errors.As(err, &s):
		return strconv.Itoa(s.Code() & 0xff) // without the extension
	default:
		return ""
	}
}
