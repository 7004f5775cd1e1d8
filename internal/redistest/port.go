package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Ports are taken from here: above the well-known ones, and below where the usual
// kernels take the ports of outgoing connections from.
const (
	firstPort = 20000
	lastPort  = 31999
)

// errPortTaken is returned by a backend whose server could not bind its port.
var errPortTaken = errors.New("port is taken")

// isPortTaken also knows what the Docker engine says about it.
func isPortTaken(err error) bool {
	return errors.Is(err, errPortTaken) ||
		strings.Contains(err.Error(), "port is already allocated") ||
		strings.Contains(err.Error(), "address already in use")
}

// reservePort finds a port and keeps other test processes off it until release is
// called: the kernel would give the port of a server that is just being restarted
// to anyone. The reservation is a locked file, so it ends with this process.
func reservePort() (port int, release func(), err error) {
	dir := filepath.Join(os.TempDir(), "redistest-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, nil, fmt.Errorf("reserve a port: %w", err)
	}
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		path := filepath.Join(dir, strconv.Itoa(port))
		lock, locked, err := tryLockFile(path)
		if err != nil {
			return 0, nil, fmt.Errorf("reserve a port: %w", err)
		}
		if !locked {
			continue
		}
		release := func() { // in this order: the file may go only while it is locked
			_ = os.Remove(path)
			_ = lock.Close()
		}
		if isFree(port) {
			return port, release, nil
		}
		release()
	}
	return 0, nil, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// tryLockFile locks a file for this process without waiting. Closing it unlocks it.
// Between opening and locking, its last owner may have removed it: a lock on a file
// that has no name any more keeps nobody out, so it counts as not locked.
func tryLockFile(path string) (file *os.File, locked bool, err error) {
	file, locked, err = flock(path, syscall.LOCK_EX|syscall.LOCK_NB)
	if !locked {
		return nil, false, err
	}
	mine, err := file.Stat()
	if err != nil {
		return nil, false, errors.Join(err, file.Close())
	}
	named, err := os.Stat(path)
	if err != nil || !os.SameFile(mine, named) {
		return nil, false, file.Close()
	}
	return file, true, nil
}

// lockFile locks a file for this process, waiting for whoever has it.
func lockFile(path string) (*os.File, error) {
	file, _, err := flock(path, syscall.LOCK_EX)
	return file, err
}

func flock(path string, how int) (file *os.File, locked bool, err error) {
	file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, false, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return file, true, nil
	}
	_ = file.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("lock %s: %w", path, err)
}
