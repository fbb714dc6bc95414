package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxColumns = 100
	tabColumns = 4 // that a tab counts for
)

func languageRules() []rule {
	return []rule{
		{
			name: "language/lines have at most 100 columns", check: longLines,
			bad: map[string]string{
				"a/a.go": "package a\n\n// " + strings.Repeat("x", 98) + "\n// " +
					strings.Repeat("x", 97) + "\n\t// " + strings.Repeat("ß", 94) + "\n",
				"b/b.go": "package b\n\n// https://" + strings.Repeat("x", 98) + "\nconst sql = `" +
					strings.Repeat("x", 99) + "\n`\nvar x = 1 //nolint:unused // " +
					strings.Repeat("x", 90) + "\n\n// Output:\n// " + strings.Repeat("x", 99) +
					"\n",
			},
			want: []string{"a/a.go:3: 101 columns", "a/a.go:5: 101 columns"},
			fine: []string{"a/a.go:4", "b/b.go"},
		},
		{
			name: "language/comments open in plain words", check: stiffOpeners,
			bad: map[string]string{"a/a.go": `package a
// F gives x.
func F() {}
// T tells y.
type T struct {
	// A says whether z.
	A bool
	// B says how z is done.
	B int // is what
}
// C is what c does.
const C = 1
// D is who does d.
const D = 1
// E returns what it gives.
func E() {}`},
			want: []string{
				`a/a.go:2: "F gives": write "F returns`, `a/a.go:4: "T tells": write "T reports`,
				`a/a.go:6: "A says whether": write "A reports whether`, `a/a.go:8: "B says"`,
				`a/a.go:11: "C is what": write "C is the`, `a/a.go:13: "D is who"`,
			},
			fine: []string{"a/a.go:15", "a/a.go:9:"},
		},
		{
			name: "language/comments say more than the name", check: emptyComments,
			bad: map[string]string{"a/a.go": `package a
// RunStore is a run store.
type RunStore struct {
	// Limit is the limit.
	Limit int
	// Wait is the limit of a wait.
	Wait int // wait
}
// Limit returns the limit of the run store.
func (RunStore) Limit() {}
// Wait waits for the end.
func (RunStore) Wait() {}`},
			want: []string{"a/a.go:2: RunStore", "a/a.go:4: Limit", "a/a.go:9: Limit"},
			fine: []string{"a/a.go:6:", "a/a.go:7:", "a/a.go:11:"},
		},
		{
			name: "language/errors say what is allowed", check: vagueErrors,
			bad: map[string]string{
				"a/a.go": `package a
var x = "this cannot be an ID: 1 to 9" + "--limit cannot be %d" + "the file cannot be read"
var y = "3 workers cannot be"`,
				"a/a_test.go": `package a
var z = "this cannot be a name"`,
			},
			want: []string{"this cannot be an ID", "--limit cannot be", "3 workers cannot be"},
			fine: []string{"cannot be read", "a_test.go"},
		},
	}
}

// longLines finds lines that are too long. Raw strings and the outputs of examples may have them,
// because a line break would change their value; so may a URL, which is one word, and a line with
// //nolint, which applies to its line.
func longLines(h *module) (found []string) {
	for _, r := range h.sorted() {
		for _, f := range r.files {
			exempt := unbreakable(h, f.File)
			for i, line := range strings.Split(f.source, "\n") {
				n := utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
				if n <= maxColumns || exempt[i+1] ||
					strings.Contains(line, "://") || strings.Contains(line, "//nolint") {
					continue
				}
				found = append(found, fmt.Sprintf("%s:%d: %d columns, at most %d (a tab is %d): "+
					"break the line", f.path, i+1, n, maxColumns, tabColumns))
			}
		}
	}
	return found
}

// unbreakable returns the lines of raw strings and of the outputs of examples.
func unbreakable(h *module, f *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, g := range f.Comments {
		output := false
		for _, c := range g.List {
			output = output || strings.HasPrefix(c.Text, "// Output:")
			if output {
				lines[h.fset.Position(c.Pos()).Line] = true
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && s.Value[0] == '`' {
			for at := h.fset.Position(s.Pos()).Line; at <= h.fset.Position(s.End()).Line; at++ {
				lines[at] = true
			}
		}
		return true
	})
	return lines
}

var stiff = regexp.MustCompile(
	`^(?:(?:A|An|The) )?(\S+) (gives|says whether|says|tells|is what|is who)\b`)

// mends has the replacement of each stiff opener.
var mends = map[string]string{
	"gives":        `"X returns …" or "X is …"`,
	"says whether": `"X reports whether …", and of a field "X is set if …"`,
	"says":         `"X returns …", "X describes …" or "X limits …": what it does`,
	"tells":        `"X reports …", "X calls …" or "X writes …": what it does`,
	"is what":      `"X is the …", with a noun of docs/glossary.md`,
	"is who":       `"X is the …", with a noun of docs/glossary.md`,
}

func stiffOpeners(h *module) (found []string) {
	for _, r := range h.sorted() {
		for _, f := range r.files {
			for _, doc := range docs(f.File) {
				m := stiff.FindStringSubmatch(doc.Text())
				if m == nil {
					continue
				}
				mend := strings.ReplaceAll(mends[m[2]], "X ", m[1]+" ")
				found = append(found, fmt.Sprintf("%s: %q: write %s", h.at(doc), m[1]+" "+m[2],
					mend))
			}
		}
	}
	return found
}

func emptyComments(h *module) (found []string) {
	for _, r := range h.sorted() {
		for _, f := range r.files {
			for _, n := range commented(f.File) {
				if repeats(n.doc.Text(), n.names) {
					found = append(
						found, fmt.Sprintf("%s: %s: its comment repeats its name: state "+
							"what a reader cannot guess (unit, default, limit, who uses it), or "+
							"leave it out",
							h.at(n.doc), n.names[0]))
				}
			}
		}
	}
	return found
}

// A comment is a comment with the name that it is about, and the names around that.
type comment struct {
	doc   *ast.CommentGroup
	names []string
}

func commented(f *ast.File) (out []comment) {
	add := func(doc *ast.CommentGroup, names ...string) {
		if doc != nil {
			out = append(out, comment{doc, names})
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Doc, d.Name.Name)
			} else {
				add(d.Doc, d.Name.Name, receiver(d))
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					add(s.Doc, s.Names[0].Name)
					if len(d.Specs) == 1 {
						add(d.Doc, s.Names[0].Name)
					}
				case *ast.TypeSpec:
					add(s.Doc, s.Name.Name)
					add(d.Doc, s.Name.Name)
					for _, field := range fieldsOf(s.Type) {
						if len(field.Names) > 0 {
							add(field.Doc, field.Names[0].Name, s.Name.Name)
						}
					}
				}
			}
		}
	}
	return out
}

func fieldsOf(t ast.Expr) []*ast.Field {
	switch t := t.(type) {
	case *ast.StructType:
		return t.Fields.List
	case *ast.InterfaceType:
		return t.Methods.List
	}
	return nil
}

// noMeaning has the words that add nothing to a name.
var noMeaning = strings.Fields("a an the is are of its this that it returns return has have for to")

// repeats reports whether every word of a text is one of the names, or adds nothing to them.
func repeats(text string, names []string) bool {
	known := slices.Clone(noMeaning)
	for _, n := range names {
		known = append(append(known, strings.ToLower(n)), wordsOf(n)...)
	}
	for w := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		if !slices.Contains(known, w) && !slices.Contains(known, strings.TrimSuffix(w, "s")) {
			return false
		}
	}
	return text != ""
}

// wordsOf splits a name at its capitals.
func wordsOf(name string) (words []string) {
	begin := 0
	for i, r := range name {
		if i > begin && unicode.IsUpper(r) {
			words, begin = append(words, strings.ToLower(name[begin:i])), i
		}
	}
	return append(words, strings.ToLower(name[begin:]))
}

// vague finds errors that refuse a value and leave open what is allowed. That something "cannot be
// read" is fine.
var vague = regexp.MustCompile(`cannot be(?: (?:an?|the|called|named)\b| %|[:,;."]|$)`)

func vagueErrors(h *module) (found []string) {
	for _, r := range h.sorted() {
		for _, f := range r.code() {
			ast.Inspect(f.File, func(n ast.Node) bool {
				if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING &&
					vague.MatchString(s.Value) {
					found = append(found, fmt.Sprintf(
						"%s: %s: write \"X is not valid: allowed are …\", and a hint", h.at(s),
						s.Value))
				}
				return true
			})
		}
	}
	return found
}
