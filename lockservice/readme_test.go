package lockservice_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redislockservice/redislockservice/lockservice"
)

// What is written for people is compared with the code, as far as that can be done:
// it would else be wrong within a year.

// pages are README.md and everything in docs, by their path from the module's root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	return read(t, func(name string) bool {
		return name == "README.md" || strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md")
	})
}

// read returns the files of the repository that are wanted.
func read(t *testing.T, wanted func(name string) bool) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && entry.Name() == ".git" {
			return skipIfDir(entry, err)
		}
		name, _ := filepath.Rel("..", path)
		if entry.IsDir() || !wanted(filepath.ToSlash(name)) {
			return nil
		}
		text, err := os.ReadFile(path)
		found[filepath.ToSlash(name)] = string(text)
		return err
	})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}

func skipIfDir(entry fs.DirEntry, err error) error {
	if err == nil && entry.IsDir() {
		return fs.SkipDir
	}
	return err
}

func matches(text, pattern string) []string {
	var found []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func joined(files map[string]string) string {
	return strings.Join(slices.Collect(maps.Values(files)), "\n")
}

func isTestFile(name string) bool { return strings.HasSuffix(name, "_test.go") }

// Each piece of Go in the README is a run of lines of code that is compiled and run.
func TestReadmeSnippetsAreRunExamples(t *testing.T) {
	t.Parallel()
	sources := read(t, func(name string) bool {
		return strings.HasSuffix(name, "example_test.go") || strings.HasPrefix(name, "examples/") && strings.HasSuffix(name, ".go")
	})
	for name, text := range sources {
		sources[name] = unindented(text)
	}
	snippets := matches(pages(t)["README.md"], "(?s)\n```go\n(.*?)```")
	require.NotEmpty(t, snippets)
	for _, snippet := range snippets {
		known := func(text string) bool { return strings.Contains(text, unindented(snippet)) }
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Values(sources)), known), "in no example:\n%s", snippet)
	}
}

// unindented has every line without the blanks around it, between line ends.
func unindented(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return "\n" + strings.Join(lines, "\n") + "\n"
}

func TestDocsNameOnlyTestsThatExist(t *testing.T) {
	t.Parallel()
	existing := matches(joined(read(t, isTestFile)), `(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	for name, text := range pages(t) {
		for _, test := range matches(text, `\x60((?:Test|Fuzz|Benchmark|Example)[A-Z_]\w*)`) {
			require.Contains(t, existing, test, "%s names it", name)
		}
	}
}

// Scenarios of the conformance suite are named with their area: Loss/DeletedRecordIsALoss.
func TestDocsNameOnlyScenariosThatExist(t *testing.T) {
	t.Parallel()
	suite := joined(read(t, func(name string) bool { return strings.HasPrefix(name, "internal/locktest/") }))
	areas := matches(suite, `\{"([A-Z]\w+)", [a-z]+\},`)
	require.Contains(t, areas, "Loss")
	named := 0
	for name, text := range pages(t) {
		for _, span := range matches(text, `\x60([A-Z]\w+/[A-Z]\w+)\x60`) {
			area, scenario, _ := strings.Cut(span, "/")
			require.Contains(t, areas, area, "%s names %s", name, span)
			require.Contains(t, suite, `name: "`+scenario+`"`, "%s names %s", name, span)
			named++
		}
	}
	require.Positive(t, named)
}

func TestDocsLinkOnlyToWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, text := range pages(t) {
		for _, link := range matches(text, `\]\(([^)\s]+)\)`) {
			target, _, _ := strings.Cut(link, "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			_, err := os.Stat(filepath.Join("..", filepath.Dir(name), target))
			require.NoError(t, err, "%s links to %s", name, link)
		}
	}
}

func TestReadmeTablesHaveEveryOptionAndItsDefault(t *testing.T) {
	t.Parallel()
	code := joined(read(t, func(name string) bool {
		return strings.HasPrefix(name, "lockservice/") && strings.Count(name, "/") == 1 && !isTestFile(name)
	}))
	options := matches(code, `(?m)^func (With\w+)\(.*\) (?:Lock)?Option`)
	readme := pages(t)["README.md"]
	require.Equal(t, options, matches(readme, `(?m)^\| \x60(With\w+)\(`))

	for option, preset := range map[string]any{
		"WithKeyPrefix": "`" + lockservice.DefaultKeyPrefix + "`", "WithLeaseTime": lockservice.DefaultLeaseTime,
		"WithPollDelay": lockservice.DefaultPollDelay, "WithReleasedRecordTTL": lockservice.DefaultReleasedRecordTTL,
		"WithConnectionTimeout": lockservice.DefaultConnectionTimeout,
	} {
		if d, ok := preset.(time.Duration); ok {
			preset = fmt.Sprintf("%v s", d.Seconds())
		}
		require.Regexp(t, fmt.Sprintf(`\n\| \x60%s\([^|]*\| %v \|`, option, preset), readme)
	}
}

func TestOperationsExplainEveryWarning(t *testing.T) {
	t.Parallel()
	code := joined(read(t, func(name string) bool {
		room, _, _ := strings.Cut(name, "/")
		return (room == "lockservice" || room == "pubsub") && strings.HasSuffix(name, ".go") && !isTestFile(name)
	}))
	warnings := append(matches(code, `\.Warn\("([^"]+)"`), matches(code, `\.hint\([^"\n]*"([^"]+)"`)...)
	require.Greater(t, len(warnings), 5)
	for _, warning := range warnings {
		require.Contains(t, pages(t)["docs/operations.md"], "`"+warning+"`")
	}
}

func TestProtocolExplainsEveryField(t *testing.T) {
	t.Parallel()
	code := joined(read(t, func(name string) bool {
		return slices.Contains([]string{
			"internal/lockrules/record.go", "internal/lockrules/server.go", "deadlock/message.go", "deadlock/waiter.go",
		}, name)
	}))
	fields := matches(code, `json:"(\w+)`)
	require.Contains(t, fields, "lastsMillis")
	for _, field := range fields {
		require.Contains(t, pages(t)["docs/protocol.md"], "`"+field+"`")
	}
}
