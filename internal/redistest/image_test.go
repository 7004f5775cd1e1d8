package redistest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestImageThatNobodyHasIsAskedForOnce(t *testing.T) {
	t.Parallel()
	docker, err := connectDocker()
	if err != nil {
		require.NoError(t, probe(kindBinary)) // a machine without Docker
		return
	}
	// Not a name that another run may be looking for at the same time.
	image := "redistest/no-such-image:" + filepath.Base(t.TempDir()) + "-" + time.Now().Format("150405.000000")
	slot := imageSlot(image)
	t.Cleanup(func() {
		require.NoError(t, os.Remove(slot+".lock"))
		require.NoError(t, os.Remove(slot+".failed"))
	})
	ctx, cancel := context.WithTimeout(t.Context(), lifecycleTimeout)
	defer cancel()
	_, err = docker.findImage(ctx, image)
	require.ErrorContains(t, err, "pull "+image)
	require.ErrorContains(t, err, "build a stand-in")
	_, err = docker.findImage(ctx, image)
	require.ErrorContains(t, err, "tried a moment ago")
}

func TestOldFailureIsForgotten(t *testing.T) {
	t.Parallel()
	note := filepath.Join(t.TempDir(), "failed")
	require.NoError(t, os.WriteFile(note, []byte("no network"), 0o600))
	why, recent := recentFailure(note)
	require.True(t, recent)
	require.Contains(t, why, "no network")
	old := time.Now().Add(-2 * retryAfter)
	require.NoError(t, os.Chtimes(note, old, old))
	_, recent = recentFailure(note)
	require.False(t, recent)
}
