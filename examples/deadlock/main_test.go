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
	story := out.String()
	t.Log(story)

	require.Equal(t, 1, strings.Count(story, "gives up after"), "victims")
	require.Equal(t, 3, strings.Count(story, "has both and transfers"), "the survivor, and then both")
	require.Contains(t, story, "deadlock of 2 waiters")
	require.Regexp(t, `(?s)holds write "account-a".*waits for write "account-b"`, story)
	require.Regexp(t, `(?s)holds write "account-b".*waits for write "account-a"`, story)
	require.Contains(t, story, `, at "deadlock/main.go:`, "where in the code the parties wait")
}
