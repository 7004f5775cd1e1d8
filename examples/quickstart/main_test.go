package main

import (
	"bytes"
	"regexp"
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

	require.ElementsMatch(t, []string{"anna", "ben", "cleo", "dora"}, workersInAndOut(t, story))
	require.Contains(t, story, "emil reads config meanwhile: readers share")
	require.Regexp(t, `fred doesn't wait: shop-[12] has customer-42`, story)
	require.Contains(t, story, "(the same fencing token: true) and acquires only invoice-8")
	require.Regexp(t, `last run: +error by "shop-2" \("the printer is on fire"\)`, story)
	require.Regexp(t, `last success: +ok by "shop-1"`, story)
}

// workersInAndOut are the workers in the order in which they got in. It fails if two
// were in at once: each must be done before the next is in.
func workersInAndOut(t *testing.T, story string) []string {
	t.Helper()
	var order []string
	inside := ""
	for _, m := range regexp.MustCompile(`(anna|ben|cleo|dora) +is (in|done)(.*)`).FindAllStringSubmatch(story, -1) {
		if m[2] == "in" {
			require.Empty(t, inside, "%s is in before %s is done", m[1], inside)
			inside = m[1]
			continue
		}
		require.Equal(t, inside, m[1])
		require.Contains(t, m[3], "held its locks all the time: true")
		order, inside = append(order, m[1]), ""
	}
	require.Empty(t, inside)
	return order
}
