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

const maxReadme = 180 // lines

// quotes are the folders whose Go a document shows, where that is not the folder that has the
// name of the document.
var quotes = map[string][]string{
	"README.md":          {"examples/hello", "examples/orders", "examples/orders/order"},
	"docs/barrier.md":    {"barrier"},
	"docs/conditions.md": nil, // package expr compares it with its conditions
	"docs/concepts.md":   {"examples/hello", "examples/approval/expense"},
	"docs/howto/cli.md":  {"examples/orders", "examples/orders/order"},
}

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

// Each block of Go in a document is a part of a file of Go that CI compiles and runs: line by
// line, and indented by as many tabs as the part is there.
func TestDocumentsShowCodeThatIsRun(t *testing.T) {
	h, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range documents(t) {
		folders, special := quotes[name]
		if !special {
			folders = []string{strings.TrimSuffix(name, ".md")}
		}
		if folders == nil {
			continue
		}
		for _, m := range goBlock.FindAllStringSubmatch(readFile(t, name), -1) {
			if !h.has(folders, m[1]) {
				t.Errorf("%s has lines of Go that no file in %s has:\n%s", name,
					strings.Join(folders, " or "), m[1])
			}
		}
	}
}

// has reports whether a file in one of the folders has a block of lines.
func (h *module) has(folders []string, block string) bool {
	for _, folder := range folders {
		if h.packages[folder] == nil {
			continue
		}
		for _, f := range h.packages[folder].files {
			if contains(f.source, block) {
				return true
			}
		}
	}
	return false
}

// contains reports whether a source has the lines of a block, each indented by as many tabs
// more as the others.
func contains(source, block string) bool {
	for indent := range 4 {
		var b strings.Builder
		for line := range strings.Lines("\n" + block) {
			if line != "\n" {
				line = strings.Repeat("\t", indent) + line
			}
			b.WriteString(line)
		}
		if strings.Contains("\n"+source, b.String()) {
			return true
		}
	}
	return false
}

func TestLinesOfABlockAreFoundWhereTheyStand(t *testing.T) {
	source := "package x\n\nfunc f() {\n\tif true {\n\t\tg()\n\n\t\th()\n\t}\n}\n"
	for block, want := range map[string]bool{
		"package x\n": true, "if true {\n\tg()\n": true, "g()\n\nh()\n": true,
		"g()\nh()\n": false, "if true {\ng()\n": false, "() {\n": false,
	} {
		if contains(source, block) != want {
			t.Errorf("%q is found: %v", block, !want)
		}
	}
}

func TestReadmeBeginsWithTheFirstProgramAndIsShort(t *testing.T) {
	readme := readFile(t, "README.md")
	if m := goBlock.FindStringSubmatch(readme); m == nil || m[1] != readFile(t, hello) {
		t.Errorf("the first block of Go in README.md is not %s, byte for byte", hello)
	}
	if n := strings.Count(readme, "\n"); n > maxReadme {
		t.Errorf("README.md has %d lines, at most %d: the rest belongs in docs", n, maxReadme)
	}
}

// quotedMessage is a message at the beginning of a row of a table.
var quotedMessage = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// The page about messages quotes those of the code: what is between two … stands in one
// file.
func TestMessagesThatTheTroubleshootingPageQuotesAreInTheCode(t *testing.T) {
	const page = "docs/howto/troubleshooting.md"
	h, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	all := quotedMessage.FindAllStringSubmatch(readFile(t, page), -1)
	if len(all) < 30 {
		t.Errorf("%s quotes %d messages", page, len(all))
	}
	for _, m := range all {
		if !h.says(strings.Split(m[1], "…")) {
			t.Errorf("%s quotes %q, and no file says that", page, m[1])
		}
	}
}

// brokenText is where a text goes on in the next line.
var brokenText = regexp.MustCompile(`" \+\n\s*"`)

// says reports whether a file that is not a test contains all of some texts.
func (h *module) says(texts []string) bool {
	for _, f := range h.files() {
		source := brokenText.ReplaceAllString(f.source, "")
		if !f.test && !slices.ContainsFunc(texts, func(text string) bool {
			return !strings.Contains(source, strings.TrimSpace(text))
		}) {
			return true
		}
	}
	return false
}

// code is a quotation of code in a document: it contains no links.
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

// testName is the name of a test in the form in which documents quote it.
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

// documents returns every Markdown file of the module. What npm installs is not of it.
func documents(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && strings.HasPrefix(d.Name(), "."),
			d.IsDir() && d.Name() == "node_modules":
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
