package keyspace

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Whatever the names are, two of them never meet in one key, and none reaches a
// key or channel of another kind, or another prefix's.
func FuzzNameToKey(f *testing.F) {
	f.Add("orders", "orders ", "app", "app2")
	f.Add("a:b", "a", "p:lock", "p")
	f.Add("}:server", "server", "app", "app:")
	f.Add("\u00e9", "e\u0301", "p", "P")
	f.Fuzz(func(t *testing.T, a, b, prefix, other string) {
		s, err := New(prefix)
		if err != nil {
			return
		}
		if CheckName(a) != nil {
			require.True(t, a == "" || len(a) > MaxNameBytes || !utf8.ValidString(a), "only such names are refused")
			return
		}
		key := s.Lock(a)
		back, ok := s.LockName(key)
		require.True(t, ok)
		require.Equal(t, a, back)
		require.True(t, strings.HasPrefix(key, "{"+prefix+"}:"), "an ACL rule of the prefix opens it")
		if CheckName(b) == nil && a != b {
			require.NotEqual(t, key, s.Lock(b))
		}
		for _, kind := range []string{s.Server(), s.Waiting(), s.SelfTest(b), s.Wake(b), s.Graph(b)} {
			require.NotEqual(t, kind, key)
			_, isLock := s.LockName(kind)
			require.False(t, isLock)
		}
		if o, err := New(other); err == nil && other != prefix {
			_, reached := o.LockName(key)
			require.False(t, reached)
			require.False(t, strings.HasPrefix(key, "{"+other+"}"), "one slot, and one ACL rule, per prefix")
		}
	})
}
