package fencingtest

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice/fencing"
)

// These tests play schedules of holders step by step, without waiting: a pause
// beyond the lease is that other steps come in between.

// holder adds to a balance that it has read earlier, as code under a lock may.
type holder struct {
	db    *database
	guard *fencing.Guard // nil: the control
	token int64
	read  int64
}

func (db *database) account(t *testing.T) {
	t.Helper()
	db.exec(t, "CREATE TABLE account (id INTEGER NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)")
	db.exec(t, "INSERT INTO account VALUES (1, 100)")
}

func (db *database) balance(t *testing.T) int64 {
	t.Helper()
	return db.number(t, "SELECT balance FROM account WHERE id = 1")
}

// readChecked reads the balance after a check, as a holder should.
func (h *holder) readChecked(t *testing.T) error {
	t.Helper()
	return h.db.write(t, h.guard, "account-1", h.token, func(tx *sql.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT balance FROM account WHERE id = 1").Scan(&h.read)
	})
}

// readUnchecked reads it without telling the storage about the token.
func (h *holder) readUnchecked(t *testing.T) {
	t.Helper()
	h.read = h.db.balance(t)
}

func (h *holder) add(t *testing.T, amount int64) error {
	t.Helper()
	return h.db.write(t, h.guard, "account-1", h.token, func(tx *sql.Tx) error {
		return h.store(t, tx, h.read+amount)
	})
}

func (h *holder) store(t *testing.T, tx *sql.Tx, balance int64) error {
	_, err := tx.ExecContext(t.Context(), h.db.sql("UPDATE account SET balance = ? WHERE id = 1"), balance)
	return err
}

// A is granted the lock, reads, and is paused past its lease. B is granted it,
// reads and adds 10. A wakes up and adds 5 to what it read.
func TestPausedHolderLosesAnUpdateOnlyWithoutTheGuard(t *testing.T) {
	play := func(t *testing.T, db *database, g *fencing.Guard) (lateWrite error) {
		db.account(t)
		a := &holder{db: db, guard: g, token: 1}
		require.NoError(t, a.readChecked(t))
		b := &holder{db: db, guard: g, token: 2}
		require.NoError(t, b.readChecked(t))
		require.NoError(t, b.add(t, 10))
		return a.add(t, 5)
	}
	t.Run("guarded", func(t *testing.T) {
		onEachDatabase(t, func(t *testing.T, db *database) {
			requireStale(t, play(t, db, db.guard(t)), "account-1", 1, 2)
			require.Equal(t, int64(110), db.balance(t))
		})
	})
	t.Run("control", func(t *testing.T) {
		onEachDatabase(t, func(t *testing.T, db *database) {
			require.NoError(t, play(t, db, nil))
			require.Equal(t, int64(105), db.balance(t), "the 10 of B are lost")
		})
	})
}

// The same when B's first word to the storage is its write.
func TestPausedHolderIsRefusedAfterTheNewOnesFirstWrite(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		db.account(t)
		g := db.guard(t)
		a := &holder{db: db, guard: g, token: 1}
		a.readUnchecked(t)
		b := &holder{db: db, guard: g, token: 2}
		require.NoError(t, db.write(t, g, "account-1", b.token, func(tx *sql.Tx) error {
			return b.store(t, tx, 110)
		}))
		requireStale(t, a.add(t, 5), "account-1", 1, 2)
		require.Equal(t, int64(110), db.balance(t))
	})
}

// twoStepLock is the naive lock with tokens: SET NX, and a separate INCR.
type twoStepLock struct {
	held  bool
	fence int64
}

func (l *twoStepLock) setNX() bool {
	granted := !l.held
	l.held = true
	return granted
}

func (l *twoStepLock) leaseEnds()  { l.held = false }
func (l *twoStepLock) incr() int64 { l.fence++; return l.fence }

// A: SET NX, reads, is paused, and its lease ends. B: SET NX, INCR, adds 10.
// A resumes: INCR, adds 5. The stale holder has the larger token, so even the
// guard lets it overwrite. With the token made by the grant, A is refused.
func TestTokenNotMadeByTheGrantLetsTheStaleHolderPass(t *testing.T) {
	play := func(t *testing.T, db *database, madeByTheGrant bool) (lateWrite error) {
		db.account(t)
		lock, g := &twoStepLock{}, db.guard(t)
		a, b := &holder{db: db, guard: g}, &holder{db: db, guard: g}

		require.True(t, lock.setNX())
		if madeByTheGrant {
			a.token = lock.incr()
		}
		a.readUnchecked(t)
		lock.leaseEnds()

		require.True(t, lock.setNX())
		b.token = lock.incr()
		require.NoError(t, b.readChecked(t))
		require.NoError(t, b.add(t, 10))

		if !madeByTheGrant {
			a.token = lock.incr()
		}
		return a.add(t, 5)
	}
	t.Run("made by the grant", func(t *testing.T) {
		onEachDatabase(t, func(t *testing.T, db *database) {
			requireStale(t, play(t, db, true), "account-1", 1, 2)
			require.Equal(t, int64(110), db.balance(t))
		})
	})
	t.Run("control", func(t *testing.T) {
		onEachDatabase(t, func(t *testing.T, db *database) {
			require.NoError(t, play(t, db, false))
			require.Equal(t, int64(105), db.balance(t), "the 10 of B are lost, guard or no guard")
		})
	})
}

// The rule that is easily overlooked: what B reads before its first check may
// still be changed by A.
func TestNewHolderMustCheckBeforeItReads(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		db.account(t)
		g := db.guard(t)
		a, b := &holder{db: db, guard: g, token: 1}, &holder{db: db, guard: g, token: 2}
		require.NoError(t, a.readChecked(t))
		b.readUnchecked(t)
		require.NoError(t, a.add(t, 5), "nothing has told the storage about B")
		require.NoError(t, b.add(t, 10))
		require.Equal(t, int64(110), db.balance(t), "the 5 of A are lost")

		a, b = &holder{db: db, guard: g, token: 3}, &holder{db: db, guard: g, token: 4}
		require.NoError(t, a.readChecked(t))
		require.NoError(t, b.readChecked(t))
		requireStale(t, a.add(t, 5), "account-1", 3, 4)
		require.NoError(t, b.add(t, 10))
		require.Equal(t, int64(120), db.balance(t))
	})
}

// Check on a *sql.DB is over before the write begins.
func TestCheckOutsideTheWritesTransactionProtectsNothing(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		db.account(t)
		g := db.guard(t)
		a, b := &holder{db: db, token: 1}, &holder{db: db, guard: g, token: 2}
		require.NoError(t, g.Check(t.Context(), db, "account-1", a.token))
		a.readUnchecked(t)
		require.NoError(t, b.readChecked(t))
		require.NoError(t, b.add(t, 10))
		require.NoError(t, a.add(t, 5))
		require.Equal(t, int64(105), db.balance(t), "the 10 of B are lost")
		requireStale(t, g.Check(t.Context(), db, "account-1", a.token), "account-1", 1, 2)
	})
}

// A *sql.Conn on which the caller has begun a transaction serves as well.
func TestCheckOnAConnectionInATransaction(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		g := db.guard(t)
		conn, err := db.Conn(t.Context())
		require.NoError(t, err)
		for _, end := range []string{"ROLLBACK", "COMMIT"} {
			_, err = conn.ExecContext(t.Context(), "BEGIN")
			require.NoError(t, err)
			require.NoError(t, g.Check(t.Context(), conn, "job", 7))
			_, err = conn.ExecContext(t.Context(), end)
			require.NoError(t, err)
		}
		require.NoError(t, conn.Close())
		require.Equal(t, int64(7), db.highest(t, "job"))
	})
}

// Random schedules of eight holders, each granted the lock in turn, reading and
// adding 1 at random later steps. Guarded, every accepted add counts, and the
// guard refuses exactly those who are older than a holder that has checked.
// Unguarded, some schedule loses an update.
func TestNoRandomScheduleLosesAnUpdate(t *testing.T) {
	const schedules = 12
	t.Run("guarded", func(t *testing.T) {
		onEachDatabase(t, func(t *testing.T, db *database) {
			db.account(t)
			g := db.guard(t)
			for seed := range uint64(schedules) {
				require.Zero(t, lostUpdates(t, db, g, seed), "seed %d", seed)
			}
		})
	})
	t.Run("control", func(t *testing.T) {
		onEachDatabase(t, func(t *testing.T, db *database) {
			db.account(t)
			lost := int64(0)
			for seed := range uint64(schedules) {
				lost += lostUpdates(t, db, nil, seed)
			}
			require.Positive(t, lost)
		})
	})
}

// lostUpdates plays one schedule and returns how many accepted adds are not in
// the balance.
func lostUpdates(t *testing.T, db *database, g *fencing.Guard, seed uint64) int64 {
	t.Helper()
	const holders, addsEach = 8, 2
	random := rand.New(rand.NewPCG(seed, seed))
	db.exec(t, "UPDATE account SET balance = 0")

	var seen, accepted int64
	var steps []func()
	for i := range int64(holders) {
		h := &holder{db: db, guard: g, token: int64(seed)*holders + i + 1}
		judge := func(err error) bool {
			if g == nil || h.token >= seen {
				require.NoError(t, err, "no false refusal")
				seen = h.token
				return true
			}
			requireStale(t, err, "account-1", h.token, seen)
			return false
		}
		steps = append(steps, func() { judge(h.readChecked(t)) })
		for range addsEach {
			steps = append(steps, func() {
				if judge(h.add(t, 1)) {
					h.read++
					accepted++
				}
			})
		}
	}
	for _, i := range inRandomOrder(random, holders, 1+addsEach) {
		steps[i]()
	}
	return accepted - db.balance(t)
}

// inRandomOrder merges the steps of n holders, each holder's own in order.
func inRandomOrder(random *rand.Rand, n, each int) []int {
	var order []int
	for i := range n * each {
		order = append(order, i/each)
	}
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	next := make([]int, n)
	for i, h := range order {
		order[i] = h*each + next[h]
		next[h]++
	}
	return order
}

func TestRandomOrderKeepsEachHoldersSteps(t *testing.T) {
	t.Parallel()
	order := inRandomOrder(rand.New(rand.NewPCG(1, 1)), 3, 4)
	require.ElementsMatch(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, order)
	last := []int{-1, 3, 7}
	for _, i := range order {
		require.Equal(t, last[i/4]+1, i, fmt.Sprint(order))
		last[i/4] = i
	}
}
