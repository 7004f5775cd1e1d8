package redistx

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// infoCalls is how often the server was asked for INFO; the asking counts.
func infoCalls(t *testing.T, s *server) int {
	t.Helper()
	client := newClient(t, s.addr)
	text, err := client.Do(within(t, bound), client.B().Info().Section("commandstats").Build()).ToString()
	require.NoError(t, err)
	calls := 0
	infoFields(text, func(name, value string) bool {
		if name == "cmdstat_info" {
			calls = int(number(t, strings.TrimPrefix(value, "calls=")))
		}
		return true
	})
	return calls
}

func number(t *testing.T, text string) (n int64) {
	t.Helper()
	digits, _, _ := strings.Cut(text, ",")
	for _, d := range digits {
		n = 10*n + int64(d-'0')
	}
	return n
}

func TestServerIsIdentifiedOncePerConnectionAndSecond(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newPort(t, newClient(t, s.addr))
	before := infoCalls(t, s)
	began := time.Now()
	first := read(t, p, "a")
	for range 200 {
		snap := read(t, p, "a")
		require.Equal(t, first.RunID, snap.RunID)
		require.GreaterOrEqual(t, snap.Uptime, first.Uptime)
	}
	asked := infoCalls(t, s) - before - 1 // one was ours
	require.Positive(t, asked)
	require.LessOrEqual(t, asked, 1+int(time.Since(began)/identityLasts))
}

func TestServerIsIdentifiedAgainAfterAWhile(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newPort(t, newClient(t, s.addr))
	read(t, p, "a")
	p.conn.runID, p.conn.uptime = "of something in between", 7
	require.Equal(t, "of something in between", read(t, p, "a").RunID, "it counts for a while")
	p.conn.asked = time.Now().Add(-identityLasts)
	require.Len(t, read(t, p, "a").RunID, 40)
}

// A connection leads to one start of one server; the next may lead to another.
func TestServerIsIdentifiedAnewOnEachConnection(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	p := newPort(t, newClient(t, s.addr))
	first := read(t, p, "a")
	s.restart()
	require.Eventually(t, func() bool {
		_, snap, err := p.Exchange(within(t, bound), nil, []string{"a"})
		return err == nil && snap.RunID != first.RunID && len(snap.RunID) == 40
	}, bound, time.Millisecond)
}
