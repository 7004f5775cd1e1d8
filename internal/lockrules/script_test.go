package lockrules

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestScripts runs the stories in testdata/*.txt. A script is a list of blocks
// with blank lines between them: commands, a line "----", and what they print.
// Lines that begin with # are comments. `go test -run Scripts -rewrite` writes
// down what is printed now: commit that only if you know why it has changed.
//
// The clock stands at 100000 ms when a script begins. A command is a word and
// its arguments; NAME is a lock, ID an acquisition, NODE a node, and times are
// milliseconds:
//
//	acquire ID NODE [in=ID,ID…] [lease=60] [keep] [since=MS] [parked=NAME,…] read:NAME… write:NAME…
//	                             since: when it began to wait;
//	                             parked: somebody on the own node waits to write that
//	release ID [ok|error|panic|lost|undone] [hold=MS] [text=WORD]
//	                             in all locks that were asked for; says whom it wakes
//	renew ID [seen=N]
//	mark NODE NAME nobody|read|write [since=MS]
//	                             since: when the first of those who wait there began
//	first NODE NAME [since=MS] [but=NODE,…]
//	                             whom one of NODE lets go first who could write and waits since;
//	                             but: these have had their turn
//	advance MS, back MS          move the clock; back is a clock that was set back
//	settle NAME                  what the first transaction after that does
//	lose NAME…                   the records are gone (evicted, deleted by hand)
//	snapshot, restore            keep all records, and bring them back as they were
//	restart RUN [uptime=S]       the server is this run now, and says so of its uptime
//	flushall                     records and the memory of the server are gone
//	server [lease=60] [known]    a service with that lease looks at the server
//	print NAME
//	end                          nothing is held and nobody waits, or the test fails
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			s := &script{t: t, now: 100_000, recs: map[string]Record{}, asked: map[string]Request{}, seen: Sighting{RunID: "run-1", Uptime: 3600}}
			got := s.run(string(data))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
				return
			}
			require.Equal(t, string(data), got)
			require.True(t, s.ended, "a script ends with \"end\"")
		})
	}
}

// script is the world of one script.
type script struct {
	t          *testing.T
	now        Millis
	recs       map[string]Record
	kept       map[string]Record // snapshot
	asked      map[string]Request
	seen       Sighting
	remembered *Server
	out        strings.Builder
	ended      bool
}

// run runs all blocks and gives the script with what they print now.
func (s *script) run(text string) string {
	var blocks []string
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		input, _, _ := strings.Cut(block, "\n----")
		s.out.Reset()
		for line := range strings.SplitSeq(input, "\n") {
			if line != "" && !strings.HasPrefix(line, "#") {
				s.command(line)
			}
		}
		if s.out.Len() > 0 {
			input += "\n----\n" + strings.TrimSuffix(s.out.String(), "\n")
		}
		blocks = append(blocks, input)
	}
	return strings.Join(blocks, "\n\n") + "\n"
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// args is the arguments of a command: those with "=" or of the form mode:name
// by what stands before it, the others in order.
type args struct {
	words []string
	named map[string]string
	wants []Want
}

func parse(fields []string) args {
	a := args{named: map[string]string{}}
	for _, f := range fields {
		key, value, isNamed := strings.Cut(f, "=")
		mode, name, isWant := strings.Cut(f, ":")
		switch {
		case isNamed:
			a.named[key] = value
		case isWant:
			a.wants = append(a.wants, Want{Name: name, Mode: map[string]Mode{"read": Read, "write": Write}[mode]})
		default:
			a.words = append(a.words, f)
		}
	}
	return a
}

func (a args) list(key string) []string {
	return strings.FieldsFunc(a.named[key], func(r rune) bool { return r == ',' })
}

func (s *script) millis(text string, otherwise Millis) Millis {
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(s.t, err)
	return Millis(n)
}

func (s *script) command(line string) {
	fields := strings.Fields(line)
	commands := map[string]func(args){
		"acquire": s.acquire, "release": s.release, "renew": s.renew, "mark": s.mark, "first": s.first,
		"advance": func(a args) { s.now += s.millis(a.words[0], 0) },
		"back":    func(a args) { s.now -= s.millis(a.words[0], 0) },
		"settle":  s.settle, "lose": s.lose, "snapshot": s.snapshot, "restore": s.restore,
		"restart": s.restart, "flushall": s.flushAll, "server": s.server, "print": s.print, "end": s.end,
	}
	run := commands[fields[0]]
	require.NotNil(s.t, run, "unknown command: %s", line)
	run(parse(fields[1:]))
}

func (s *script) rec(name string) Record {
	if r, ok := s.recs[name]; ok {
		return r
	}
	return Empty(name)
}

func (s *script) put(recs ...Record) {
	for _, r := range recs {
		s.recs[r.LockName] = r
	}
}

func (s *script) of(wants []Want) []Record {
	var recs []Record
	for _, w := range wants {
		recs = append(recs, s.rec(w.Name))
	}
	return recs
}

func (s *script) acquire(a args) {
	id, node := a.words[0], a.words[1]
	req := Request{Asker: Asker{ID: id, Owner: "owner-" + id, Node: node, Chain: a.list("in"), Since: s.millis(a.named["since"], 0)}, Wants: a.wants,
		LeaseMillis: s.millis(a.named["lease"], 60), Keep: slices.Contains(a.words, "keep")}
	s.asked[id] = req
	d := Acquire(s.of(a.wants), req, instant(s.now), func(name string) (Blocker, bool) {
		return Blocker{Name: name, Reason: WriterWaits, Mode: Write, ID: "parked", Node: node, Since: s.now, Until: s.now + 5},
			slices.Contains(a.list("parked"), name)
	})
	if d.Granted {
		s.put(d.Records...)
		s.printf("%s: granted, token %d, until %d", id, d.Token, d.ExpiresAt)
		return
	}
	s.printf("%s: blocked, again at %d", id, d.RetryAt)
	for _, b := range d.Blockers {
		what := map[Reason]string{Held: "held by", WriterWaits: "awaited by"}[b.Reason]
		s.printf("  %s %s %s (%s) until %d", b.Name, what, strings.TrimPrefix(b.ID+"@"+b.Node, "@"), b.Mode, b.Until)
	}
}

func (s *script) release(a args) {
	id := a.words[0]
	rel := Release{ID: id, Outcome: OK, HoldFor: s.millis(a.named["hold"], 0), Error: a.named["text"]}
	if len(a.words) > 1 {
		rel.Outcome = Outcome(strings.Replace(a.words[1], "undone", "", 1))
	}
	for _, w := range s.asked[id].Wants {
		before := s.rec(w.Name)
		after, met, opened := ReleaseOne(before, rel, s.now)
		if met != Missing {
			s.put(after)
		}
		word := map[Released]string{Done: "done", Missing: "missing", Lapsed: "lapsed"}[met]
		s.printf("%s: %s of %s, %s%s", id, "release", w.Name, word, s.woken(after, s.asked[id].Node, opened))
	}
}

func (s *script) woken(rec Record, self string, opened bool) string {
	if !opened {
		return ""
	}
	if nodes := Wake(rec, self, s.now); len(nodes) > 0 {
		return ", wakes " + strings.Join(nodes, " ")
	}
	return ", wakes nobody"
}

func (s *script) renew(a args) {
	id := a.words[0]
	req := s.asked[id]
	after, ok := Renew(s.of(req.Wants), Renewal{ID: id, LeaseMillis: req.LeaseMillis, Seen: int64(s.millis(a.named["seen"], 0))}, s.now)
	if !ok {
		s.printf("%s: lost", id)
		return
	}
	s.put(after...)
	s.printf("%s: renewed", id)
}

func (s *script) mark(a args) {
	node, name := a.words[0], a.words[1]
	waits := map[string]Waits{"nobody": Nobody, "read": SomeRead, "write": SomeWrites}[a.words[2]]
	since := s.now
	for _, m := range s.rec(name).Waiting {
		if m.Node == node {
			since = m.Since
		}
	}
	w := Waiters{Want: waits, Since: s.millis(a.named["since"], since)}
	after, changed, opened := SetMark(s.rec(name), node, w, s.now, 15)
	if !changed {
		s.printf("%s: %s is marked so already", node, name)
		return
	}
	s.put(after)
	s.printf("%s: %s marked %s%s", node, name, a.words[2], s.woken(after, node, opened))
}

func (s *script) first(a args) {
	m, yes := GoesFirst(s.rec(a.words[1]), a.words[0], s.millis(a.named["since"], s.now), s.now, func(m Mark) bool {
		return slices.Contains(a.list("but"), m.Node)
	})
	if !yes {
		s.printf("%s: goes first itself", a.words[0])
		return
	}
	s.printf("%s: %s goes first, waits since %d", a.words[0], m.Node, m.Since)
}

func (s *script) settle(a args) {
	after, changed := Settle(s.rec(a.words[0]), s.now)
	if changed {
		s.put(after)
	}
	s.printf("%s: settled: %v", a.words[0], changed)
}

func (s *script) lose(a args) {
	for _, name := range a.words {
		delete(s.recs, name)
	}
}

func (s *script) snapshot(args) {
	s.kept = map[string]Record{}
	for name, r := range s.recs {
		s.kept[name] = r
	}
}

func (s *script) restore(args) { s.recs = s.kept }

func (s *script) restart(a args) {
	s.seen = Sighting{RunID: a.words[0], Uptime: int64(s.millis(a.named["uptime"], 0))}
}

func (s *script) flushAll(args) { s.recs, s.remembered = map[string]Record{}, nil }

func (s *script) server(a args) {
	st := CheckServer(s.remembered, slices.Contains(a.words, "known"), s.seen, s.millis(a.named["lease"], 60), s.now)
	switch {
	case st.Until > s.now:
		s.printf("server: nothing before %d (%d left): %s", st.Until, st.Until-s.now, st.Reason)
	default:
		s.printf("server: ready")
	}
	if st.Write != nil {
		s.remembered = st.Write
		s.printf("  remembers %s since %d, lease %d", st.Write.RunID, st.Write.Since, st.Write.LeaseMillis)
	}
}

func (s *script) print(a args) {
	r := s.rec(a.words[0])
	keep := map[bool]string{true: "kept", false: fmt.Sprintf("for %d ms more", Lasts(r, s.now, 30))}[r.KeepLockData]
	s.printf("%s: written at %d, token %d, %s", r.LockName, r.UpdatedAt, r.FencingToken, keep)
	s.holding("write", r.WriteOwner)
	for i := range r.ReadOwners {
		s.holding("read", &r.ReadOwners[i])
	}
	for _, m := range r.Waiting {
		s.printf("  %s waits to %s since %d until %d", m.Node, map[bool]string{true: "write", false: "read"}[m.Write], m.Since, m.Until)
	}
	s.holding("last success", r.LastSuccess)
}

func (s *script) holding(what string, h *Holding) {
	if h == nil {
		return
	}
	line := fmt.Sprintf("  %s %s@%s since %d, token %d", what, h.ID, h.Node, h.AcquiredAt, h.FencingToken)
	if h.ExpiresAt != nil {
		line += fmt.Sprintf(", until %d", *h.ExpiresAt)
	}
	if h.Renewals > 0 {
		line += fmt.Sprintf(", renewed %d times", h.Renewals)
	}
	if h.ReleasedAt != nil {
		line += strings.TrimSuffix(fmt.Sprintf(", released at %d: %s %s", *h.ReleasedAt, *h.Outcome, h.Error), " ")
	}
	s.printf("%s", line)
}

func (s *script) end(args) {
	for _, r := range s.recs {
		require.False(s.t, HeldByAnybody(r, s.now), "%s is held at the end", r.LockName)
		for _, m := range r.Waiting {
			require.False(s.t, m.Alive(s.now), "%s waits for %s at the end", m.Node, r.LockName)
		}
	}
	s.ended = true
}
