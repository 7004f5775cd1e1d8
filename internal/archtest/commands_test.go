package archtest

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Transactions are built in one room, so that each of their endings is thought
// through once. Tests may build them to play somebody else.
const transactionRoom = "internal/redistx"

var transactionCommands = []string{"watch", "unwatch", "multi", "exec", "discard"}

// scriptNames run code in the server: nobody may use them, not even a test. Only the
// tests of the transaction room may play a foreign program, whose script keeps the
// server busy.
var scriptNames = []string{
	"eval", "evalro", "eval_ro", "evalsha", "evalsharo", "evalsha_ro", "fcall", "fcallro", "fcall_ro",
	"newluascript", "newluascriptreadonly", "newluascriptnosha", "newluascriptreadonlynosha", "newluascriptretryable",
}

func TestOnlyRedistxBuildsTransactions(t *testing.T) {
	t.Parallel()
	for _, s := range goSources(t) {
		if s.isTest() || s.in(transactionRoom) {
			continue
		}
		for _, finding := range commandsNamed(s, transactionCommands) {
			t.Error(finding)
		}
	}
}

func TestNobodyRunsScripts(t *testing.T) {
	t.Parallel()
	for _, s := range goSources(t) {
		if s.isTest() && s.in(transactionRoom) {
			continue
		}
		for _, finding := range commandsNamed(s, scriptNames) {
			t.Error(finding)
		}
	}
}

// commandsNamed finds command builders (B().Watch()) and free-form commands
// (Arbitrary("WATCH")). A builder of these commands takes no arguments, and a method
// of the same name elsewhere, such as Exec of database/sql, does; scripts are found
// by their name alone.
func commandsNamed(s source, commands []string) []string {
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name := strings.ToLower(selector.Sel.Name)
		switch {
		case name == "arbitrary" && len(call.Args) > 0:
			name = literal(call.Args[0])
		case len(call.Args) > 0 && slices.Contains(transactionCommands, name):
			return true
		}
		if slices.Contains(commands, name) {
			found = append(found, s.at(selector.Sel.Pos())+": names "+strings.ToUpper(name))
		}
		return true
	})
	return found
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return strings.ToLower(text)
}

func TestCommandsAreFound(t *testing.T) {
	t.Parallel()
	s := parse(t, "p.go", `package p
func f() {
	c.B().Watch().Key("k").Build()
	c.B().Arbitrary("MULTI").Build()
	db.Exec("DELETE")
	c.B().Arbitrary("GET", "exec")
	c.B().Evalsha().Sha1("x")
	rueidis.NewLuaScript("x")
}`)
	require.Equal(t, []string{"p.go:3:8: names WATCH", "p.go:4:8: names MULTI"}, commandsNamed(s, transactionCommands))
	require.Equal(t, []string{"p.go:7:8: names EVALSHA", "p.go:8:10: names NEWLUASCRIPT"}, commandsNamed(s, scriptNames))
}
