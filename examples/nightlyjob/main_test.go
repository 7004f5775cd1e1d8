package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redislockservice/redislockservice/examples/internal/redisenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStory(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, redisenv.Tell(t.Context(), &out, tell))
	t.Log(out.String())
	nights := strings.Split(out.String(), "day.")
	require.Len(t, nights, 4)
	for i, night := range nights[1:] {
		require.Equal(t, 1, strings.Count(night, "runs the job")+strings.Count(night, "dies"), "night %d", i)
	}
	require.Contains(t, nights[1], "last run:     ok by")
	require.Contains(t, nights[2], "last run:     crashed by")
	require.Contains(t, nights[2], "last success: ok by", "Monday's")
	require.Contains(t, nights[3], "last run:     ok by")
}
