package arch

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the names of the tests that prove each row into "+
	"docs/features.md")

const features = "docs/features.md"

// featureRow is a row of the table: the part before the tests, the row's ID, its status, and the
// tests.
var featureRow = regexp.MustCompile(`(?m)^(\| ([A-Z]-\d+) \|[^|\n]*\| ([^|\n]*) \|) ([^|\n]*) \|$`)

// proofs returns the tests whose comments name each row.
func proofs(h *module) map[string][]string {
	out := map[string][]string{}
	for _, f := range h.files() {
		if !f.test {
			continue
		}
		for _, d := range f.Decls {
			name := functionName(d)
			if !testName.MatchString("`" + name + "`") {
				continue
			}
			for _, row := range rowsAbove(d) {
				out[row] = append(out[row], name)
			}
		}
	}
	for row := range out {
		slices.Sort(out[row])
		out[row] = slices.Compact(out[row])
	}
	return out
}

func TestFeaturesNameTheTestsThatProveThem(t *testing.T) {
	h, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	proofs := proofs(h)
	text := readFile(t, features)
	if *update {
		text = featureRow.ReplaceAllStringFunc(text, func(line string) string {
			m := featureRow.FindStringSubmatch(line)
			tests := ""
			if len(proofs[m[2]]) > 0 {
				tests = "`" + strings.Join(proofs[m[2]], "`, `") + "`"
			}
			return m[1] + " " + tests + " |"
		})
		if err := os.WriteFile(filepath.Join(root, features), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rows := featureRow.FindAllStringSubmatch(text, -1)
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", features)
	}
	for _, m := range rows {
		row, status := m[2], m[3]
		named := testName.FindAllStringSubmatch(m[4], -1)
		if status == "done" && len(named) == 0 {
			t.Errorf("%s says that %s is done and names no test: tag one, then go test "+
				"./internal/arch -update", features, row)
		}
		for _, n := range named {
			if !slices.Contains(proofs[row], n[1]) {
				t.Errorf("%s names %s for %s, and that test does not name the row", features, n[1],
					row)
			}
		}
		if kind, _, _ := strings.Cut(status, ":"); !slices.Contains(
			[]string{"done", "partly", "not yet"}, kind) {
			t.Errorf("%s: %s is %q, and may be done, partly: what is missing, or not yet", features,
				row, status)
		}
	}
}
