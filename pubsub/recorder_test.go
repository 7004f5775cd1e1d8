package pubsub

import (
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pause is for loops that poll a real server.
func pause() { <-time.After(2 * time.Millisecond) }

func splitLines(text []byte) iter.Seq[string] {
	return strings.SplitSeq(strings.ReplaceAll(string(text), "\r", ""), "\n")
}

// recorder is a handler that keeps what it was called with, in order.
type recorder struct{ events chan string }

func newRecorder() *recorder { return &recorder{events: make(chan string, 100_000)} }

func (r *recorder) handler() Handler {
	return Handler{
		Message: func(payload string) { r.events <- payload },
		Down:    func(error) { r.events <- "<down>" },
		Up:      func() { r.events <- "<up>" },
	}
}

// next is the next event, which must come.
func (r *recorder) next(t *testing.T) string {
	t.Helper()
	select {
	case e := <-r.events:
		return e
	case <-time.After(patience):
		require.FailNow(t, "the handler was not called")
		return ""
	}
}

func (r *recorder) expect(t *testing.T, events ...string) {
	t.Helper()
	for _, want := range events {
		require.Equal(t, want, r.next(t))
	}
}
