package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// topLevel is all that may lie in the repository's root, beside dotfiles.
var topLevel = []string{
	"go.mod", "go.sum", "lockservice", "pubsub", "jsonhandler", "deadlock", "internal", "examples", "docs",
	"Makefile", "README.md", "LICENSE",
}

func TestTopLevelHoldsNothingElse(t *testing.T) {
	t.Parallel()
	for _, name := range files(t) {
		first, _, _ := strings.Cut(name, "/")
		if !strings.HasPrefix(first, ".") && !slices.Contains(topLevel, first) {
			t.Errorf("%s does not belong into the repository's root", name)
		}
	}
}

func TestEachPackageSaysWhatItIsFor(t *testing.T) {
	t.Parallel()
	for _, p := range list(t, "./...") {
		text, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
		if err != nil {
			t.Errorf("%s has no doc.go", p.room())
			continue
		}
		s := parse(t, p.room()+"/doc.go", string(text))
		if !strings.HasPrefix(s.file.Doc.Text(), "Package "+s.file.Name.Name+" ") {
			t.Errorf("%s must begin with the comment %q", s.name, "Package "+s.file.Name.Name+" …")
		}
	}
}

// machineWords are what only makes sense on the machine where it was written, or
// sends users to a host that their organisation may not reach. They are put together
// here, so that this file holds none of them.
var machineWords = regexp.MustCompile(strings.Join([]string{
	`/wo` + `rk/(main|shared|\.)`,
	`/ro` + `ot/`,
	`/ho` + `me/[a-z]`,
	`/Us` + `ers/[A-Za-z]`,
	`pro` + `xy\.golang\.org`,
	`su` + `m\.golang\.org`,
	`deb\.deb` + `ian\.org`,
	`registry-1\.dock` + `er`,
	`(?i)\bclau` + `de\b`,
	`(?i)anthro` + `pic`,
}, "|"))

func TestFilesNameNoMachine(t *testing.T) {
	t.Parallel()
	base := root(t)
	for _, name := range files(t) {
		text, err := os.ReadFile(filepath.Join(base, name))
		require.NoError(t, err)
		if found := machineWords.Find(text); found != nil && !slices.Contains(text, 0) {
			t.Errorf("%s contains %q", name, found)
		}
	}
}

func TestMachineWordsAreFound(t *testing.T) {
	t.Parallel()
	require.True(t, machineWords.MatchString("see /wo"+"rk/main/go.mod"))
	require.False(t, machineWords.MatchString("examples/network/main.go, the root/ of all"))
}
