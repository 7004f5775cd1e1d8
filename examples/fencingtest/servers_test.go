package fencingtest

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	_ "github.com/go-sql-driver/mysql" // MySQL and MariaDB
	_ "github.com/jackc/pgx/v5/stdlib" // PostgreSQL
	_ "modernc.org/sqlite"             // SQLite
)

// The servers of this run. Written before the first test.
var postgres, mariadb server

// server is a running database server, or why there is none.
type server struct {
	kind    serverKind
	process *process
	socket  string  // what a client connects to
	admin   *sql.DB // makes a database for each test
	err     error
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(withServers{m}) }

// withServers runs the tests between the start and the end of the servers, so
// that the check for goroutines comes after both.
type withServers struct{ tests *testing.M }

func (w withServers) Run() int {
	// A child with a parent-death signal gets it when the thread that started
	// it ends. This one stays until the tests are over.
	runtime.LockOSThread()
	postgres = startServer(postgresKind)
	mariadb = startServer(mariadbKind)
	code := w.tests.Run()
	if err := errors.Join(postgres.stop(), mariadb.stop()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// serverKind is how to start one kind of server.
type serverKind struct {
	driver        string
	debianPackage string
	programs      []string // patterns of where its first program is
	stopSignal    os.Signal

	// start starts it on the empty directory dir.
	start func(program, dir string) (*process, error)
	// socket and dsn tell how to reach it.
	socket func(dir string) string
	dsn    func(socket string) string
}

var postgresKind = serverKind{
	driver: "pgx", debianPackage: "postgresql",
	programs:   []string{"/usr/lib/postgresql/*/bin/initdb", "/usr/local/pgsql/bin/initdb"},
	stopSignal: os.Interrupt, // SIGTERM would wait for clients
	start:      initAndStartPostgreSQL,
	socket:     func(dir string) string { return dir },
	dsn:        func(socket string) string { return postgresDSN(socket, "public") },
}

var mariadbKind = serverKind{
	driver: "mysql", debianPackage: "mariadb-server-core",
	programs:   []string{"/usr/sbin/mariadbd", "/usr/local/sbin/mariadbd"},
	stopSignal: syscall.SIGTERM,
	start:      startMariaDB,
	socket:     mariadbSocket,
	dsn:        func(socket string) string { return mariadbDSN(socket, "") },
}

func initAndStartPostgreSQL(initdb, dir string) (*process, error) {
	data := filepath.Join(dir, "data")
	create, err := command(dir, initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	if err != nil {
		return nil, err
	}
	if out, err := create.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", initdb, err, out)
	}
	return startProcess(dir, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-k", dir,
		"-c", "listen_addresses=", "-c", "fsync=off", "-c", "full_page_writes=off",
		"-c", "max_connections=500", "-c", "shared_buffers=32MB", "-c", "deadlock_timeout=100ms")
}

// Without grant tables an empty directory is all that MariaDB needs; nobody
// else can reach the socket in it.
func startMariaDB(program, dir string) (*process, error) {
	return startProcess(dir, program, "--no-defaults", "--datadir="+dir, "--socket="+mariadbSocket(dir),
		"--skip-networking", "--skip-grant-tables", "--max-connections=500", "--innodb-use-native-aio=0",
		"--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0")
}

func mariadbSocket(dir string) string { return filepath.Join(dir, "socket") }

// startServer returns a server that answers, or the reason why not, and then
// leaves nothing behind.
func startServer(kind serverKind) server {
	program, err := findServer(kind.debianPackage, kind.programs...)
	if err != nil {
		return server{err: err}
	}
	dir, err := newServerDir()
	if err != nil {
		return server{err: err}
	}
	s := server{kind: kind, socket: kind.socket(dir)}
	if s.process, err = kind.start(program, dir); err != nil {
		return server{err: errors.Join(err, os.RemoveAll(dir))}
	}
	if s.admin, err = sql.Open(kind.driver, kind.dsn(s.socket)); err == nil {
		err = s.process.waitUntilReady(s.admin)
	}
	if err != nil {
		return server{err: errors.Join(err, s.stop())}
	}
	return s
}

func (s server) stop() error {
	if s.process == nil {
		return nil
	}
	var closed error
	if s.admin != nil {
		closed = s.admin.Close()
	}
	return errors.Join(closed, s.process.stop(s.kind.stopSignal))
}
