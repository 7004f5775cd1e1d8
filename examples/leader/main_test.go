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
	require.Equal(t, 3, strings.Count(out.String(), " leads"))
	require.Contains(t, out.String(), "steps down: context canceled", "the shutdown")
	require.Contains(t, out.String(), "steps down: lockservice: lock lost", "the cut line")
}
