package arch

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func wordRules() []rule {
	return []rule{
		{
			name: "words/every package says what it is", check: silentPackages,
			bad: map[string]string{
				"a/a.go": "package a", "b/b.go": "// What b is.\npackage b",
				"cmd/c/c.go":  "// Package c is a program.\npackage main",
				"d/d.go":      "// Package d is documented.\npackage d",
				"d/d_test.go": "package d_test",
			},
			want: []string{"package a has no comment", "package b", "package cmd/c"},
			fine: []string{"package d"},
		},
		{
			name: "words/exported names are documented", check: undocumented,
			bad: map[string]string{"a/a.go": `package a
type T struct{}
func F() {}
func (t *T) M() {}
const C = 1
var V = 1
// I has one method that is documented, and one that is not.
type I interface {
	// M does.
	M()
	N()
}
type hidden struct{}
func (hidden) Fine() {}`},
			want: []string{
				"a/a.go:2: T", "a/a.go:3: F", "a/a.go:4: T.M", "a/a.go:5: C", "a/a.go:6: V",
				"a/a.go:11: I.N",
			},
			fine: []string{"I.M", "Fine"},
		},
		{
			name: "words/links in comments lead somewhere", check: brokenLinks,
			bad: map[string]string{"a/a.go": `package a
import "context"
// T has [Gone], [T.Gone], [T.Here], [T.M], [context.Context], [context.Gone] and [b.Gone]; not x[Gone] nor [a-z].
type T struct { Here int }
// M is linked to [b.There], [perdure.Door] and [perdure.Gone].
func (T) M(context.Context) {}`, "b/b.go": `package b
const There = 1`, "root.go": `package perdure
const Door = 1`},
			want: []string{"[Gone]", "[T.Gone]", "[context.Gone]", "[b.Gone]", "[perdure.Gone]"},
			fine: []string{
				"Here", "[T.M]", "[context.Context]", "There", "a-z", "x[Gone", "perdure.Door",
			},
		},
		{
			name: "words/constants of one name have types of one name", check: ambiguousConstants,
			bad: map[string]string{
				"a/a.go": "package a\nconst (\nFailed Kind = iota\nDone\n)\nconst Same = b.Same",
				"b/b.go": "package b\nconst Failed Status = 1\nconst Done Kind = 2\n" +
					"const Same Status = 3",
			},
			want: []string{"b/b.go:2: Failed is a Status here, and a Kind in a"},
			fine: []string{"Done", "Same"},
		},
		{
			name: "words/tests do not sleep", check: sleepingTests,
			bad: map[string]string{
				"a/a_test.go": "package a\nimport \"time\"\nfunc wait() { time.Sleep(1) }",
				"b/b_test.go": "package b\nimport (\"testing/synctest\"; \"time\")\n" +
					"func wait() { synctest.Wait(); time.Sleep(1) }",
			},
			want: []string{"a/a_test.go:3: time.Sleep"},
			fine: []string{"b/b_test.go"},
		},
		{
			name: "words/nothing is left open", check: leftOpen,
			bad:  map[string]string{"a/a.go": "package a\n\n// " + "TO" + "DO: the rest.\n"},
			want: []string{"a/a.go:3"},
		},
		{
			name: "words/nothing panics, but an init of a program", check: panics,
			bad: map[string]string{
				"a/a.go":     "package a\nfunc f() { panic(1) }\nfunc init() { panic(1) }",
				"app/app.go": "package app\nfunc init() { panic(1) }\nfunc f() { panic(1) }",
			},
			want: []string{"a/a.go:2", "a/a.go:3", "app/app.go:3"},
			fine: []string{"app/app.go:2"},
		},
		{
			name: "words/only the guard recovers", check: recovers,
			bad: map[string]string{
				"a/a.go":              "package a\nfunc f() { defer func() { recover() }() }",
				"a/a_test.go":         "package a\nfunc g() { defer func() { recover() }() }",
				"internal/guard/g.go": "package guard\nfunc f() { defer func() { recover() }() }",
			},
			want: []string{"a/a.go:2"},
			fine: []string{"a/a_test.go", "internal/guard/g.go"},
		},
		{
			name: "words/rows of the spec are named in one form", check: oddTags,
			bad: map[string]string{
				"a/a_test.go": "package a\n// sp" + "ec: L-1,L-2\nfunc f() {}\n// S" +
					"pec: X-1\n// sp" + "ec: L-1, R-15\n",
			},
			want: []string{"a/a_test.go:2", "a/a_test.go:4"},
			fine: []string{"a/a_test.go:5"},
		},
	}
}

func silentPackages(h *module) (found []string) {
	for _, r := range h.sorted() {
		text := ""
		for _, f := range r.code() {
			text += f.Doc.Text()
		}
		want := "Package " + r.name + " "
		if r.name == "main" {
			want = "Command " + path.Base(r.path) + " "
		}
		switch {
		case len(r.code()) == 0:
		case text == "":
			found = append(found,
				fmt.Sprintf("package %s has no comment: say what it is and who uses it", r.path))
		case !strings.HasPrefix(text, want):
			found = append(found, fmt.Sprintf("the comment of package %s does not begin with %q",
				r.path, want))
		}
	}
	return found
}

func undocumented(h *module) (found []string) {
	for _, r := range h.sorted() {
		if r.name == "main" {
			continue
		}
		for _, f := range r.code() {
			for _, d := range f.Decls {
				for _, n := range bare(d) {
					// the comment of the type describes it
					if strings.Contains(n.name, ".ApplyTo") {
						continue
					}
					found = append(
						found, fmt.Sprintf("%s: %s is exported and has no comment: say what a "+
							"caller must know", h.at(n.node), n.name))
				}
			}
		}
	}
	return found
}

// functionName returns the name of a declared function; empty for a method and any other
// declaration.
func functionName(d ast.Decl) string {
	if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
		return fn.Name.Name
	}
	return ""
}

type named struct {
	node ast.Node
	name string
}

// bare returns the exported names of a declaration that have no comment.
func bare(d ast.Decl) (out []named) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			if base := receiver(d); ast.IsExported(base) {
				name = base + "." + name
			} else {
				return nil
			}
		}
		if d.Name.IsExported() && d.Doc == nil {
			out = append(out, named{d.Name, name})
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						out = append(out, named{n, n.Name})
					}
				}
			case *ast.TypeSpec:
				if !s.Name.IsExported() {
					continue
				}
				if d.Doc == nil && s.Doc == nil {
					out = append(out, named{s.Name, s.Name.Name})
				}
				if i, ok := s.Type.(*ast.InterfaceType); ok {
					out = append(out, bareMethods(s.Name.Name, i)...)
				}
			}
		}
	}
	return out
}

// bareMethods returns the methods of an interface that have no comment, unless the comment of the
// type describes all of them.
func bareMethods(name string, i *ast.InterfaceType) (out []named) {
	documented := false
	for _, m := range i.Methods.List {
		switch {
		case m.Doc != nil || m.Comment != nil:
			documented = true
		case len(m.Names) == 1 && m.Names[0].IsExported():
			out = append(out, named{m.Names[0], name + "." + m.Names[0].Name})
		}
	}
	if !documented {
		return nil
	}
	return out
}

// receiver returns the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	t := d.Recv.List[0].Type
	for {
		switch e := t.(type) {
		case *ast.StarExpr:
			t = e.X
		case *ast.IndexExpr:
			t = e.X
		case *ast.IndexListExpr:
			t = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// names returns the possible targets of links in some files: Name and Type.Member.
func names(files []*ast.File) map[string]bool {
	out := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					out[d.Name.Name] = true
				} else {
					out[receiver(d)+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, n := range s.Names {
							out[n.Name] = true
						}
					case *ast.TypeSpec:
						out[s.Name.Name] = true
						for _, m := range members(s.Type) {
							out[s.Name.Name+"."+m] = true
						}
					}
				}
			}
		}
	}
	return out
}

func members(t ast.Expr) (out []string) {
	var fields *ast.FieldList
	switch t := t.(type) {
	case *ast.StructType:
		fields = t.Fields
	case *ast.InterfaceType:
		fields = t.Methods
	default:
		return nil
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			out = append(out, n.Name)
		}
	}
	return out
}

// link is a link to a name by the rules of go doc: [Name], [Type.Member] or [package.Name], not
// right behind a word.
var link = regexp.MustCompile(`(?:^|[^\w\]])\[\*?((?:\w+\.)*[A-Z]\w*(?:\.[A-Z]\w*)?)\]`)

func brokenLinks(h *module) (found []string) {
	known := map[string]map[string]bool{} // by the last part of a package's path
	for _, r := range h.sorted() {
		var files []*ast.File
		for _, f := range r.code() {
			files = append(files, f.File)
		}
		known[r.path] = names(files)
	}
	for _, r := range h.sorted() {
		for _, f := range r.code() {
			for _, doc := range docs(f.File) {
				for _, m := range link.FindAllStringSubmatch(doc.Text(), -1) {
					if !resolves(m[1], known, r, f) {
						found = append(found, fmt.Sprintf("%s: [%s] leads nowhere", h.at(doc),
							m[1]))
					}
				}
			}
		}
	}
	return found
}

// resolves reports whether a link in a file of a package leads somewhere.
func resolves(to string, known map[string]map[string]bool, r *goPackage, f *file) bool {
	if known[r.path][to] {
		return true
	}
	pkg, name, ok := strings.Cut(to, ".")
	if !ok || ast.IsExported(pkg) {
		return false
	}
	for p, names := range known {
		if p == rootPackage {
			p = modulePath
		}
		if path.Base(p) == pkg && names[name] {
			return true
		}
	}
	_, others := imports([]*file{f})
	for _, p := range append(others, pkg) {
		if path.Base(p) == pkg && isStandard(p) && standard(p)[name] {
			return true
		}
	}
	return false
}

// standard returns the names of a package of the standard library.
func standard(importPath string) map[string]bool {
	parsed, err := filepath.Glob(filepath.Join(build.Default.GOROOT, "src",
		filepath.FromSlash(importPath), "*.go"))
	if err != nil {
		return nil
	}
	var files []*ast.File
	for _, name := range parsed {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err == nil && !strings.HasSuffix(name, "_test.go") {
			files = append(files, f)
		}
	}
	return names(files)
}

// docs returns the comments of declarations, whether go doc shows them or not.
func docs(f *ast.File) (out []*ast.CommentGroup) {
	add := func(groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if g != nil {
				out = append(out, g)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.File:
			add(n.Doc)
		case *ast.FuncDecl:
			add(n.Doc)
		case *ast.GenDecl:
			add(n.Doc)
		case *ast.TypeSpec:
			add(n.Doc, n.Comment)
		case *ast.ValueSpec:
			add(n.Doc, n.Comment)
		case *ast.Field:
			add(n.Doc, n.Comment)
		}
		return true
	})
	return out
}

// ambiguousConstants finds exported constants of one name that have types of different names. One
// without a type, or that is another constant, is what that is.
func ambiguousConstants(h *module) (found []string) {
	type constant struct{ in, of string }
	first := map[string]constant{}
	for _, r := range h.sorted() {
		if isProgram(r.path) || strings.HasPrefix(r.path, "internal/") {
			continue
		}
		for _, f := range r.code() {
			for _, d := range f.Decls {
				g, ok := d.(*ast.GenDecl)
				if !ok || g.Tok != token.CONST {
					continue
				}
				of := ""
				for _, s := range g.Specs {
					v := s.(*ast.ValueSpec)
					if id, ok := v.Type.(*ast.Ident); ok {
						of = id.Name
					} else if v.Values != nil {
						of = ""
					}
					was, known := first[v.Names[0].Name]
					switch {
					case of == "" || !v.Names[0].IsExported():
					case !known:
						first[v.Names[0].Name] = constant{r.path, of}
					case was.of != of:
						found = append(found, fmt.Sprintf("%s: %s is a %s here, and a %s in %s: "+
							"name what differs", h.at(v), v.Names[0].Name, of, was.of, was.in))
					}
				}
			}
		}
	}
	return found
}

// bubbles are the packages that run code in a bubble, where time is virtual.
var bubbles = []string{"testing/synctest", "perduretest", "internal/enginetest/world"}

// sleepingTests lets tests sleep only if they use a package with bubbles.
func sleepingTests(h *module) (found []string) {
	for _, f := range h.files() {
		own, others := imports([]*file{f})
		inBubble := slices.ContainsFunc(slices.Concat(own, others), func(p string) bool {
			return slices.Contains(bubbles, p)
		})
		if !f.test || inBubble {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "time" {
					found = append(found, h.at(s)+": time.Sleep in a test: wait for the thing "+
						"itself, or run in a bubble of testing/synctest")
				}
			}
			return true
		})
	}
	return found
}

var openWords = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX|HA` + `CK)\b`)

func leftOpen(h *module) (found []string) {
	for _, f := range h.files() {
		for _, g := range f.Comments {
			for _, c := range g.List {
				if openWords.MatchString(c.Text) {
					found = append(found, h.at(c)+
						": do it, or write an issue and leave the comment out")
				}
			}
		}
	}
	return found
}

func panics(h *module) (found []string) {
	for _, r := range h.sorted() {
		for _, f := range r.code() {
			for _, d := range f.Decls {
				if functionName(d) == "init" && isProgram(r.path) {
					continue
				}
				for _, c := range callsOf(d, "panic") {
					found = append(found, h.at(c)+
						": panic: give an error; this runs in other people's processes")
				}
			}
		}
	}
	return found
}

// recovers finds code that catches panics by itself. The conformance suite may: it
// imports no engine.
func recovers(h *module) (found []string) {
	for _, r := range h.sorted() {
		if r.path == "internal/guard" || r.path == "store/storetest" {
			continue
		}
		for _, f := range r.code() {
			for _, c := range callsOf(f.File, "recover") {
				found = append(found, h.at(c)+": recover: call the application's code through "+
					"internal/guard, which bears runtime.Goexit too")
			}
		}
	}
	return found
}

// callsOf returns the calls of a builtin.
func callsOf(in ast.Node, builtin string) (calls []*ast.CallExpr) {
	ast.Inspect(in, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			if name, ok := c.Fun.(*ast.Ident); ok && name.Name == builtin {
				calls = append(calls, c)
			}
		}
		return true
	})
	return calls
}

var (
	looksLikeTag = regexp.MustCompile(`(?i)^//\s*spec\s*:`)
	tag          = regexp.MustCompile(`^// spec: [ABFLPR]-[1-9]\d*(, [ABFLPR]-[1-9]\d*)*$`)
)

// rowsAbove returns the rows of the spec that the comment of a declaration names.
func rowsAbove(d ast.Decl) (rows []string) {
	fn, ok := d.(*ast.FuncDecl)
	if !ok || fn.Doc == nil {
		return nil
	}
	for _, c := range fn.Doc.List {
		if tag.MatchString(c.Text) {
			rows = append(rows, strings.Split(strings.TrimPrefix(c.Text, "// sp"+"ec: "), ", ")...)
		}
	}
	return rows
}

func oddTags(h *module) (found []string) {
	for _, f := range h.files() {
		for _, g := range f.Comments {
			for _, c := range g.List {
				if looksLikeTag.MatchString(c.Text) && !tag.MatchString(c.Text) {
					found = append(found, fmt.Sprintf("%s: %q: rows are named as in // sp"+
						"ec: L-12, R-15", h.at(c), c.Text))
				}
			}
		}
	}
	return found
}
