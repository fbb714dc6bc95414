package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// goneWords are the words that docs/glossary.md has replaced, each with the word to write. Tables
// and columns of databases keep their names.
var goneWords = map[string]string{
	"announcer": "dispatcher",
	"desk":      "front end, or the name of what acts",
	"fallen":    "expired",
	"flow":      "workflow, or limiter",
	"guest":     "client, or the name of the reserved ID",
	"owed":      "outbox",
	"pressure":  "backpressure (one word), policy or limiter",
	"salvage":   "reusable",
	"stranger":  "client, or the other process",
	"teller":    "dispatcher",
	"visitor":   "client, or the name of the reserved ID",
}

func vocabularyRules() []rule {
	return []rule{
		{
			name: "vocabulary/words that are gone name nothing", check: namedByGoneWords,
			bad: map[string]string{
				"a/a.go": `package a
const sql = "select from owed" // allowed and borrowed
type owedEntry struct { teller int }
func allowed(borrowed, visited int) {}
func (owedEntry) TestAStrangersRun() {}`,
				"a/fallen_test.go": "package a",
			},
			want: []string{
				`a/a.go:3: owedEntry: write outbox for "owed"`, "a/a.go:3: teller",
				"a/a.go:5: TestAStrangersRun", "a/fallen_test.go: write expired",
			},
			fine: []string{"a/a.go:2", "a/a.go:4", "a/a.go:5: owedEntry"},
		},
		{
			name:  "vocabulary/names of files differ by more than an ending",
			check: filesOfOneStem,
			bad: map[string]string{
				"a/compose.go": "package a", "a/composing_test.go": "package a",
				"a/entry.go": "package a", "a/entries.go": "package a",
				"b/read.go": "package b", "b/read_test.go": "package b",
				"b/doc.go": "package b", "b/docs.go": "package b", "c/reader.go": "package c",
			},
			want: []string{
				"a: composing_test.go and compose.go", "a: entry.go and entries.go",
			},
			fine: []string{"b: ", "c: "},
		},
	}
}

func namedByGoneWords(h *module) (found []string) {
	for _, f := range h.files() {
		file := strings.TrimSuffix(path.Base(f.path), ".go")
		for word := range strings.SplitSeq(file, "_") {
			if mend := goneWords[strings.TrimSuffix(word, "s")]; mend != "" {
				found = append(found, fmt.Sprintf("%s: write %s for %q", f.path, mend, word))
			}
		}
		seen := map[string]bool{}
		ast.Inspect(f.File, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || seen[id.Name] {
				return true
			}
			seen[id.Name] = true
			for _, word := range wordsOf(id.Name) {
				if mend := goneWords[strings.TrimSuffix(word, "s")]; mend != "" {
					found = append(found, fmt.Sprintf("%s: %s: write %s for %q (docs/glossary.md)",
						h.at(id), id.Name, mend, word))
				}
			}
			return true
		})
	}
	return found
}

// filesOfOneStem finds files of a package whose names are forms of one word. A test belongs to the
// file of its name. The name doc.go is Go's own.
func filesOfOneStem(h *module) (found []string) {
	for _, r := range h.sorted() {
		first := map[string]string{} // the file of each stem
		files := slices.SortedFunc(slices.Values(r.files), func(a, b *file) int {
			return strings.Compare(a.path, b.path)
		})
		for _, f := range files {
			base := path.Base(f.path)
			name := strings.TrimSuffix(strings.TrimSuffix(base, ".go"), "_test")
			if name == "doc" {
				continue
			}
			key := stem(name)
			other, known := first[key]
			if !known {
				first[key] = base
				continue
			}
			if strings.TrimSuffix(strings.TrimSuffix(other, ".go"), "_test") != name {
				found = append(found, fmt.Sprintf("%s: %s and %s differ by an ending: say in the "+
					"name what is in the file", r.path, base, other))
			}
		}
	}
	return found
}

// endings are cut off, the first that fits.
var endings = []string{"ings", "ing", "ed", "ers", "er", "ies", "es", "s"}

// stem cuts the ending off each word of a file's name.
func stem(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words {
		for _, e := range endings {
			if short, ok := strings.CutSuffix(w, e); ok && len(short) > 2 {
				w = short
				break
			}
		}
		words[i] = strings.TrimRight(w, "eyi")
	}
	return strings.Join(words, "_")
}
