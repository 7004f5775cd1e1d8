package fencingtest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// processUser is the user of the servers when the tests run as root, which both
// servers refuse to be.
const processUser = "nobody"

// handOver gives dir to the servers' user.
func handOver(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid, err := unprivileged()
	if err != nil {
		return err
	}
	return os.Chown(dir, uid, gid)
}

// processAttributes makes a child of the servers' user that dies with its
// parent, also if a test run is killed or panics.
func processAttributes() (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		return attributes, nil
	}
	uid, gid, err := unprivileged()
	if err != nil {
		return nil, err
	}
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, nil
}

func unprivileged() (uid, gid int, err error) {
	u, err := user.Lookup(processUser)
	if err != nil {
		return 0, 0, err
	}
	if uid, err = strconv.Atoi(u.Uid); err != nil {
		return 0, 0, err
	}
	gid, err = strconv.Atoi(u.Gid)
	return uid, gid, err
}
