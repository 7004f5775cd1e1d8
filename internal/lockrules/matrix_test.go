package lockrules

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A part is one thing that a request meets in the record. The requests of this
// test come from acquisition "me" of node n1, nested in "mine".
type part struct {
	name string
	add  func(r *Record)
}

var (
	ownRead    = part{"own read", func(r *Record) { r.ReadOwners = append(r.ReadOwners, held("mine", "n1")) }}
	ownWrite   = part{"own write", func(r *Record) { r.WriteOwner = ptr(held("mine", "n1")) }}
	otherRead  = part{"other read", func(r *Record) { r.ReadOwners = append(r.ReadOwners, held("other", "n2")) }}
	localRead  = part{"other read, own node", func(r *Record) { r.ReadOwners = append(r.ReadOwners, held("local", "n1")) }}
	otherWrite = part{"other write", func(r *Record) { r.WriteOwner = ptr(held("other", "n2")) }}
	otherWaits = part{"other node's writer", func(r *Record) { r.Waiting = append(r.Waiting, waits("n2", true)) }}
	readWaits  = part{"third node's reader", func(r *Record) { r.Waiting = append(r.Waiting, waits("n3", false)) }}
	noEarlier  = part{"other node's writer as old", func(r *Record) { r.Waiting = append(r.Waiting, since(waits("n2", true), comes)) }}
	ownMark    = part{"own node's writer", func(r *Record) { r.Waiting = append(r.Waiting, waits("n1", true)) }}
)

// A matrixRow is one row of the table in doc.go: same order, same words.
type matrixRow struct {
	label       string
	read, write string // the cells
	parts       []part // in each order; a row that says "others" has two of them
}

const onceItStarves = "once it starves"

const judgedByParked = "judged by what is parked on the node, not by its mark"

var matrix = []matrixRow{
	{"nothing", "granted", "granted", nil},
	{"own read", "granted (reuse)", "granted (upgrade)", []part{ownRead}},
	{"own write", "granted (reuse)", "granted (reuse)", []part{ownWrite}},
	{"other reads", "granted", "blocked", []part{otherRead, localRead}},
	{"own read + other reads", "granted (reuse)", "blocked until the others leave", []part{ownRead, otherRead, localRead}},
	{"other writes", "blocked", "blocked", []part{otherWrite}},
	{"other waits to write", "blocked", "granted", []part{otherWaits, readWaits}},
	{"… and own read", "granted", "granted (an upgrade isn't blocked by a waiting writer)", []part{otherWaits, ownRead, readWaits}},
	{"… who came no earlier", onceItStarves, "granted", []part{noEarlier, readWaits}},
	{"own node's writer waits", judgedByParked, "", []part{ownMark, readWaits}},
}

// TestCompatibilityTableIsTheOneOfDocGo keeps the drawing and the cells that
// the tests below check from drifting apart.
func TestCompatibilityTableIsTheOneOfDocGo(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(doc), "wanted: read        wanted: write\n")
	require.True(t, found)
	table, _, found = strings.Cut(table, "\n//\n")
	require.True(t, found)
	lines := strings.Split(table, "\n")
	require.Len(t, lines, len(matrix))
	for i, line := range lines {
		label, cells := cutCells(strings.TrimPrefix(line, "//\t"))
		require.Equal(t, matrix[i].label, label)
		if matrix[i].write == "" {
			require.Equal(t, matrix[i].read, strings.Join(cells, " "))
			continue
		}
		require.Equal(t, []string{matrix[i].read, matrix[i].write}, cells)
	}
}

// cutCells cuts a line of the table where two blanks or more are.
func cutCells(line string) (label string, cells []string) {
	for cell := range strings.SplitSeq(strings.TrimSpace(line), "  ") {
		if cell = strings.TrimSpace(cell); cell != "" {
			cells = append(cells, cell)
		}
	}
	return cells[0], cells[1:]
}

func TestCompatibilityCellByCell(t *testing.T) {
	t.Parallel()
	for _, row := range matrix {
		for _, order := range orders(row.parts) {
			t.Run(row.label+"/"+names(order), func(t *testing.T) {
				t.Parallel()
				rec := record()
				for _, p := range order {
					p.add(&rec)
				}
				for mode, cell := range map[Mode]string{Read: row.read, Write: row.write} {
					switch cell {
					case judgedByParked, "":
						checkJudgedByParked(t, rec, mode)
						continue
					case onceItStarves:
						checkOnceItStarves(t, rec, mode)
						continue
					}
					checkCell(t, rec, mode, strings.HasPrefix(cell, "granted"))
				}
			})
		}
	}
}

// checkCell asks while everything in the record is alive, up to the last
// millisecond, and then when it has just lapsed, which is like "nothing". Marks
// end before leases, so the last millisecond of both is asked for.
func checkCell(t *testing.T, rec Record, mode Mode, granted bool) {
	t.Helper()
	req := asks("me", "n1", mode, "outermost", "mine")
	for _, at := range []Millis{start, start + lasts - 1} {
		d := Acquire([]Record{rec}, req, instant(at), nil)
		require.Equal(t, granted, d.Granted, "%v at %d", mode, at)
		require.Equal(t, granted, len(d.Blockers) == 0)
	}
	if len(rec.Waiting) == 0 {
		require.Equal(t, granted, Acquire([]Record{rec}, req, instant(start+lease-1), nil).Granted, "%v at its last moment", mode)
	}
	require.True(t, Acquire([]Record{rec}, req, instant(start+lease), nil).Granted, "%v when all has lapsed", mode)
}

// comes is when somebody has come who begins to starve right after start.
const comes = start - StarvesAfter

// checkOnceItStarves asks as one that came with the writer, a moment before it, and
// a moment after.
func checkOnceItStarves(t *testing.T, rec Record, mode Mode) {
	t.Helper()
	for _, before := range []Millis{0, 1} {
		req := asks("me", "n1", mode)
		req.Since = comes - before
		d := Acquire([]Record{rec}, req, instant(start-before), nil)
		require.False(t, d.Granted)
		require.Equal(t, start-before+1, d.RetryAt)
		require.True(t, Acquire([]Record{rec}, req, instant(d.RetryAt), nil).Granted)
	}
	req := asks("me", "n1", mode)
	for _, since := range []Millis{0, comes + 1, start} { // 0: one that has not waited
		req.Since = since
		for at := start; at < start+lasts; at++ {
			require.False(t, Acquire([]Record{rec}, req, instant(at), nil).Granted, "since %d at %d", since, at)
		}
	}
}

// checkJudgedByParked gives the own node's mark the chance to speak for
// somebody: only a writer that is parked does, and only to a reader.
func checkJudgedByParked(t *testing.T, rec Record, mode Mode) {
	t.Helper()
	req := asks("me", "n1", mode)
	require.True(t, Acquire([]Record{rec}, req, instant(start), nil).Granted, "nobody is parked")
	nobody := func(string) (Blocker, bool) { return Blocker{}, false }
	require.True(t, Acquire([]Record{rec}, req, instant(start), nobody).Granted, "nobody is parked")
	parked := Blocker{Name: "x", Reason: WriterWaits, Mode: Write, ID: "w", Node: "n1", Until: start + 5}
	somebody := func(string) (Blocker, bool) { return parked, true }
	d := Acquire([]Record{rec}, req, instant(start), somebody)
	require.Equal(t, mode == Write, d.Granted)
	if mode == Read {
		require.Equal(t, []Blocker{parked}, d.Blockers)
		require.Equal(t, parked.Until, d.RetryAt)
		rec.ReadOwners = []Holding{held("mine", "n1")}
		require.True(t, Acquire([]Record{rec}, asks("me", "n1", mode, "mine"), instant(start), somebody).Granted, "its chain reads already")
	}
}

// TestHeldAndWantedConflictInBothOrders asks the same two requests one way
// round and the other: who comes first never changes whether both fit.
func TestHeldAndWantedConflictInBothOrders(t *testing.T) {
	t.Parallel()
	fits := map[[2]Mode]bool{{Read, Read}: true, {Read, Write}: false, {Write, Read}: false, {Write, Write}: false}
	for pair, fit := range fits {
		a, b := asks("a", "n1", pair[0]), asks("b", "n2", pair[1])
		for _, order := range [][2]Request{{a, b}, {b, a}} {
			first := Acquire([]Record{Empty("x")}, order[0], instant(start), nil)
			require.True(t, first.Granted)
			second := Acquire(first.Records, order[1], instant(start), nil)
			require.Equal(t, fit, second.Granted, "%v then %v", order[0].Wants, order[1].Wants)
		}
	}
}

func orders(parts []part) [][]part {
	if len(parts) <= 1 {
		return [][]part{parts}
	}
	var all [][]part
	for i := range parts {
		rest := append(append([]part{}, parts[:i]...), parts[i+1:]...)
		for _, order := range orders(rest) {
			all = append(all, append([]part{parts[i]}, order...))
		}
	}
	return all
}

func names(parts []part) string {
	if len(parts) == 0 {
		return "nothing"
	}
	var s []string
	for _, p := range parts {
		s = append(s, p.name)
	}
	return strings.Join(s, " then ")
}
