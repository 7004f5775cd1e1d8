package lockservice_test

import (
	"testing"

	"github.com/redislockservice/redislockservice/internal/locktest"
	"github.com/redislockservice/redislockservice/internal/redistest"
)

// The promises of the public API are tried on fake time, where they are exact, and on
// a real server, where they are real. The scenarios are in package locktest.

func TestConformanceInBubble(t *testing.T) {
	t.Parallel()
	locktest.Exercise(t, locktest.InBubble())
}

func TestConformanceOnRedis(t *testing.T) {
	t.Parallel()
	locktest.Exercise(t, locktest.OnRedis())
}

func TestMain(m *testing.M) { redistest.Main(m) }
