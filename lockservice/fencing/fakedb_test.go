package fencing

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeDB is a database/sql driver that records what it is asked and answers
// from a list, so that the guard's statements are seen without a database.
type fakeDB struct {
	mu      sync.Mutex // guards the fields below
	calls   []fakeCall
	answers []fakeAnswer // one per call, in order
}

type fakeCall struct {
	query string
	args  []any
}

// fakeAnswer is an error, or one row with one value, or no row.
type fakeAnswer struct {
	value any
	err   error
}

// openFake returns a *sql.DB on a fake that gives these answers.
func openFake(t *testing.T, answers ...fakeAnswer) (*sql.DB, *fakeDB) {
	t.Helper()
	fake := &fakeDB{answers: answers}
	db := sql.OpenDB(fake)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db, fake
}

func (f *fakeDB) seen() []fakeCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]fakeCall(nil), f.calls...)
}

func (f *fakeDB) answer(query string, named []driver.NamedValue) (fakeAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	call := fakeCall{query: query}
	for _, n := range named {
		call.args = append(call.args, n.Value)
	}
	f.calls = append(f.calls, call)
	if len(f.answers) == 0 {
		return fakeAnswer{}, errors.New("fake: no answer left")
	}
	a := f.answers[0]
	f.answers = f.answers[1:]
	return a, a.err
}

func (f *fakeDB) Connect(context.Context) (driver.Conn, error) { return fakeConn{f}, nil }
func (f *fakeDB) Driver() driver.Driver                        { return nil }

type fakeConn struct{ db *fakeDB }

func (c fakeConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("fake: no prepare") }
func (c fakeConn) Close() error                        { return nil }
func (c fakeConn) Begin() (driver.Tx, error)           { return fakeTx{}, nil }

func (c fakeConn) ExecContext(_ context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	_, err := c.db.answer(q, args)
	return driver.RowsAffected(0), err
}

func (c fakeConn) QueryContext(_ context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	a, err := c.db.answer(q, args)
	if err != nil {
		return nil, err
	}
	return &fakeRows{value: a.value}, nil
}

type fakeTx struct{}

func (fakeTx) Commit() error   { return nil }
func (fakeTx) Rollback() error { return nil }

type fakeRows struct{ value any } // nil: no row left

func (r *fakeRows) Columns() []string { return []string{"highest_token"} }
func (r *fakeRows) Close() error      { return nil }

func (r *fakeRows) Next(dest []driver.Value) error {
	if r.value == nil {
		return io.EOF
	}
	dest[0], r.value = r.value, nil
	return nil
}
