package rig

import (
	"os/exec"
	"runtime"
	"syscall"
)

// spawn starts a process that dies with this one, and returns what is closed when it
// has ended.
func spawn(cmd *exec.Cmd) (exited chan struct{}, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	exited = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		defer close(exited)
		runtime.LockOSThread() // Pdeathsig is about the thread
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ends is the caller's doing
		}
	}()
	return exited, <-started
}
