package redistest

import (
	"context"
	"fmt"
	"testing"
)

// snapshotFile is what Redis calls its RDB file unless told otherwise.
const snapshotFile = "dump.rdb"

// Snapshot is the content of an RDB file.
type Snapshot []byte

// SaveSnapshot lets the server write an RDB file and returns it.
func (s *Server) SaveSnapshot(t testing.TB) Snapshot {
	t.Helper()
	s.Do(t, "SAVE")
	var content []byte
	s.must(t, "read the snapshot of", func(ctx context.Context) (err error) {
		content, err = s.backend.readData(ctx, snapshotFile)
		return err
	})
	return content
}

// RestoreSnapshot kills the server and starts it with an older RDB file, as an
// operator does with a backup, or as a fail-over to a replica that lags. A server
// with an append-only file would read that one instead, so it must have none.
func (s *Server) RestoreSnapshot(t testing.TB, snapshot Snapshot) {
	t.Helper()
	s.must(t, "restore", func(ctx context.Context) error {
		if len(snapshot) == 0 {
			return fmt.Errorf("the snapshot is empty")
		}
		if err := s.stop(ctx, true); err != nil {
			return err
		}
		if err := s.backend.writeData(ctx, snapshotFile, snapshot); err != nil {
			return err
		}
		return s.start(ctx)
	})
}
