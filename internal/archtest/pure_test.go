package archtest

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pure rooms decide, and leave clocks, goroutines and the network to others: all they
// know is in their arguments.
var pure = []string{"internal/lockrules", "internal/lease", "deadlock"}

// impureImports, and everything below them, are not for pure rooms. Nor is anything
// outside the standard library.
var impureImports = []string{"context", "sync", "math/rand", "crypto/rand", "net", "os", "syscall"}

// clockFunctions of package time read or follow a clock; its types are fine.
var clockFunctions = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

func TestPureRoomsKnowNoClockAndNoIO(t *testing.T) {
	t.Parallel()
	for _, s := range goSources(t) {
		if s.isTest() || !slices.ContainsFunc(pure, s.in) {
			continue
		}
		for _, finding := range impurities(s) {
			t.Error(finding)
		}
	}
}

func impurities(s source) []string {
	var found []string
	for _, spec := range s.file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if isImpure(path) {
			found = append(found, s.at(spec.Pos())+": a pure package imports "+path)
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if ok && isIdent(selector.X, "time") && slices.Contains(clockFunctions, selector.Sel.Name) {
			found = append(found, s.at(n.Pos())+": a pure package uses time."+selector.Sel.Name)
		}
		if _, ok := n.(*ast.GoStmt); ok {
			found = append(found, s.at(n.Pos())+": a pure package starts a goroutine")
		}
		return true
	})
	return found
}

func isImpure(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	if strings.Contains(first, ".") {
		return true // not of the standard library
	}
	return slices.ContainsFunc(impureImports, func(banned string) bool {
		return path == banned || strings.HasPrefix(path, banned+"/")
	})
}

func isIdent(e ast.Expr, name string) bool {
	ident, ok := e.(*ast.Ident)
	return ok && ident.Name == name
}

func TestImpuritiesAreFound(t *testing.T) {
	t.Parallel()
	s := parse(t, "p.go", `package p
import ("slices"; "sync/atomic"; "math/rand/v2"; "github.com/a/b"; "time")
var d = time.Second
func f() { go f(); _ = time.Now() }`)
	require.Equal(t, []string{
		"p.go:2:19: a pure package imports sync/atomic",
		"p.go:2:34: a pure package imports math/rand/v2",
		"p.go:2:50: a pure package imports github.com/a/b",
		"p.go:4:12: a pure package starts a goroutine",
		"p.go:4:24: a pure package uses time.Now",
	}, impurities(s))
}
