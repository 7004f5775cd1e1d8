package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

const (
	kindDocker = "docker"
	kindBinary = "binary"
)

// chooseKind says how servers are run on this machine.
func chooseKind(ctx context.Context) (string, error) {
	return kindFor(ctx, os.Getenv("REDISTEST"))
}

// kindFor takes the first kind that works; forced, if not empty, allows only one.
func kindFor(ctx context.Context, forced string) (string, error) {
	switch forced {
	case "", kindDocker, kindBinary:
	default:
		return "", fmt.Errorf("REDISTEST=%q: must be %s or %s", forced, kindDocker, kindBinary)
	}
	var dockerErr, binaryErr error
	if forced != kindBinary {
		if _, dockerErr = connectDocker(); dockerErr == nil {
			return kindDocker, nil
		}
	}
	if forced != kindDocker {
		if _, binaryErr = exec.LookPath("redis-server"); binaryErr == nil {
			return kindBinary, nil
		}
	}
	return "", errors.Join(
		errors.New("these tests need a real Redis: install a Docker engine that can pull redis:7.0, or a redis-server on PATH (Debian: apt-get install redis-server)"),
		dockerErr, binaryErr, ctx.Err())
}
