package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

// resource is what the token is checked for: the job's lock.
const resource = "nightly-interest"

// errAlreadyPaid is returned for a second entry of one account and day.
var errAlreadyPaid = errors.New("interest already paid")

// The unique constraint is the last line of defence. It needs no token, and
// holds against everybody, also against code that forgets the guard.
const schema = `
CREATE TABLE IF NOT EXISTS account (
	id           INTEGER PRIMARY KEY,
	balance      INTEGER NOT NULL, -- in hundredths
	basis_points INTEGER NOT NULL  -- interest per year
);
CREATE TABLE IF NOT EXISTS interest_entry (
	account_id   INTEGER NOT NULL REFERENCES account (id),
	business_day TEXT    NOT NULL,
	amount       INTEGER NOT NULL, -- in hundredths
	fence_token  INTEGER NOT NULL,
	CONSTRAINT uq_interest_once_per_day UNIQUE (account_id, business_day)
);`

// interestDue is what one account is owed for one day.
type interestDue struct {
	account int64
	amount  int64 // in hundredths
}

// ledger books interest. It knows nothing of locks: each call brings the token
// of the caller's lock, and the ledger decides by it.
type ledger struct {
	db    *sql.DB
	guard *fencing.Guard
}

// openLedger creates the ledger's tables, if need be, in the SQLite file.
func openLedger(ctx context.Context, file string) (*ledger, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)")
	if err != nil {
		return nil, err
	}
	guard, err := fencing.New(fencing.SQLite, fencing.WithTable("job_fence"))
	if err == nil {
		err = guard.CreateTable(ctx, db)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, schema)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &ledger{db: db, guard: guard}, nil
}

func (l *ledger) close() error { return l.db.Close() }

// due returns what is unpaid for the day. It checks the token too: from here on
// no older holder can change what this list was read from.
func (l *ledger) due(ctx context.Context, day string, token int64) (dues []interestDue, err error) {
	err = l.fenced(ctx, token, func(tx *sql.Tx) error {
		dues, err = queryDue(ctx, tx, day)
		return err
	})
	return dues, err
}

// pay books the interest of one account and day. It is refused with
// fencing.ErrStaleToken when a newer holder has been here, and with
// errAlreadyPaid when the account has its entry for the day.
func (l *ledger) pay(ctx context.Context, due interestDue, day string, token int64) error {
	return l.fenced(ctx, token, func(tx *sql.Tx) error {
		return insertEntry(ctx, tx, due, day, token)
	})
}

// fenced runs do in a transaction that begins with the check of the token.
func (l *ledger) fenced(ctx context.Context, token int64, do func(tx *sql.Tx) error) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := l.guard.Check(ctx, tx, resource, token); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func queryDue(ctx context.Context, tx *sql.Tx, day string) ([]interestDue, error) {
	rows, err := tx.QueryContext(ctx, `
		SELECT id, balance * basis_points / 10000 / 365 FROM account
		WHERE id NOT IN (SELECT account_id FROM interest_entry WHERE business_day = ?)
		ORDER BY id`, day)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var dues []interestDue
	for rows.Next() {
		var d interestDue
		if err := rows.Scan(&d.account, &d.amount); err != nil {
			return nil, err
		}
		dues = append(dues, d)
	}
	return dues, rows.Err()
}

// execer is a transaction, or the database itself.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func insertEntry(ctx context.Context, db execer, due interestDue, day string, token int64) error {
	_, err := db.ExecContext(ctx, `
		INSERT INTO interest_entry (account_id, business_day, amount, fence_token)
		VALUES (?, ?, ?, ?)`, due.account, day, due.amount, token)
	var refused *sqlite.Error
	if errors.As(err, &refused) && refused.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE {
		return fmt.Errorf("%w: account %d on %s: %w", errAlreadyPaid, due.account, day, err)
	}
	return err
}

// businessDayBefore returns the day before now, as the bank's clocks show it:
// the job runs just after midnight, and pays for the day that has ended.
func businessDayBefore(now time.Time, bank *time.Location) string {
	return now.In(bank).AddDate(0, 0, -1).Format(time.DateOnly)
}
