package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// binary runs the redis-server on PATH in a directory of its own.
type binary struct {
	port int
	args []string
	dir  string // made by the first start

	process *os.Process   // of the last start
	exited  chan struct{} // closed once that process is gone
	output  *bytes.Buffer // what it printed; read after exited is closed
}

func newBinary(port int, args []string) *binary {
	return &binary{port: port, args: args}
}

func (b *binary) String() string { return "redis-server on PATH" }

func (b *binary) start(ctx context.Context) error {
	if b.dir == "" {
		dir, err := os.MkdirTemp("", "redistest-data-")
		if err != nil {
			return err
		}
		b.dir = dir
	}
	if err := b.spawn(); err != nil {
		return err
	}
	return b.watchStart(ctx)
}

func (b *binary) spawn() error {
	args := slices.Concat([]string{
		"--port", strconv.Itoa(b.port), "--bind", "127.0.0.1", "--dir", b.dir, "--daemonize", "no",
	}, b.args)
	cmd := exec.Command("redis-server", args...)
	cmd.SysProcAttr = dieWithParent()
	output, exited, started := new(bytes.Buffer), make(chan struct{}), make(chan error, 1)
	cmd.Stdout, cmd.Stderr = output, output
	go func() {
		defer close(exited)
		// The kernel kills the server when the thread that started it ends, so
		// this thread stays with it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is the test's doing
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("run redis-server: %w", err)
	}
	b.process, b.exited, b.output = cmd.Process, exited, output
	return nil
}

// watchStart waits until this very process listens, or has given up because its
// port is taken or its arguments are wrong. A PONG wouldn't do: somebody else's
// server on the port answers PING just as well.
func (b *binary) watchStart(ctx context.Context) error {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	pid := fmt.Sprintf("process_id:%d\r\n", b.process.Pid)
	err := poll(ctx, func() error {
		select {
		case <-b.exited:
			giveUp(b.startError())
		default:
		}
		info, err := call(ctx, b.addr(), passwordIn(b.args), "INFO", "server")
		if err == nil && !strings.Contains(info, pid) {
			return errors.New("another server answers")
		}
		return err
	})
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	return nil
}

func (b *binary) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

func (b *binary) startError() error {
	output := b.output.String()
	if bytes.Contains(b.output.Bytes(), []byte("Address already in use")) {
		return fmt.Errorf("%w: redis-server printed: %s", errPortTaken, output)
	}
	return fmt.Errorf("redis-server ended at once and printed: %s", output)
}

func (b *binary) stop(ctx context.Context, kill bool) error {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	if err := b.signal(sig); err != nil {
		return err
	}
	select {
	case <-b.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("redis-server ignores %v: %w", sig, ctx.Err())
	}
}

func (b *binary) pause(context.Context) error   { return b.signal(syscall.SIGSTOP) }
func (b *binary) unpause(context.Context) error { return b.signal(syscall.SIGCONT) }

func (b *binary) signal(sig syscall.Signal) error {
	err := b.process.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %v: %w", sig, err)
	}
	return nil
}

func (b *binary) wipe(context.Context) error {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(b.dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (b *binary) readData(_ context.Context, file string) ([]byte, error) {
	return os.ReadFile(filepath.Join(b.dir, file))
}

func (b *binary) writeData(_ context.Context, file string, content []byte) error {
	return os.WriteFile(filepath.Join(b.dir, file), content, 0o644)
}

func (b *binary) remove(ctx context.Context) error {
	if b.process != nil {
		if err := b.stop(ctx, true); err != nil {
			return err
		}
	}
	if b.dir == "" {
		return nil
	}
	return os.RemoveAll(b.dir)
}
