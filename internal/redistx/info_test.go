package redistx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/exchange"
)

func TestIdentityIsReadByLine(t *testing.T) {
	t.Parallel()
	runID, uptime, err := identity("txt:run_id:abc\r\nexecutable:/x/run_id:evil\r\nuptime_in_seconds:12\r\n")
	require.NoError(t, err)
	require.Equal(t, "abc", runID)
	require.Equal(t, int64(12), uptime)

	_, _, err = identity("# Server\r\nuptime_in_seconds:12\r\n")
	require.ErrorIs(t, err, errNoRunID)
	_, _, err = identity("run_id:abc\r\n")
	require.ErrorIs(t, err, errNoUptime)
	_, _, err = identity("run_id:abc\r\nuptime_in_seconds:soon\r\n")
	require.Error(t, err)
}

func TestKindsOfErrorReplies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]exchange.Kind{
		"OOM command not allowed when used memory > 'maxmemory'.":                         exchange.OOM,
		"EXECABORT Transaction discarded because of: OOM command not allowed":             exchange.OOM,
		"EXECABORT Transaction discarded because of previous errors.":                     exchange.Other,
		"EXECABORT Transaction discarded because of: something new":                       exchange.Other,
		"EXECABORT Transaction discarded because of: NOPERM this user has no permissions": exchange.NoPerm,
		"max number of clients reached":                                                   exchange.MaxClients,
		"unknown command 'WATCH', with args beginning with: 'a'":                          exchange.Unsupported,
		"CROSSSLOT Keys in request don't hash to the same slot":                           exchange.Unsupported,
		"NOREPLICAS Not enough good replicas to write.":                                   exchange.NoReplicas,
		"MASTERDOWN Link with MASTER is down":                                             exchange.ReadOnly,
		"OOMPH":                                                                           exchange.Other,
		"":                                                                                exchange.Other,
	} {
		require.Equal(t, want, kindOf(text), text)
	}
}
