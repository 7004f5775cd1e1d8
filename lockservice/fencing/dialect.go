package fencing

import (
	"fmt"
	"strings"
)

// Dialect says in which SQL a [Guard] speaks to its database.
type Dialect int

const (
	// PostgreSQL is PostgreSQL 9.5 or newer, with any driver that takes $1.
	PostgreSQL Dialect = iota + 1

	// MySQL is MySQL 5.7 or newer, and MariaDB, with InnoDB.
	MySQL

	// SQLite is SQLite 3.35 or newer.
	SQLite
)

// String returns the name of the dialect.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	default:
		return fmt.Sprintf("Dialect(%d)", int(d))
	}
}

// statements are the texts of one dialect for one table.
type statements struct {
	// create makes the table unless it exists.
	create string

	// raise stores the larger of the row's token and the given one, creating
	// the row if need be, and keeps the row locked until the transaction ends.
	raise string

	// read returns the row's token after raise. It is empty if raise returns
	// the token by itself.
	read string
}

// statementsFor returns the texts for d, with table in place of {table}.
func statementsFor(d Dialect, table string) (statements, error) {
	var s statements
	switch d {
	case PostgreSQL:
		s = postgreSQL
	case MySQL:
		s = mySQL
	case SQLite:
		s = sqlite
	default:
		return s, invalid(fmt.Sprintf("unknown dialect %v", d))
	}
	s.create = strings.ReplaceAll(s.create, "{table}", table)
	s.raise = strings.ReplaceAll(s.raise, "{table}", table)
	s.read = strings.ReplaceAll(s.read, "{table}", table)
	return s, nil
}

// The obvious statement ends in WHERE highest_token <= ours, and returns no row
// when stale. The highest token then has to be read by a second statement. The
// larger of both, returned, answers both questions in one.
var postgreSQL = statements{
	create: `CREATE TABLE IF NOT EXISTS {table} (
	resource      VARCHAR(512) COLLATE "C" NOT NULL PRIMARY KEY,
	highest_token BIGINT NOT NULL
)`,
	raise: `INSERT INTO {table} AS fence (resource, highest_token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET highest_token = GREATEST(fence.highest_token, excluded.highest_token)
RETURNING highest_token`,
}

var sqlite = statements{
	create: `CREATE TABLE IF NOT EXISTS {table} (
	resource      VARCHAR(512) NOT NULL PRIMARY KEY,
	highest_token BIGINT NOT NULL
)`,
	raise: `INSERT INTO {table} AS fence (resource, highest_token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET highest_token = MAX(fence.highest_token, excluded.highest_token)
RETURNING highest_token`,
}

// Two ways not taken on MySQL. SELECT … FOR UPDATE first: two first uses would
// both lock the gap where the row is missing, and then deadlock inserting into
// it. INSERT IGNORE, then UPDATE: the duplicate takes a shared lock, and two of
// them deadlock upgrading it. ON DUPLICATE KEY UPDATE takes the exclusive lock
// at once, also if the value stays the same.
//
// The read must be a locking one: under REPEATABLE READ a plain SELECT could
// return the token of an old snapshot.
var mySQL = statements{
	create: `CREATE TABLE IF NOT EXISTS {table} (
	resource      VARBINARY(512) NOT NULL PRIMARY KEY,
	highest_token BIGINT NOT NULL
) ENGINE=InnoDB`,
	raise: `INSERT INTO {table} (resource, highest_token) VALUES (?, ?)
ON DUPLICATE KEY UPDATE highest_token = GREATEST(highest_token, ?)`,
	read: `SELECT highest_token FROM {table} WHERE resource = ? FOR UPDATE`,
}
