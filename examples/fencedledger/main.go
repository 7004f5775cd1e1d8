// Command fencedledger tells how a ledger survives a lock holder that wakes up
// too late: the nightly interest job on embedded SQLite.
//
// Instance A is granted the job's lock, reads what is due, and freezes beyond
// its lease. Instance B is granted the lock and pays. A wakes up and goes on
// with its list, since it cannot know better. The ledger knows: B's token is
// newer, and A's writes are refused.
//
// Run it with go run ./fencedledger.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	_ "time/tzdata" // the bank's time zone, wherever this runs

	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

func main() {
	if err := tellIn(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fencedledger:", err)
		os.Exit(1)
	}
}

// tellIn tells the story with a ledger in a directory that is removed after it.
func tellIn(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "fencedledger")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	books, err := openLedger(ctx, filepath.Join(dir, "ledger.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, books.close()) }()
	return (&story{out: out, ledger: books}).tell(ctx)
}

// tokenA and tokenB are what the lock gave to the two holders, in this order.
const tokenA, tokenB = 41, 42

type story struct {
	out    io.Writer
	ledger *ledger
	day    string
}

func (s *story) say(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format+"\n", args...) }

func (s *story) tell(ctx context.Context) error {
	if err := s.openAccounts(ctx); err != nil {
		return err
	}
	listOfA, err := s.takeOver(ctx, "A", tokenA)
	if err != nil {
		return err
	}
	s.say("A freezes, before it has paid anybody. Its lease ends.")
	listOfB, err := s.takeOver(ctx, "B", tokenB)
	if err != nil {
		return err
	}
	if err := s.payAll(ctx, "B", listOfB, tokenB); err != nil {
		return err
	}
	s.say("A wakes up, and goes on with its list.")
	if err := s.payAll(ctx, "A", listOfA, tokenA); !errors.Is(err, fencing.ErrStaleToken) {
		return fmt.Errorf("the ledger should have refused A: %w", err)
	}
	if err := s.lastLine(ctx, listOfA[0]); err != nil {
		return err
	}
	return s.audit(ctx)
}

// openAccounts sets the scene: shortly after midnight in Istanbul.
func (s *story) openAccounts(ctx context.Context) error {
	bank, err := time.LoadLocation("Europe/Istanbul")
	if err != nil {
		return err
	}
	s.day = businessDayBefore(time.Date(2026, time.March, 15, 0, 5, 0, 0, bank), bank)
	_, err = s.ledger.db.ExecContext(ctx, `INSERT INTO account VALUES (1, 1200000, 4000), (2, 5075000, 4000), (3, 99900, 3650)`)
	s.say("00:05. Interest is due for %s.", s.day)
	return err
}

// takeOver is what a new holder does first: it reads its list with its token.
func (s *story) takeOver(ctx context.Context, who string, token int64) ([]interestDue, error) {
	dues, err := s.ledger.due(ctx, s.day, token)
	s.say("%s holds the lock, token %d, and reads what is due: %d accounts.", who, token, len(dues))
	return dues, err
}

// payAll pays a list. A refusal ends it: the lock is another's by now.
func (s *story) payAll(ctx context.Context, who string, dues []interestDue, token int64) error {
	for _, due := range dues {
		err := s.ledger.pay(ctx, due, s.day, token)
		if err != nil {
			s.say("  %s pays account %d: refused: %v", who, due.account, err)
			return err
		}
		s.say("  %s pays account %d: %d.%02d", who, due.account, due.amount/100, due.amount%100)
	}
	return nil
}

// lastLine shows two writes that no token stops: the newest holder pays twice,
// and code that goes past the guard.
func (s *story) lastLine(ctx context.Context, due interestDue) error {
	s.say("The last line of defence, where no token helps:")
	twice := s.ledger.pay(ctx, due, s.day, tokenB)
	s.say("  B pays account %d again: %v", due.account, twice)
	unguarded := insertEntry(ctx, s.ledger.db, due, s.day, tokenA)
	s.say("  A write without the guard: %v", unguarded)
	if !errors.Is(twice, errAlreadyPaid) || !errors.Is(unguarded, errAlreadyPaid) {
		return errors.New("the unique constraint should have refused both")
	}
	return nil
}

func (s *story) audit(ctx context.Context) error {
	var entries, accounts, tokens, amount int64
	err := s.ledger.db.QueryRowContext(ctx, `
		SELECT COUNT(*), COUNT(DISTINCT account_id), MIN(fence_token), SUM(amount) FROM interest_entry
		WHERE business_day = ?`, s.day).Scan(&entries, &accounts, &tokens, &amount)
	if err != nil {
		return err
	}
	s.say("The ledger for %s: %d entries for %d accounts, all with token %d, %d.%02d in all.",
		s.day, entries, accounts, tokens, amount/100, amount%100)
	return nil
}
