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
// testing/synctest it is neither; a poll of a real server may pause, if the line, or
// the one before it, says so.
const pollMark = "// poll:"

func TestTestsSleepOnlyOnFakeTime(t *testing.T) {
	t.Parallel()
	all := goSources(t)
	bubbles := bubbleHelpers(all)
	for _, s := range all {
		if !s.isTest() && !slices.ContainsFunc(testRooms, s.in) {
			continue
		}
		for _, finding := range sleeps(s, bubbles) {
			t.Error(finding)
		}
	}
}

// bubbleHelpers names the functions that open a bubble for tests.
func bubbleHelpers(all []source) []string {
	var names []string
	for _, s := range all {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Body != nil && !strings.HasPrefix(f.Name.Name, "Test") && opensBubble(f.Body, nil) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// opensBubble looks for a call of synctest.Test, or of a function that makes one.
func opensBubble(n ast.Node, bubbles []string) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return !found
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			found = found || slices.Contains(bubbles, fun.Name)
		case *ast.SelectorExpr:
			found = found || isIdent(fun.X, "synctest") && fun.Sel.Name == "Test" || slices.Contains(bubbles, fun.Sel.Name)
		}
		return !found
	})
	return found
}

// sleeps is an approximation: in a file that opens a bubble, it doesn't look whether
// the code that sleeps is inside.
func sleeps(s source, bubbles []string) []string {
	if opensBubble(s.file, bubbles) {
		return nil
	}
	lines := strings.Split(s.text, "\n")
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok || !isIdent(selector.X, "time") || selector.Sel.Name != "Sleep" {
			return true
		}
		line := s.fset.Position(n.Pos()).Line
		if !strings.Contains(strings.Join(lines[max(line-2, 0):line], "\n"), pollMark) {
			found = append(found, s.at(n.Pos())+": sleeps outside a synctest bubble")
		}
		return true
	})
	return found
}

func TestSleepsAreFound(t *testing.T) {
	t.Parallel()
	const text = `package p
func f() {
	time.Sleep(1)
	time.Sleep(2) // poll: the server starts
	// poll: until it answers
	time.Sleep(3)
}
`
	helper := parse(t, "help_test.go", "package p\nfunc bubble(t T) { synctest.Test(t, nil) }\nfunc other() {}\n")
	bubbles := bubbleHelpers([]source{helper})
	require.Equal(t, []string{"bubble"}, bubbles)
	require.Equal(t, []string{"p_test.go:3:2: sleeps outside a synctest bubble"}, sleeps(parse(t, "p_test.go", text), bubbles))
	require.Empty(t, sleeps(parse(t, "p_test.go", text+"func TestX(t T) { synctest.Test(t, f) }"), bubbles))
	require.Empty(t, sleeps(parse(t, "p_test.go", text+"func TestX(t T) { bubble(t) }"), bubbles))
}
