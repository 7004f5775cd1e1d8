package lane

import (
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/internal/faketime"
	"github.com/redislockservice/redislockservice/internal/lockrules"
	"github.com/redislockservice/redislockservice/jsonhandler"
)

// TestCorruptRecordIsOnlyItsNamesAffair: who asks for it is told, and it is left
// as it is; others don't notice.
func TestCorruptRecordIsOnlyItsNamesAffair(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"no json": "nonsense", "empty": "", "array": "[]", "no record": "{}", "newer": `{"v":99,"lockName":"bad"}`,
		"of another lock": `{"v":1,"lockName":"other"}`, "owner without id": `{"v":1,"lockName":"bad","writeOwner":{}}`,
		"wrong type": "\x00list",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, s *setting) {
				n := s.node()
				key := s.keys.Lock("bad")
				if s.r.Put(key, []byte(value), 0); value == "\x00list" {
					s.r.PutOther(key)
				}
				good := make(chan bool)
				go func() { good <- n.try(t.Context(), "good", write("good"), 0).granted }()
				requireCorrupt(t, n.try(t.Context(), "1", write("bad"), time.Hour).err, key)
				require.True(t, <-good)
				requireCorrupt(t, n.try(t.Context(), "2", write("a", "bad"), 0).err, key)
				require.Empty(t, s.holders("a"), "all or none")
				r, err := n.Read(t.Context(), []string{"good", "bad"})
				require.NoError(t, err)
				require.Len(t, r.Errs, 1)
				require.Len(t, r.Records, 1)
				if got, ok := s.r.Get(key); value != "\x00list" {
					require.True(t, ok)
					require.Equal(t, value, string(got))
				}
			})
		})
	}
}

// TestRecordThatTurnsCorruptEndsItsWaitersAndTheirMarks on the other names, too.
func TestRecordThatTurnsCorruptEndsItsWaitersAndTheirMarks(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		a, b, c := s.node(), s.node(), s.node()
		a.get("r", readOf("n"))
		a.get("w", write("bad"))
		both := b.start(t.Context(), "both", write("n", "bad"), time.Hour)
		here := b.start(t.Context(), "here", readOf("n"), time.Hour)
		there := c.start(t.Context(), "there", readOf("n"), time.Hour)
		s.r.Put(s.keys.Lock("bad"), []byte("nonsense"), 0)
		b.Wake([]string{"bad"})
		faketime.Pass(50 * moment)
		requireCorrupt(t, both().err, s.keys.Lock("bad"))
		require.True(t, here().granted)
		require.True(t, there().granted)
		require.Empty(t, s.marks("n"))
	})
}

// TestMemoryOfTheServerThatTurnsCorruptStopsGrantsButNoReleases.
func TestMemoryOfTheServerThatTurnsCorruptStopsGrantsButNoReleases(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		g := n.get("1", write("n"))
		s.r.Put(s.keys.Server(), []byte("nonsense"), 0)
		requireCorrupt(t, n.try(t.Context(), "2", write("m"), 0).err, s.keys.Server())
		_, _, err := n.Renew(t.Context(), []string{"n"}, renewal("1"), g.RunID, false)
		requireCorrupt(t, err, s.keys.Server())
		require.Equal(t, lockrules.Done, n.let("1", "n"))
		require.Empty(t, s.holders("n"))
		left, _ := s.r.Get(s.keys.Server())
		require.Equal(t, "nonsense", string(left))
		s.r.Delete(s.keys.Server())
		require.False(t, n.try(t.Context(), "3", write("n"), 0).granted, "then its loss counts as one of data")
		require.True(t, n.try(t.Context(), "4", write("n"), 2*testLease).granted)
	})
}

func TestUnknownFieldsSurvive(t *testing.T) {
	inBubble(t, func(t *testing.T, s *setting) {
		n := s.node()
		n.get("1", write("n"))
		data, _ := s.r.Get(s.keys.Lock("n"))
		s.r.Put(s.keys.Lock("n"), []byte(strings.NewReplacer(`"v":1`, `"v":1,"new":{"a":[1]}`, `"id":"1"`, `"id":"1","shoe":42`).Replace(string(data))), 0)
		data, _ = s.r.Get(s.keys.Server())
		s.r.Put(s.keys.Server(), []byte(strings.Replace(string(data), `"v":1`, `"v":1,"more":true`, 1)), 0)
		n.let("1", "n")
		n.get("2", readOf("n"))
		s.node(func(c *Config) { c.Lease *= 2 }).try(t.Context(), "3", write("m"), 0) // writes the memory of the server
		var got map[string]any
		data, _ = s.r.Get(s.keys.Lock("n"))
		require.NoError(t, json.Unmarshal(data, &got))
		require.Equal(t, map[string]any{"a": []any{1.0}}, got["new"])
		require.Equal(t, 42.0, got["writeOwner"].(map[string]any)["shoe"])
		data, _ = s.r.Get(s.keys.Server())
		require.Contains(t, string(data), `"more":true`)
		require.Contains(t, string(data), `"leaseMillis":120000`)
	})
}

// moody is a JSON handler that fails on demand.
type moody struct {
	jsonhandler.Handler
	marshal, unmarshal atomic.Int32 // 0: well, 1: fails, 2: panics
}

func (m *moody) Marshal(v any) ([]byte, error) {
	if err := mood(m.marshal.Load()); err != nil {
		return nil, err
	}
	return m.Handler.Marshal(v)
}

func (m *moody) Unmarshal(data []byte, v any) error {
	if err := mood(m.unmarshal.Load()); err != nil {
		return err
	}
	return m.Handler.Unmarshal(data, v)
}

var errMood = errors.New("in no mood")

func mood(m int32) error {
	switch m {
	case 1:
		return errMood
	case 2:
		panic("in no mood")
	}
	return nil
}

// TestJSONHandlerThatFailsOrPanicsHurtsNobodyForLong: the caller is told, and
// the lane goes on.
func TestJSONHandlerThatFailsOrPanicsHurtsNobodyForLong(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(m *moody, how int32){
		"writing": func(m *moody, how int32) { m.marshal.Store(how) },
		"reading": func(m *moody, how int32) { m.unmarshal.Store(how) },
	} {
		for how, verb := range []string{1: "fails", 2: "panics"} {
			if verb == "" {
				continue
			}
			t.Run(name+" "+verb, func(t *testing.T) {
				inBubble(t, func(t *testing.T, s *setting) {
					m := &moody{Handler: jsonhandler.Standard}
					n, other := s.node(func(c *Config) { c.JSON = m }), s.node()
					n.get("1", write("n"))
					other.get("2", write("m"))
					w := n.start(t.Context(), "3", write("m"), time.Hour)
					hurt(m, int32(how))
					other.let("2", "m") // wakes n: this is not carried by a caller
					faketime.Pass(time.Second)
					other.try(t.Context(), "4", readOf("m"), 0)
					began := time.Now()
					a := n.try(t.Context(), "5", write("m"), 0)
					require.Error(t, a.err)
					require.ErrorContains(t, a.err, "in no mood")
					require.Less(t, time.Since(began), time.Second)
					_, _ = n.Release(t.Context(), []string{"n"}, lockrules.Release{ID: "1", Outcome: lockrules.OK}, testLease)
					hurt(m, 0)
					faketime.Pass(2 * testPoll)
					require.ErrorContains(t, w().err, "in no mood")
					n.get("6", write("l"))
				})
			})
		}
	}
}
