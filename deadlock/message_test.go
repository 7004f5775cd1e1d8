package deadlock

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func goldenMessages() map[string]Message {
	a := wait("0190f3c1-0000-7000-8000-00000000000a", 1_700_000_000_000_001, "w:a", "r:c", "|", "w:b")
	a.Blockers = []Blocker{{Name: "b", IDs: []string{"acq-1", "acq-2"}}}
	a.Site = "job.go:12"
	p := wait("0190f3c1-0000-7000-8000-00000000000b", 1_700_000_000_000_002, "|", "w:a", "r:naïve \"name\"\n")
	p.Count = 12
	a.Node, p.Node = "n1", "n1"
	m := Message{Node: "n1", Incarnation: 1_700_000_000_000_000, Seq: 7}
	kind := func(k Kind, change func(*Message)) Message {
		c := m
		c.Kind = k
		change(&c)
		return c
	}
	return map[string]Message{
		"full":       kind(Full, func(m *Message) { m.Put, m.Parts = []Waiter{a, p}, 1 }),
		"full_empty": kind(Full, func(m *Message) { m.Parts = 1 }),
		"delta":      kind(Delta, func(m *Message) { m.Put, m.Removed = []Waiter{p}, []string{a.ID} }),
		"alive":      kind(Alive, func(m *Message) { m.Waiters, m.Sum = 2, 1<<63+5 }),
		"ask":        kind(Ask, func(m *Message) { m.Seq = 0 }),
		"ask_one":    kind(Ask, func(m *Message) { m.Seq, m.To = 0, "n2" }),
	}
}

// The wire form is what nodes of different releases share: a change here is a new
// version.
func TestGoldenMessages(t *testing.T) {
	t.Parallel()
	for name, m := range goldenMessages() {
		path := filepath.Join("testdata", "messages", name+".json")
		parts, err := Encode(m, Limits{})
		require.NoError(t, err)
		require.Len(t, parts, 1)
		if *rewrite {
			require.NoError(t, os.WriteFile(path, append(parts[0], '\n'), 0o644))
		}
		golden, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(bytes.TrimSpace(golden)), string(parts[0]), name)
		back, err := Decode(golden, Limits{})
		require.NoError(t, err)
		require.Equal(t, m, back, name)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	head := `{"v":1,"node":"n","inc":1,"seq":1,"kind":"delta"`
	deep := head + `,"put":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}"
	waiter := func(fields string) string { return head + `,"put":[{` + fields + `}]}` }
	for name, c := range map[string]struct {
		data string
		want error
	}{
		"empty":               {"", ErrMalformed},
		"null":                {"null", ErrVersion},
		"array":               {"[]", ErrMalformed},
		"no version":          {"{}", ErrVersion},
		"higher version":      {`{"v":2,"node":7}`, ErrVersion},
		"version as text":     {`{"v":"1"}`, ErrMalformed},
		"trailing data":       {head + "}{}", ErrMalformed},
		"cut off":             {head, ErrMalformed},
		"not UTF-8":           {head + ",\"to\":\"\xff\"}", ErrMalformed},
		"too big":             {head + `,"to":"` + strings.Repeat("x", 20_000) + `"}`, ErrTooBig},
		"too deep":            {deep, ErrMalformed},
		"no node":             {`{"v":1,"inc":1,"seq":1,"kind":"delta"}`, ErrMalformed},
		"long node":           {`{"v":1,"node":"` + strings.Repeat("n", 129) + `","inc":1,"seq":1,"kind":"delta"}`, ErrMalformed},
		"no incarnation":      {`{"v":1,"node":"n","seq":1,"kind":"delta"}`, ErrMalformed},
		"no number":           {`{"v":1,"node":"n","inc":1,"kind":"delta"}`, ErrMalformed},
		"negative number":     {`{"v":1,"node":"n","inc":1,"seq":-1,"kind":"ask"}`, ErrMalformed},
		"number beyond int64": {`{"v":1,"node":"n","inc":1,"seq":9223372036854775808,"kind":"delta"}`, ErrMalformed},
		"unknown kind":        {`{"v":1,"node":"n","inc":1,"seq":1,"kind":"kill"}`, ErrMalformed},
		"part beyond parts":   {`{"v":1,"node":"n","inc":1,"seq":1,"kind":"full","part":1,"parts":1}`, ErrMalformed},
		"endless parts":       {`{"v":1,"node":"n","inc":1,"seq":1,"kind":"full","parts":1000000000}`, ErrMalformed},
		"ask with a list":     {`{"v":1,"node":"n","inc":1,"kind":"ask","put":[{}]}`, ErrMalformed},
		"full with removals":  {`{"v":1,"node":"n","inc":1,"seq":1,"kind":"full","parts":1,"del":["x"]}`, ErrMalformed},
		"negative size":       {`{"v":1,"node":"n","inc":1,"seq":1,"kind":"alive","waiters":-1}`, ErrMalformed},
		"empty removal":       {head + `,"del":[""]}`, ErrMalformed},
		"null waiter":         {head + `,"put":[null]}`, ErrMalformed},
		"waiter without id":   {waiter(`"since":1,"wants":[{"n":"x"}]`), ErrMalformed},
		"waiter of no time":   {waiter(`"id":"a","wants":[{"n":"x"}]`), ErrMalformed},
		"waiter for nothing":  {waiter(`"id":"a","since":1`), ErrMalformed},
		"empty name":          {waiter(`"id":"a","since":1,"wants":[{"n":""}]`), ErrMalformed},
		"long name":           {waiter(`"id":"a","since":1,"wants":[{"n":"` + strings.Repeat("n", 513) + `"}]`), ErrMalformed},
		"hold without id":     {waiter(`"id":"a","since":1,"wants":[{"n":"x"}],"holds":[{"n":"y"}]`), ErrMalformed},
		"too many names":      {waiter(`"id":"a","since":1,"wants":[` + strings.Repeat(`{"n":"x"},`, 256) + `{"n":"x"}]`), ErrMalformed},
		"negative count":      {waiter(`"id":"a","since":1,"wants":[{"n":"x"}],"count":-1`), ErrMalformed},
		"blocker of no name":  {waiter(`"id":"a","since":1,"wants":[{"n":"x"}],"by":[{}]`), ErrMalformed},
	} {
		_, err := Decode([]byte(c.data), Limits{})
		require.ErrorIs(t, err, c.want, name)
		require.Less(t, len(err.Error()), 120, "an error must not carry the message: %s", name)
	}
}

// A later release of the same version may add fields.
func TestDecodeIgnoresUnknownFields(t *testing.T) {
	t.Parallel()
	m, err := Decode([]byte(`{"v":1,"node":"n","inc":1,"seq":1,"kind":"delta","new":{"x":[1]},"put":[{"id":"a","since":1,"wants":[{"n":"x","new":1}]}]}`), Limits{})
	require.NoError(t, err)
	require.Equal(t, []Waiter{{ID: "a", Node: "n", SinceMicros: 1, Count: 1, Wants: []Want{{Name: "x"}}}}, m.Put)
}

func TestSplitKeepsEachPartBelowTheCapAndLosesNothing(t *testing.T) {
	t.Parallel()
	m := Message{Node: "n\x01", Incarnation: 1, Seq: 1, Kind: Delta}
	for i := range 500 {
		w := wait(numbered("", i), 1, "w:"+strings.Repeat("<", i%40+1), "|", "w:b")
		w.Node = m.Node
		m.Put = append(m.Put, w)
		m.Removed = append(m.Removed, numbered("gone\x02", i))
	}
	limits := Limits{MessageBytes: 2048}
	parts, err := Encode(m, limits)
	require.NoError(t, err)
	require.Less(t, len(parts), 150, "parts are filled")
	var back Message
	for _, data := range parts {
		require.LessOrEqual(t, len(data), limits.MessageBytes)
		part, err := Decode(data, limits)
		require.NoError(t, err)
		back.Put, back.Removed = append(back.Put, part.Put...), append(back.Removed, part.Removed...)
	}
	require.Equal(t, m.Put, back.Put)
	require.Equal(t, m.Removed, back.Removed)
}

func TestWaiterThatFitsInNoMessageIsAnError(t *testing.T) {
	t.Parallel()
	w := wait("A", 1, "w:"+strings.Repeat("\x01", 500), "|", "w:b")
	_, err := Encode(Message{Node: "n", Incarnation: 1, Seq: 1, Kind: Delta, Put: []Waiter{w}}, Limits{MessageBytes: 2048})
	require.ErrorIs(t, err, ErrTooBig)
}

// A waiter just small enough for the table must fit with the longest header.
func TestWhateverTheTableKeepsCanBeSent(t *testing.T) {
	t.Parallel()
	limits := Limits{MessageBytes: 2048}
	table := newTestTable(t, strings.Repeat("\x01", maxIDBytes), limits)
	kept := 0
	for n := 1; n <= maxNameBytes; n++ {
		w := wait("A", 1<<62, "w:"+strings.Repeat("\x01", n), "|", "w:b")
		if len(table.Put(w)) > 0 {
			kept = n
			require.Len(t, table.Full(), 1)
			require.Len(t, table.Repeat(), 1)
		}
	}
	require.Greater(t, kept, 100)
	require.Less(t, kept, maxNameBytes)
}

func TestRepeatIsOneMessageHoweverLongTheList(t *testing.T) {
	t.Parallel()
	table := newTestTable(t, "b", Limits{})
	require.Len(t, table.Repeat(), 1, "says that nobody waits")
	for i := range 2000 {
		table.Put(wait(numbered("", i), 1, "w:a", "|", "w:"+numbered("x", i)))
	}
	require.Greater(t, len(table.Delta()), 1)
	repeat := table.Repeat()
	require.Len(t, repeat, 1)
	m, err := Decode(repeat[0], Limits{})
	require.NoError(t, err)
	require.Equal(t, Alive, m.Kind)
	require.Equal(t, 2000, m.Waiters)

	other := newTestTable(t, "a", Limits{})
	require.Equal(t, "b", other.Apply(m, 0).Ask)
	deliver(t, other, table.Full(), 0)
	deliver(t, other, table.Repeat(), lapse-1)
	require.Len(t, other.Waiters(), 2000)
	require.Zero(t, other.Expire(lapse+1))

	for i := range 2000 {
		table.Remove(numbered("", i))
	}
	for range emptyRepeats {
		require.Len(t, table.Repeat(), 1)
	}
	require.Nil(t, table.Repeat(), "then it is quiet")
}

func deliver(t *testing.T, table *Table, messages [][]byte, now int64) {
	t.Helper()
	for _, data := range messages {
		m, err := Decode(data, table.cfg.Limits)
		require.NoError(t, err)
		table.Apply(m, now)
	}
}

func FuzzDecode(f *testing.F) {
	for _, m := range goldenMessages() {
		parts, err := Encode(m, Limits{})
		require.NoError(f, err)
		f.Add(parts[0])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data, Limits{})
		if err != nil {
			return
		}
		// What was read can be sent again. It may need one part more: JSON may
		// have been shorter than what this package writes.
		parts, err := Encode(m, Limits{MessageBytes: 1 << 20})
		require.NoError(t, err)
		require.Len(t, parts, 1)
		back, err := Decode(parts[0], Limits{MessageBytes: 1 << 20})
		require.NoError(t, err)
		again, err := Encode(back, Limits{MessageBytes: 1 << 20})
		require.NoError(t, err)
		require.Equal(t, string(parts[0]), string(again[0]))
	})
}

// FuzzApply feeds a table whatever decodes, and checks its books.
func FuzzApply(f *testing.F) {
	for _, m := range goldenMessages() {
		parts, err := Encode(m, Limits{})
		require.NoError(f, err)
		f.Add(parts[0], parts[0], int64(1))
	}
	f.Fuzz(func(t *testing.T, first, second []byte, now int64) {
		limits := Limits{Nodes: 1, WaitersPerNode: 2, TotalBytes: 2000}
		table, err := NewTable(Config{Node: "me", Incarnation: 1, LapseMillis: 1, Limits: limits})
		require.NoError(t, err)
		for _, data := range [][]byte{first, second, first} {
			m, err := Decode(data, limits)
			if err != nil {
				continue
			}
			found := table.Find(table.Apply(m, now).Search...)
			require.LessOrEqual(t, len(found), len(table.Waiters()))
			requireBooks(t, table)
		}
		table.Expire(now + 1)
		requireBooks(t, table)
	})
}
