package fencingtest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A missing server must fail the tests by a message that says what to do.
func TestMissingServerNamesThePackageToInstall(t *testing.T) {
	t.Parallel()
	kind := mariadbKind
	kind.programs = []string{filepath.Join(t.TempDir(), "*", "mariadbd")}
	err := startServer(kind).err
	require.ErrorContains(t, err, "install the Debian package mariadb-server-core")
	require.ErrorContains(t, err, "install-databases.sh")
}

// A server that ends at once is reported with its log, and leaves no files.
func TestServerThatEndsIsReportedWithItsLog(t *testing.T) {
	t.Parallel()
	var dir string
	kind := mariadbKind
	kind.programs = []string{"/bin/sh"}
	kind.start = func(program, d string) (*process, error) {
		dir = d
		return startProcess(d, program, "-c", "echo no room left; exit 1")
	}
	s := startServer(kind)
	require.ErrorContains(t, s.err, "no room left")
	_, err := os.Stat(dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}
