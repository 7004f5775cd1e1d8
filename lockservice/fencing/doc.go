// Package fencing lets a SQL storage refuse the writes of a lock holder that
// has been overtaken.
//
// # What it gives
//
// Every granted lock carries a token, a number that only goes up. The token
// travels with every write, and the storage decides, not the process: only a
// token at least as new as the highest one seen may write. A [Guard] keeps that
// highest token in a table, one row per resource, and checks it inside the
// transaction of the write:
//
//	guard, err := fencing.New(fencing.PostgreSQL)     // once
//	err = guard.CreateTable(ctx, db)                  // once, or run guard.DDL() as a migration
//
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	if err := guard.Check(ctx, tx, "customer-42", token); err != nil {
//		return err                                    // write nothing, roll back
//	}
//	// read and write customer 42 with tx
//	return tx.Commit()
//
// In one sentence: once a transaction that checked token n of a resource has
// committed, no Check of that resource with a smaller token passes any more.
//
// [Highest] is the same rule in plain Go, for a storage without transactions.
//
// # What it does not give
//
//   - It is no lock. Holders of two tokens may both be at work; the guard only
//     sees to it that the older one cannot write after the newer one has.
//   - Until the newer holder's first Check has committed, the older one still
//     passes: nobody has told the storage about the newer token. So a holder
//     calls Check before it reads anything that it will build a write on, either
//     in the transaction that also writes, or in the transaction that reads
//     ("which accounts are unpaid?") when the writes come later. A holder that
//     reads unchecked, and checks only when it writes, can lose an update.
//   - It does not make a write happen once: one holder writes many times with
//     one token, and an equal token passes. A unique constraint on what must
//     exist once is the last line of defence, and stays needed.
//   - Check on a *sql.DB protects nothing: see below.
//   - It guards what is in the same database as its table. Writes to a second
//     database need a second guard there.
//
// # The same transaction
//
// Check and the write must share one transaction. Check takes an [Execer], so
// it accepts a *sql.Tx, or a *sql.Conn on which the caller has sent BEGIN. It
// also accepts a *sql.DB, because nothing can tell them apart, but then the
// check is a transaction of its own that is over before the write begins: an
// older holder that pauses between the two writes after a newer one. No
// protection is left beyond that one statement.
//
// Check writes the resource's row, and with it holds the row's lock until the
// transaction ends. So the writers of one resource go one after the other, also
// those with equal tokens, and a transaction that is open for long keeps all
// others of that resource waiting. Keep it short, make the resource as fine as
// the lock is, and when one transaction checks several resources, check them in
// one order everywhere.
//
// Check first, before anything else in the transaction. What is read after it
// then includes what every earlier writer committed. Under REPEATABLE READ, an
// earlier SELECT would have fixed what the transaction sees: PostgreSQL
// then reports a serialization error, which is safe; MySQL lets it go on with
// the old data, which is not.
//
// # Errors
//
// A refusal matches [ErrStaleToken] and is a [*StaleTokenError] that names the
// resource, the token and the highest one seen. It is final: the lock is lost,
// so stop, and don't try again with that token. Every other error says nothing
// about the token. Deadlocks, serialization errors, lock wait timeouts and
// SQLITE_BUSY come from the driver and are wrapped unchanged, to be found with
// errors.As; the whole transaction may be tried again. After any error: write
// nothing, roll back.
//
// # The table
//
//	resource       up to 512 bytes, compared byte by byte; primary key
//	highest_token  64-bit integer, not null; only ever goes up
//
// A row is created by the first committed Check of its resource, so nothing has
// to be prepared. Rows are never deleted here. A row whose resource is gone for
// good may be deleted, but only once no holder of it can be alive: without the
// row, any token passes. [Guard.DDL] shows the statement of each dialect:
//
//   - PostgreSQL: VARCHAR(512) COLLATE "C", so that no collation of the database
//     decides what is equal.
//   - MySQL, MariaDB: VARBINARY(512) in InnoDB. The usual collations take "Job"
//     and "job" for one, and even utf8mb4_bin takes "job" and "job " for one, by
//     which two resources would refuse each other's writers.
//   - SQLite: VARCHAR(512), compared as bytes. Version 3.35 or newer (RETURNING).
//     Give connections a busy_timeout, or writers that meet fail at once.
//
// # How it works
//
// PostgreSQL and SQLite take one statement: insert the row, or raise it to the
// larger of its token and ours, and return what it holds then. What comes back
// is either our token (it passed) or a larger one (it is stale); so a refusal
// needs no second look, which could see another state. MySQL has no RETURNING:
// the same statement is followed by a locking read of the row. Neither counts
// affected rows, which on MySQL depends on a flag of the connection and is 0
// for an equal token.
//
// Concurrent first uses meet at the primary key: one inserts, the others wait
// for its end, and then go on with the row. No duplicate-key error gets out. If
// the one that inserted rolls back, InnoDB may end some of those waiting with its
// deadlock error, 1213: to be tried again, like any other.
//
// The tests run all of this on PostgreSQL, MariaDB and SQLite. MySQL gets the
// statements that MariaDB gets.
//
// # Where the rule comes from, and where tokens must
//
// The rule is Martin Kleppmann's ("How to do distributed locking", 2016): a
// lease can end while its holder is paused, and no check in the holder helps,
// since the pause can come after the check. Only the storage can refuse.
//
// It stands on tokens that rise in the order of the grants. Getting the lock
// and the token in two steps breaks it, as in SET key owner NX, then INCR fence:
//
//	A: SET NX     granted
//	A: paused, and its lease ends
//	B: SET NX     granted
//	B: INCR       1
//	B: writes with 1
//	A: resumes, INCR   2
//	A: writes with 2, and passes
//
// The stale holder out-ranks the new one, so the guard refuses the wrong one.
// The token must be made in the transaction that grants the lock, which is what
// the lock service of this module does. This package takes any such token.
//
// # Not here: a guard for values in Redis
//
// A Redis value can be guarded in the same way: WATCH a key with the highest
// token, compare, and raise it in the MULTI that also writes the value. That
// MULTI belongs to the code that writes, so a guard would have to be built on
// its client. This package keeps to the standard library, and leaves it out.
//
// # Concurrency
//
// A Guard does not change after New and may be shared by any number of
// goroutines, as may a [Highest]. The package has no locks and starts no
// goroutines.
package fencing
