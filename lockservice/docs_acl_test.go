package lockservice_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/redistest"
	"github.com/redislockservice/redislockservice/lockservice"
)

// documentedACL is the rule of docs/operations.md, as arguments of ACL SETUSER.
func documentedACL(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?s)\nACL SETUSER (.*?)\n\x60\x60\x60`).FindSubmatch(text)
	require.NotNil(t, found, "docs/operations.md shows no ACL rule")
	return strings.Fields(strings.ReplaceAll(string(found[1]), "\\\n", " "))
}

func aclServer(t *testing.T, rule []string) (server *redistest.Server, url string) {
	t.Helper()
	server = redistest.Start(t)
	server.Do(t, append([]string{"ACL", "SETUSER"}, rule...)...)
	return server, "redis://locks:change-me@" + server.Addr() + "/0"
}

// A user that has just the documented rights can do everything, and nothing is
// refused to it on the quiet.
func TestDocumentedACLIsEnough(t *testing.T) {
	t.Parallel()
	server, url := aclServer(t, documentedACL(t))
	opts := []lockservice.Option{lockservice.WithPollDelay(100 * time.Millisecond), lockservice.WithLeaseTime(time.Second)}
	var all [2]*lockservice.RedisLockService
	for i := range all {
		svc, err := lockservice.Open(t.Context(), url, opts...)
		require.NoError(t, err)
		t.Cleanup(func() { _ = svc.Close(context.Background()) }) // if the test fails before it closes it
		require.NoError(t, svc.WaitUntilReady(t.Context()))
		all[i] = svc
	}
	useEverything(t, all[0], all[1])
	for _, svc := range all {
		require.NoError(t, svc.Close(t.Context()))
	}
	log := server.Do(t, "ACL", "LOG")
	entries, err := log.ToArray()
	require.NoError(t, err)
	require.Empty(t, entries, "refused: %s", log.String())
}

// useEverything locks, waits, renews, runs into a deadlock, looks and lists.
func useEverything(t *testing.T, a, b *lockservice.RedisLockService) {
	t.Helper()
	errs, _ := crossing(t, a, b, 10*time.Second, "acl")
	require.NotEqual(t, errs[0] == nil, errs[1] == nil, "%v and %v: one is the victim", errs[0], errs[1])

	held, err := a.Acquire(t.Context(), []lockservice.Lock{lockservice.WriteLock("x")})
	require.NoError(t, err)
	waits := make(chan error, 1)
	go func() {
		second, err := b.Acquire(context.Background(), []lockservice.Lock{lockservice.ReadLock("x")}, lockservice.WithTimeout(time.Minute))
		_ = second.Release(context.Background())
		waits <- err
	}()
	renewed := func() bool {
		infos, err := a.GetLockInfo(t.Context(), []string{"x"})
		require.NoError(t, err)
		w := infos[0].WriteOwner
		return w.ExpiresAt().Sub(w.AcquiredAt()) > 2*time.Second && len(infos[0].Waiting) == 1
	}
	require.Eventually(t, renewed, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, <-waits)

	ran, err := b.Execute(t.Context(), "job", time.Minute, 0, func(context.Context) error { return nil })
	require.NoError(t, err)
	require.True(t, ran)
	listed := 0
	for _, err := range a.ListLocks(t.Context(), "*") {
		require.NoError(t, err)
		listed++
	}
	require.Positive(t, listed)
}

// Each right is needed: without it either the check-up says so, or the one call that
// the document names fails.
func TestDocumentedACLHasNothingTooMuch(t *testing.T) {
	t.Parallel()
	rule := documentedACL(t)
	server, url := aclServer(t, rule)
	for _, right := range rule {
		command, ok := strings.CutPrefix(right, "+")
		if !ok || slices.Contains([]string{"ping", "unsubscribe", "punsubscribe", "sunsubscribe", "discard", "scan", "select"}, command) {
			continue // what they are for is in the document
		}
		server.Do(t, "ACL", "SETUSER", "locks", "-"+command)
		svc, err := lockservice.Open(t.Context(), url)
		if err == nil {
			_ = svc.Close(t.Context())
		}
		require.Error(t, err, "without +%s", command)
		require.Contains(t, err.Error(), "+"+command)
		server.Do(t, "ACL", "SETUSER", "locks", "+"+command)
	}
}
