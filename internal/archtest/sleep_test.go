package archtest

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testRooms hold code for tests in ordinary files.
var testRooms = []string{"internal/redistest", "internal/sim", "internal/locktest"}

// A test that sleeps is slow on a good day and wrong on a bad one. On the fake clock of
// testing/synctest it is neither: there time is passed by internal/faketime, which
// panics anywhere else. A poll of a real server may pause, if the line, or the one
// before it, says so.
const pollMark = "// poll:"

func TestTestsSleepOnlyOnFakeTime(t *testing.T) {
	t.Parallel()
	for _, s := range goSources(t) {
		if !s.isTest() && !slices.ContainsFunc(testRooms, s.in) {
			continue
		}
		for _, finding := range sleeps(s) {
			t.Error(finding)
		}
	}
}

func sleeps(s source) []string {
	lines := strings.Split(s.text, "\n")
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok || !isIdent(selector.X, "time") || selector.Sel.Name != "Sleep" {
			return true
		}
		line := s.fset.Position(n.Pos()).Line
		if !strings.Contains(strings.Join(lines[max(line-2, 0):line], "\n"), pollMark) {
			found = append(found, s.at(n.Pos())+": sleeps; pass the time of a bubble by faketime.Pass, or poll")
		}
		return true
	})
	return found
}

func TestSleepsAreFound(t *testing.T) {
	t.Parallel()
	text := strings.ReplaceAll(`package p
func f() {
	NAP(1)
	NAP(2) // poll: the server starts
	// poll: until it answers
	NAP(3)
	faketime.Pass(4)
}
`, "NAP", "time.Slee"+"p")
	found := sleeps(parse(t, "p_test.go", text))
	require.Len(t, found, 1)
	require.Contains(t, found[0], "p_test.go:3:2: ")
}
