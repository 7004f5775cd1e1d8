package fencing

import (
	"context"
	"database/sql"
	"fmt"
)

// DefaultTable is the table's name unless [WithTable] gives another.
const DefaultTable = "lock_fence"

// Execer is the part of database/sql that a Guard uses. A *sql.Tx has it, and so
// has a *sql.Conn on which the caller has begun a transaction. A *sql.DB has it
// too, and is right for [Guard.CreateTable], but not for [Guard.Check].
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Guard refuses writes by token. Make one with [New].
type Guard struct {
	sql statements
}

// Option changes a default of a Guard.
type Option interface{ apply(*config) }

type config struct{ table string }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithTable names the table; [DefaultTable] otherwise. The name may have the
// schema before it, as in "billing.lock_fence". It is used without quotes, so
// each part is ASCII letters, digits and underscores, doesn't begin with a
// digit, and has at most 63 characters. A word that the database reserves, such
// as "order", passes here and is refused by the database.
func WithTable(name string) Option {
	return optionFunc(func(c *config) { c.table = name })
}

// New returns a Guard for a database of the given dialect. It does not touch
// the database.
func New(dialect Dialect, opts ...Option) (*Guard, error) {
	c := config{table: DefaultTable}
	for _, o := range opts {
		o.apply(&c)
	}
	if err := validTable(c.table); err != nil {
		return nil, err
	}
	s, err := statementsFor(dialect, c.table)
	if err != nil {
		return nil, err
	}
	return &Guard{sql: s}, nil
}

// DDL returns the statement that creates the table unless it exists, for those
// who create tables by migrations.
func (g *Guard) DDL() string { return g.sql.create }

// CreateTable creates the table unless it exists. Any number of processes may
// call it at once. Call it at start-up with a *sql.DB: in MySQL it commits the
// transaction that it runs in.
func (g *Guard) CreateTable(ctx context.Context, db Execer) error {
	if err := g.usable(db); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, g.sql.create)
	if err == nil {
		return nil
	}
	// IF NOT EXISTS is no atomic step in PostgreSQL: of two callers, the later
	// one fails in the catalogue's unique index, once the other has committed.
	// So its second attempt finds the table. Any other error comes again.
	if _, again := db.ExecContext(ctx, g.sql.create); again == nil {
		return nil
	}
	return fmt.Errorf("fencing: create table: %w", err)
}

// Check returns nil if token is at least the highest token seen for resource,
// and makes it the highest. Otherwise the error is a [*StaleTokenError]. The
// first check of a resource creates its row.
//
// It counts when tx commits, and is undone when tx rolls back. Until then the
// row is locked, and others who check the resource wait. The write that it
// protects belongs into the same tx, after it. After any error, roll back.
//
// A token is positive. A resource is 1 to 512 bytes of UTF-8 without NUL (which
// PostgreSQL cannot store). Anything else is [ErrInvalidArgument], before the
// database is touched.
func (g *Guard) Check(ctx context.Context, tx Execer, resource string, token int64) error {
	if err := g.usable(tx); err != nil {
		return err
	}
	if err := validCheck(resource, token); err != nil {
		return err
	}
	highest, err := g.raise(ctx, tx, resource, token)
	if err != nil {
		return fmt.Errorf("fencing: check token %d of %q: %w", token, resource, err)
	}
	if highest > token {
		return &StaleTokenError{Resource: resource, Token: token, Highest: highest}
	}
	return nil
}

// raise stores the larger of the resource's highest token and the given one,
// and returns it.
func (g *Guard) raise(ctx context.Context, tx Execer, resource string, token int64) (highest int64, err error) {
	if g.sql.read == "" {
		err = tx.QueryRowContext(ctx, g.sql.raise, resource, token).Scan(&highest)
		return highest, err
	}
	if _, err = tx.ExecContext(ctx, g.sql.raise, resource, token, token); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, g.sql.read, resource).Scan(&highest)
	return highest, err
}

// usable refuses a nil or zero Guard, and a nil database.
func (g *Guard) usable(db Execer) error {
	if g == nil || g.sql.raise == "" {
		return invalid("this Guard was not made by New")
	}
	if db == nil {
		return invalid("the transaction is nil")
	}
	return nil
}
