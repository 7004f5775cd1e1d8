package redistest

import "syscall"

// dieWithParent lets no server outlive a test process that panics, is killed or
// runs into its time limit.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
