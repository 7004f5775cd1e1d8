package redistest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

const (
	defaultImage = "redis:7.0"
	// standinPrefix is what build-image.sh puts before the name of an image.
	standinPrefix = "localhost/redistest/"

	pullTimeout  = 20 * time.Second
	imageTimeout = 3 * time.Minute // waiting for another process's attempt, pull and build

	// retryAfter is how long one failed attempt speaks for all test processes of
	// the machine: go test runs one process per package, and none of them shall
	// wait for a registry that just didn't answer another.
	retryAfter = 10 * time.Minute
)

//go:embed build-image.sh
var buildScript []byte

func wantedImage() string {
	if image := os.Getenv("REDIS_IMAGE"); image != "" {
		return image
	}
	return defaultImage
}

// findImage returns the name of an image that the engine has: the wanted one or its
// stand-in, after pulling or building it if need be.
func (d *docker) findImage(ctx context.Context, image string) (string, error) {
	if name, err := d.localImage(ctx, image); name != "" || err != nil {
		return name, err
	}
	slot := imageSlot(image)
	lock, err := lockFile(slot + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	// Another process may have got it while this one waited for the lock.
	if name, err := d.localImage(ctx, image); name != "" || err != nil {
		return name, err
	}
	failure := slot + ".failed"
	if why, ok := recentFailure(failure); ok {
		return "", errors.New(why)
	}
	if err := d.getImage(ctx, image); err != nil {
		// Best effort: without the note the next process tries again.
		_ = os.WriteFile(failure, []byte(err.Error()), 0o644)
		return "", err
	}
	_ = os.Remove(failure)
	return d.localImage(ctx, image)
}

func (d *docker) localImage(ctx context.Context, image string) (string, error) {
	for _, name := range []string{image, standinPrefix + image} {
		_, err := d.client.ImageInspect(ctx, name)
		if err == nil {
			return name, nil
		}
		if !errdefs.IsNotFound(err) {
			return "", fmt.Errorf("look for image %s: %w", name, err)
		}
	}
	return "", nil
}

func (d *docker) getImage(ctx context.Context, image string) error {
	pullErr := d.pull(ctx, image)
	if pullErr == nil {
		return nil
	}
	if err := buildStandin(ctx, image); err != nil {
		return errors.Join(
			fmt.Errorf("pull %s: %w", image, pullErr),
			fmt.Errorf("build a stand-in for %s: %w", image, err))
	}
	return nil
}

func (d *docker) pull(ctx context.Context, image string) error {
	ctx, cancel := context.WithTimeout(ctx, pullTimeout)
	defer cancel()
	progress, err := d.client.ImagePull(ctx, image, client.ImagePullOptions{})
	if err != nil {
		return err
	}
	defer progress.Close()
	return progress.Wait(ctx)
}

func buildStandin(ctx context.Context, image string) error {
	cmd := exec.CommandContext(ctx, "bash", "-s", "--", image)
	cmd.Stdin = bytes.NewReader(buildScript)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.Discard, &output
	cmd.WaitDelay = time.Second // a child of the script may keep the pipe open
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(output.String()))
	}
	return nil
}

func recentFailure(path string) (why string, recent bool) {
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) > retryAfter {
		return "", false
	}
	content, err := os.ReadFile(path)
	return string(content) + " (tried a moment ago)", err == nil
}

// imageSlot is where the processes of this machine meet that want one image: the
// beginning of the names of a lock file and of the note about a failure.
func imageSlot(image string) string {
	name := strings.NewReplacer("/", "-", ":", "-", "@", "-").Replace(image)
	return filepath.Join(os.TempDir(), "redistest-image-"+name)
}
