package lockservice

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/redis/rueidis"

	"github.com/redislockservice/redislockservice/internal/keyspace"
)

// ListLocks walks the records of the service's key prefix in Redis, for tools: it
// looks at each key of the database, a few hundred at a time, and does not block
// the server. The order is none. Stop by leaving the loop.
//
// pattern is a glob on the lock name, as Redis understands it: * is any bytes, ? is
// one byte, [a-c] is one of several, [^a] is one other, and \ takes the meaning
// from what follows. "*" is all.
//
// A record that is there during the whole walk is seen, at least once; one that
// comes or goes meanwhile may be missed, and one that is written may come twice.
// Each is as it was when it was read, a few hundred of them in one snapshot, at
// [LockInfo.ReadAt].
//
// A key that holds something else than a record is an error that matches
// [ErrCorruptRecord]; the walk goes on. Any other error ends it:
// [ErrInvalidArgument], [ErrClosed], [ErrUnavailable] (also if the user has no
// right to SCAN), or ctx's own.
func (s *RedisLockService) ListLocks(ctx context.Context, pattern string) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		if err := checkPattern(pattern); err != nil {
			yield(LockInfo{}, err)
			return
		}
		var cursor uint64
		for {
			page, err := s.scan(ctx, cursor, pattern)
			if err != nil {
				yield(LockInfo{}, err)
				return
			}
			if !s.yieldPage(ctx, page.Elements, yield) || page.Cursor == 0 {
				return
			}
			cursor = page.Cursor
		}
	}
}

func checkPattern(pattern string) error {
	switch {
	case pattern == "":
		return invalid("the pattern is empty; all locks are *")
	case len(pattern) > keyspace.MaxNameBytes:
		return invalid("the pattern has %d bytes, at most %d are allowed", len(pattern), keyspace.MaxNameBytes)
	case !utf8.ValidString(pattern):
		return invalid("the pattern %q is not valid UTF-8", pattern)
	}
	return nil
}

// keysPerScan bounds how long one SCAN keeps the server busy.
const keysPerScan = 500

// scan reads a page of keys. The prefix needs no escaping: it has no character
// that means something in a glob, which keyspace sees to.
func (s *RedisLockService) scan(ctx context.Context, cursor uint64, pattern string) (rueidis.ScanEntry, error) {
	if s.isClosing() {
		return rueidis.ScanEntry{}, ErrClosed
	}
	bounded, cancel := context.WithTimeout(ctx, s.cfg.opTimeout)
	defer cancel()
	page, err := s.redis.Do(bounded, s.redis.B().Scan().Cursor(cursor).Match(s.cfg.keys.Lock(pattern)).Count(keysPerScan).Build()).AsScanEntry()
	switch {
	case err == nil:
		return page, nil
	case ctx.Err() != nil:
		return page, ctx.Err()
	case s.isClosing(): // Close may have closed the client meanwhile
		return page, ErrClosed
	}
	return page, fmt.Errorf("%w: SCAN: %w", ErrUnavailable, hidden{err})
}

// yieldPage passes on what is at the keys, and says whether to go on.
func (s *RedisLockService) yieldPage(ctx context.Context, keys []string, yield func(LockInfo, error) bool) bool {
	names, errs := s.namesOfKeys(keys)
	for _, err := range errs {
		if !yield(LockInfo{}, err) {
			return false
		}
	}
	for part := range slices.Chunk(names, namesPerRead) {
		infos, err := s.readInfos(ctx, part)
		for _, info := range infos {
			if !yield(info, nil) {
				return false
			}
		}
		if err == nil {
			continue
		}
		if !yield(LockInfo{}, err) || !errors.Is(err, ErrCorruptRecord) {
			return false
		}
	}
	return true
}

// namesOfKeys are the locks of a page of keys, each once. Somebody else may have
// put a key there whose name no lock can have.
func (s *RedisLockService) namesOfKeys(keys []string) (names []string, errs []error) {
	for _, key := range unique(keys) {
		name, ok := s.cfg.keys.LockName(key)
		if !ok {
			continue
		}
		if err := keyspace.CheckName(name); err != nil {
			errs = append(errs, &CorruptRecordError{Key: key, Err: err})
			continue
		}
		names = append(names, name)
	}
	return names, errs
}
