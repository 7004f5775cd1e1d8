package archtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayImport says for each room which other rooms its non-test files may import.
// A room that isn't in the table may not exist.
var mayImport = map[string][]string{
	// The library. Calls go down this list.
	"lockservice": {
		"pubsub", "jsonhandler", "deadlock", "internal/lane", "internal/redistx", "internal/exchange",
		"internal/lockrules", "internal/lease", "internal/keyspace",
	},
	"lockservice/fencing": {},
	"pubsub":              {},
	"jsonhandler":         {},
	"deadlock":            {},
	"internal/lane":       {"internal/exchange", "internal/lockrules", "internal/keyspace", "jsonhandler"},
	"internal/redistx":    {"internal/exchange", "internal/keyspace"},
	"internal/exchange":   {},
	"internal/lockrules":  {},
	"internal/lease":      {},
	"internal/keyspace":   {},

	// For tests only: no room above may import one of these.
	"internal/faketime":  {},
	"internal/redistest": {},
	"internal/sim":       {"internal/exchange", "internal/keyspace", "internal/lockrules", "internal/lane", "jsonhandler"},
	"internal/locktest": {
		"lockservice", "pubsub", "jsonhandler", "deadlock", "internal/exchange", "internal/keyspace",
		"internal/lockrules", "internal/redistest", "internal/sim", "internal/faketime",
	},
	"internal/chaos":    {},
	"internal/archtest": {},
	"internal/conform":  {}, // nothing but tests
}

// library are the rooms that a user's program links, and what it therefore gets.
var library = []string{"lockservice", "lockservice/fencing", "pubsub", "jsonhandler", "deadlock"}

// libraryModules are the modules that the library may bring into a user's program,
// itself or through others. Nothing that serves tests is among them.
var libraryModules = []string{
	module,
	"github.com/redis/rueidis",
	"github.com/google/uuid",
	"go.uber.org/zap",
	"go.uber.org/multierr", // zap's
	"golang.org/x/sys",     // the clock that also runs in suspend, and rueidis's
}

func TestRoomsImportOnlyWhatTheTableAllows(t *testing.T) {
	t.Parallel()
	for _, edge := range forbiddenEdges(list(t, "./..."), mayImport) {
		t.Error(edge)
	}
}

func forbiddenEdges(packages []goPackage, table map[string][]string) []string {
	rooms := make(map[string]bool, len(packages))
	for _, p := range packages {
		rooms[p.ImportPath] = true
	}
	var edges []string
	for _, p := range packages {
		allowed, known := table[p.room()]
		if !known {
			edges = append(edges, fmt.Sprintf("%s is not in the table of rooms", p.room()))
			continue
		}
		for _, imported := range p.Imports {
			target := goPackage{ImportPath: imported}.room()
			if (rooms[imported] || target != imported) && !slices.Contains(allowed, target) {
				edges = append(edges, fmt.Sprintf("%s must not import %s", p.room(), target))
			}
		}
	}
	return edges
}

func TestForbiddenEdgesAreFound(t *testing.T) {
	t.Parallel()
	table := map[string][]string{"a": {"b"}, "b": {}}
	packages := []goPackage{
		{ImportPath: module + "/a", Imports: []string{"fmt", module + "/b"}},
		{ImportPath: module + "/b", Imports: []string{module + "/a"}},
		{ImportPath: module + "/c"},
	}
	require.Equal(t, []string{"b must not import a", "c is not in the table of rooms"}, forbiddenEdges(packages, table))
}

func TestLibraryBringsNoOtherModulesAlong(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, append([]string{"-deps"}, existing(t, library)...)...) {
		if p.ImportPath == "testing" {
			t.Error("the library links package testing")
		}
		if p.Module != nil && !slices.Contains(libraryModules, p.Module.Path) {
			t.Errorf("the library links %s of module %s: see go list -deps", p.ImportPath, p.Module.Path)
		}
	}
}

// existing turns the rooms that have Go files into patterns of the go command.
func existing(t *testing.T, rooms []string) []string {
	t.Helper()
	var patterns []string
	for _, p := range list(t, "./...") {
		if len(p.GoFiles) > 0 && slices.Contains(rooms, p.room()) {
			patterns = append(patterns, "./"+p.room())
		}
	}
	require.NotEmpty(t, patterns)
	return patterns
}
