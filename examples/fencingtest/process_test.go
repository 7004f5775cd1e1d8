package fencingtest

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

const (
	startLimit = time.Minute
	stopLimit  = 20 * time.Second
)

// process is a server that belongs to this test run.
type process struct {
	dir   string // all its files; removed when it has ended
	cmd   *exec.Cmd
	ended chan struct{} // closed once the process is reaped
}

// newServerDir makes an empty directory of the servers' user. Its path is
// short, because a Unix socket in it may have 107 bytes at most.
func newServerDir() (string, error) {
	dir, err := os.MkdirTemp("", "fence")
	if err != nil {
		return "", err
	}
	return dir, handOver(dir)
}

// findServer returns the newest program that matches one of the patterns.
func findServer(debianPackage string, patterns ...string) (string, error) {
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return slices.Max(found), nil
		}
	}
	return "", fmt.Errorf("no %s: install the Debian package %s, or run install-databases.sh", patterns[0], debianPackage)
}

// command prepares a program to run in dir as the servers' user.
func command(dir, program string, args ...string) (*exec.Cmd, error) {
	attributes, err := processAttributes()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=" + dir, "TMPDIR=" + dir}
	cmd.SysProcAttr = attributes
	return cmd, nil
}

// startProcess starts a server whose output goes to a file in dir: a pipe would
// need a goroutine, and could keep Wait from returning.
func startProcess(dir, program string, args ...string) (*process, error) {
	cmd, err := command(dir, program, args...)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{dir: dir, cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // how a server ends is no matter of these tests
	}()
	return p, nil
}

// waitUntilReady returns when the server answers, or with its log when it ended.
func (p *process) waitUntilReady(db *sql.DB) error {
	giveUp := time.After(startLimit)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		err := db.Ping()
		if err == nil {
			return nil
		}
		select {
		case <-look.C:
			continue
		case <-p.ended:
		case <-giveUp:
		}
		log, _ := os.ReadFile(filepath.Join(p.dir, "log"))
		return fmt.Errorf("%s does not answer: %w\n%s", p.cmd.Path, err, log)
	}
}

// stop ends the process by its id, waits for it, and removes its files.
func (p *process) stop(signal os.Signal) error {
	err := p.cmd.Process.Signal(signal)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-p.ended:
	case <-time.After(stopLimit):
		err = errors.Join(err, fmt.Errorf("%s had to be killed", p.cmd.Path), p.cmd.Process.Kill())
		<-p.ended
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}
