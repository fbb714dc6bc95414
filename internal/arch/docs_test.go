package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxReadme = 250 // lines
	snippets  = "examples/hello/readme_test.go"
	whole     = "examples/orders/main.go"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// goBlock is a block of Go in a document.
var goBlock = regexp.MustCompile("(?s)\n```go\n(.*?)```\n")

// The README's Go is compiled and run: the first program as it is, and what it
// shows beside that as lines of a test, or of the example with the whole program.
func TestReadmeShowsCodeThatIsRun(t *testing.T) {
	readme := readFile(t, "README.md")
	program, lines, orders := readFile(t, hello), readFile(t, snippets), readFile(t, whole)
	first := true
	for _, m := range goBlock.FindAllStringSubmatch(readme, -1) {
		indented := "\t" + strings.ReplaceAll(strings.TrimSuffix(m[1], "\n"), "\n", "\n\t") + "\n"
		switch {
		case first && m[1] != program:
			t.Errorf("the first block of Go in README.md is not %s, byte for byte", hello)
		case !first && !strings.Contains(lines, indented) && !strings.Contains(orders, "\n"+m[1]):
			t.Errorf("README.md has lines of Go that are neither in %s nor in %s:\n%s", snippets,
				whole, m[1])
		}
		first = false
	}
	if first {
		t.Error("README.md has no Go")
	}
	if n := strings.Count(readme, "\n"); n > maxReadme {
		t.Errorf("README.md has %d lines, at most %d: the rest belongs in docs", n, maxReadme)
	}
}

// code is what a document quotes: no link is in it.
var code = regexp.MustCompile("(?s)\n```.*?\n```\n|`[^`\n]+`")

// markdownLink is [text](to), of which to is kept without the part after #.
var markdownLink = regexp.MustCompile(`\]\(([^)#\s]*)(?:#[^)\s]*)?\)`)

func TestLinksInDocumentsLeadSomewhere(t *testing.T) {
	for _, name := range documents(t) {
		for _, m := range markdownLink.FindAllStringSubmatch(
			code.ReplaceAllString(readFile(t, name), ""), -1) {
			to := m[1]
			if to == "" || strings.Contains(to, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(name),
				filepath.FromSlash(to))); err != nil {
				t.Errorf("%s: %s leads nowhere", name, to)
			}
		}
	}
}

// testName is the name of a test as documents quote it.
var testName = regexp.MustCompile("`((?:Test|Fuzz|Example|Benchmark)[A-Z]\\w*)`")

func TestTestsNamedInDocumentsAreThere(t *testing.T) {
	h, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range h.files() {
		for _, d := range f.Decls {
			if fn := functionName(d); f.test {
				known[fn] = true
			}
		}
	}
	for _, name := range documents(t) {
		for _, m := range testName.FindAllStringSubmatch(readFile(t, name), -1) {
			if !known[m[1]] {
				t.Errorf("%s names %s, and there is no such test", name, m[1])
			}
		}
	}
}

// documents gives every Markdown file of the module.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(name) == ".md":
			rel, err := filepath.Rel(root, name)
			out = append(out, rel)
			return err
		}
		return nil
	})
	if err != nil || !slices.Contains(out, "README.md") {
		t.Fatalf("the documents are %v (%v)", out, err)
	}
	return out
}
