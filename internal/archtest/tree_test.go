package archtest

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const module = "github.com/redislockservice/redislockservice"

// goPackage is what these tests read of `go list -json`.
type goPackage struct {
	Dir        string
	ImportPath string
	GoFiles    []string
	Imports    []string
	Module     *struct{ Path string }
}

// room is the package's path inside the module: "lockservice", "internal/lane".
func (p goPackage) room() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

func root(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, ".", "go", "list", "-m", "-f", "{{.Dir}}"))
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, failed.Stderr)
	}
	require.NoError(t, err)
	return string(out)
}

// list runs `go list -json`. -e: a package that doesn't compile is checked all the same.
func list(t *testing.T, args ...string) []goPackage {
	t.Helper()
	out := run(t, root(t), "go", append([]string{"list", "-e", "-json"}, args...)...)
	var packages []goPackage
	decoder := json.NewDecoder(strings.NewReader(out))
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}

// source is one parsed file.
type source struct {
	name string // from the module's root
	fset *token.FileSet
	file *ast.File
	text string
}

func (s source) at(pos token.Pos) string {
	position := s.fset.Position(pos)
	position.Filename = s.name
	return position.String()
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// in reports whether the file lies in a folder, at any depth.
func (s source) in(folder string) bool { return strings.HasPrefix(s.name, folder+"/") }

func parse(t *testing.T, name, text string) source {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	return source{name: name, fset: fset, file: file, text: text}
}

// goSources parses all Go files of the repository, also those of nested modules.
func goSources(t *testing.T) []source {
	t.Helper()
	base := root(t)
	var all []source
	for _, name := range files(t) {
		if filepath.Ext(name) != ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(base, name))
		require.NoError(t, err)
		all = append(all, parse(t, name, string(text)))
	}
	require.NotEmpty(t, all)
	return all
}

// files lists what is, or would be, under version control. Without git, as in an
// unpacked archive, that is everything but dotfiles.
func files(t *testing.T) []string {
	t.Helper()
	base := root(t)
	if _, err := os.Stat(filepath.Join(base, ".git")); err != nil {
		return walk(t, base)
	}
	out := run(t, base, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	var names []string
	for name := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		// The index may name a file that was just deleted.
		if _, err := os.Stat(filepath.Join(base, name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

func walk(t *testing.T, base string) []string {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(base, path)
		if err == nil && !strings.HasPrefix(name, ".") {
			names = append(names, filepath.ToSlash(name))
		}
		return err
	}))
	return names
}
