// Command fencedledger tells how a ledger survives a lock holder that wakes up
// too late: the nightly interest job on embedded SQLite.
//
// Instance A is granted the job's lock, reads what is due, and freezes beyond
// its lease. Instance B is granted the lock and pays. A wakes up and goes on
// with its list, since it cannot know better. The ledger knows: B's token is
// newer, and A's writes are refused.
//
// The locks are on the Redis of REDIS_URL, or else on an embedded miniredis. The
// freeze is played by code that doesn't look at its context: to others it is the
// same.
//
// Run it with go run ./fencedledger.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "time/tzdata" // the bank's time zone, wherever this runs

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
	"github.com/redislockservice/redislockservice/lockservice"
	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

// atMost is how long the lock lasts whatever becomes of its holder: hours, at a bank.
const atMost = time.Second

func main() { redisenv.Main(tellIn) }

// tellIn tells the story with a ledger in a directory that is removed after it.
func tellIn(ctx context.Context, redis *redisenv.Redis, out *redisenv.Story) (err error) {
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
	s := &story{say: out.Say, ledger: books}
	if s.a, _, err = redis.Service(ctx, "A"); err != nil {
		return err
	}
	if s.b, _, err = redis.Service(ctx, "B"); err != nil {
		return err
	}
	return s.tell(ctx)
}

type story struct {
	say    func(format string, args ...any)
	ledger *ledger
	day    string
	a, b   *lockservice.RedisLockService
	tokenB int64
}

func (s *story) tell(ctx context.Context) error {
	if err := s.openAccounts(ctx); err != nil {
		return err
	}
	ran, err := s.a.Execute(ctx, resource, atMost, 0, s.runOfA)
	switch {
	case !ran:
		return fmt.Errorf("A should have been granted the lock: %w", err)
	case !errors.Is(err, fencing.ErrStaleToken):
		return fmt.Errorf("the ledger should have refused A: %w", err)
	case !errors.Is(err, lockservice.ErrLockLost):
		return fmt.Errorf("A should have lost its lock: %w", err)
	}
	s.say("A's run ends with two errors: the refusal, and the loss of its lock.")
	return s.audit(ctx)
}

// runOfA is the job on instance A, which freezes at the worst moment. It goes on with
// a context that knows nothing of the loss: code that had looked would have stopped.
func (s *story) runOfA(ctx context.Context) error {
	token, _ := lockservice.FencingToken(ctx, resource)
	ctx = context.WithoutCancel(ctx)
	list, err := s.takeOver(ctx, "A", token)
	if err != nil {
		return err
	}
	s.say("A freezes, before it has paid anybody. Its lease ends.")
	if err := s.runOnB(); err != nil {
		return err
	}
	s.say("A wakes up, and goes on with its list.")
	refused := s.payAll(ctx, "A", list, token)
	return errors.Join(refused, s.lastLine(ctx, list[0], token))
}

// runOnB is the job on instance B, another process. It waits for the lock.
func (s *story) runOnB() error {
	acquired, err := s.b.TryWriteLock(context.Background(), []string{resource}, func(ctx context.Context, _ lockservice.HasLock) error {
		s.tokenB, _ = lockservice.FencingToken(ctx, resource)
		list, err := s.takeOver(ctx, "B", s.tokenB)
		if err != nil {
			return err
		}
		return s.payAll(ctx, "B", list, s.tokenB)
	}, lockservice.WithTimeout(30*time.Second))
	if !acquired && err == nil {
		err = errors.New("B should have been granted the lock")
	}
	return err
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
func (s *story) lastLine(ctx context.Context, due interestDue, tokenA int64) error {
	s.say("The last line of defence, where no token helps:")
	twice := s.ledger.pay(ctx, due, s.day, s.tokenB)
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
