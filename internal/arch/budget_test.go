package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxMethods  = 8   // of an interface
	maxFields   = 30  // of a type, its own; an embedded type counts as one
	maxOwn      = 45  // methods of a type, its own
	maxLines    = 800 // of a file that is not a test
	maxFunction = 70  // lines of all functions but the longest hundredth
	maxFolder   = 80  // files of Go in a folder, tests included
	maxHello    = 45  // lines of the first program
	maxExample  = 290 // lines of an example with its packages, without tests
	hello       = "examples/hello/main.go"
)

func budgetRules() []rule {
	return []rule{
		{
			name: "budget/interfaces have at most 8 methods", check: wideInterfaces,
			bad: map[string]string{"a/a.go": `package a
type Wide interface { Narrow; A(); B(); C(); D(); E(); F(); error }
type Narrow interface { G(); H() }`},
			want: []string{"a/a.go:2: Wide has 9 methods"},
		},
		{
			name:  "budget/types have at most 30 fields and 45 methods of their own",
			check: wideTypes,
			bad: map[string]string{
				"a/a.go": "package a\ntype wide struct { " + strings.Repeat("A, B, C int;", 10) +
					" in }\n" +
					"type in struct{ D int }\n" +
					"type fine struct { " + strings.Repeat("A int;", 30) + " }\n" +
					"type busy int\n" + strings.Repeat("func (*busy) m() {}\n", 46),
				"a/a_test.go": "package a\nfunc (fine) m() {}",
				"journal/j.go": "package journal\n" +
					"type Detail struct { " + strings.Repeat("A int;", 44) + " }",
			},
			want: []string{
				"a/a.go:2: wide has 31 fields", "a/a.go:5: busy has 46 methods",
				"journal/j.go:2: Detail has 44 fields",
				"journal.Snapshot is in the list of wide types and is not wide",
			},
			fine: []string{"a/a.go:3", "a/a.go:4"},
		},
		{
			name:  "budget/a package has at most 80 files and exports at most 110 names",
			check: widePackages,
			bad: numberedFiles(81, map[string]string{
				"a/a.go": "package a\n" + numbered(111, "type T%d int\n"),
				"b/b.go": "package b\n" + numbered(109, "type T%d int\n") +
					"const (\n\tB = 1\n\tC = 2\n)\n",
				"c/c.go": "package main\n" + numbered(111, "type T%d int\n"),
			}),
			want: []string{"a exports 111 names, at most 110", "d has 81 files, at most 80"},
			fine: []string{"b exports", "c exports"},
		},
		{
			name: "budget/files have at most 800 lines", check: longFiles,
			bad:  map[string]string{"a/a.go": "package a\n" + strings.Repeat("\n", 800)},
			want: []string{"a/a.go has 801 lines"},
		},
		{
			name:  "budget/functions have at most 70 lines, all but a hundredth",
			check: longFunctions,
			bad: map[string]string{
				"a/a.go": "package a\nfunc long() {\n" + strings.Repeat("\n", 69) +
					"}\nfunc short() {}",
			},
			want: []string{
				"99 of 100 functions have up to 71 lines", "a/a.go:2: long has 71 lines",
			},
		},
		{
			name: "budget/the first program has at most 45 lines", check: longHello,
			bad:  map[string]string{hello: "package main\n" + strings.Repeat("\n", 45)},
			want: []string{hello + " has 46 lines"},
		},
		{
			name: "budget/examples have at most 290 lines with their packages, and say what " +
				"they show",
			check: longExamples,
			bad: map[string]string{
				"examples/x/main.go":       "package main\n" + strings.Repeat("\n", 200),
				"examples/x/more/more.go":  "package more\n" + strings.Repeat("\n", 90),
				"examples/internal/y/y.go": "package y\n" + strings.Repeat("\n", 300),
			},
			want: []string{
				"examples/x has 292 lines", "examples/x has no test", "examples/x has no README.md",
			},
			fine: []string{"examples/internal/y"},
		},
	}
}

func wideInterfaces(h *module) (found []string) {
	for _, r := range h.sorted() {
		types := map[string]*ast.InterfaceType{}
		for _, f := range r.code() {
			ast.Inspect(f.File, func(n ast.Node) bool {
				if spec, ok := n.(*ast.TypeSpec); ok {
					if i, ok := spec.Type.(*ast.InterfaceType); ok {
						types[spec.Name.Name] = i
					}
				}
				return true
			})
		}
		for name, i := range types {
			if n := methods(i, types); n > maxMethods {
				found = append(found, fmt.Sprintf("%s: %s has %d methods, at most %d: let values "+
					"say what the methods differ in", h.at(i), name, n, maxMethods))
			}
		}
	}
	return found
}

// methods counts the methods of an interface, with those of embedded interfaces of the same
// package; an embedded one of another package counts as one.
func methods(i *ast.InterfaceType, types map[string]*ast.InterfaceType) int {
	n := 0
	for _, m := range i.Methods.List {
		switch e := m.Type.(type) {
		case *ast.FuncType:
			n += len(m.Names)
		case *ast.Ident:
			if in := types[e.Name]; in != nil {
				n += methods(in, types)
			} else {
				n++
			}
		case *ast.SelectorExpr:
			n++
		}
	}
	return n
}

// A width is the maximum number of fields and methods of a type.
type width struct{ fields, methods int }

// wide has the types that exceed the budget: records with many kinds, and drivers and test players
// with a method for each operation. None may grow, and none may be added: find the parts of a type
// that promise something by themselves.
var wide = map[string]width{
	"journal.Snapshot":      {34, maxOwn},
	"store/memory.data":     {maxFields, 46},
	"store/postgres.Store":  {maxFields, 55},
	"store/storetest.world": {maxFields, 67},
}

func wideTypes(h *module) (found []string) {
	narrow := maps.Clone(wide)
	for _, r := range h.sorted() {
		types, own := map[string]ast.Node{}, map[string]width{}
		for _, f := range r.code() {
			for _, d := range f.Decls {
				countOwn(d, types, own)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(types)) {
			may, w, in := width{maxFields, maxOwn}, own[name], r.path+"."+name
			if w.fields > may.fields || w.methods > may.methods {
				delete(narrow, in)
			}
			if as, known := wide[in]; known {
				may = as
			}
			switch at := h.at(types[name]); {
			case w.fields > may.fields:
				found = append(found, fmt.Sprintf(
					"%s: %s has %d fields, at most %d: find the parts that promise something "+
						"by themselves, and give each a type and a file",
					at, name, w.fields, may.fields))
			case w.methods > may.methods:
				found = append(found, fmt.Sprintf(
					"%s: %s has %d methods, at most %d: find what they are about, and give that "+
						"a type and a file",
					at, name, w.methods, may.methods))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(narrow)) {
		found = append(found, name+" is in the list of wide types and is not wide: take it off")
	}
	return found
}

// countOwn adds the types of a declaration to types, and their fields and methods to own.
func countOwn(d ast.Decl, types map[string]ast.Node, own map[string]width) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			w := own[receiver(d)]
			w.methods++
			own[receiver(d)] = w
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			t, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			types[t.Name.Name] = t
			if fields, ok := t.Type.(*ast.StructType); ok {
				w := own[t.Name.Name]
				w.fields += fields.Fields.NumFields()
				own[t.Name.Name] = w
			}
		}
	}
}

// numberedFiles adds n files in folder d.
func numberedFiles(n int, to map[string]string) map[string]string {
	for i := range n {
		to[fmt.Sprintf("d/d%d.go", i)] = "package d"
	}
	return to
}

// widePackages finds packages that are too large to look through. Those of the root are counted
// by wideRoot.
func widePackages(h *module) (found []string) {
	for _, r := range h.sorted() {
		if n := len(r.files); n > maxFolder {
			found = append(
				found, fmt.Sprintf("%s has %d files, at most %d: find the second package "+
					"in it", r.path, n, maxFolder))
		}
		names := 0
		for _, f := range r.code() {
			for _, d := range f.Decls {
				n, _ := exports(d)
				names += n
			}
		}
		if names > maxNames && r.path != rootPackage && r.name != "main" {
			found = append(found, fmt.Sprintf("%s exports %d names, at most %d: find the second "+
				"package in it", r.path, names, maxNames))
		}
	}
	return found
}

func longFiles(h *module) (found []string) {
	for _, r := range h.sorted() {
		for _, f := range r.code() {
			if f.lines > maxLines {
				found = append(found, fmt.Sprintf("%s has %d lines, at most %d: find the second "+
					"idea in it", f.path, f.lines, maxLines))
			}
		}
	}
	return found
}

func longFunctions(h *module) (found []string) {
	type function struct {
		where, name string
		lines       int
	}
	var all []function
	for _, r := range h.sorted() {
		for _, f := range r.code() {
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok {
					lines := h.fset.Position(d.End()).Line - h.fset.Position(d.Pos()).Line + 1
					all = append(all, function{h.at(d.Name), d.Name.Name, lines})
				}
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b function) int { return b.lines - a.lines })
	p99 := all[len(all)/100].lines
	if p99 <= maxFunction {
		return nil
	}
	found = append(found, fmt.Sprintf("99 of 100 functions have up to %d lines, at most %d:", p99,
		maxFunction))
	for _, f := range all {
		if f.lines > maxFunction {
			found = append(found, fmt.Sprintf("%s: %s has %d lines: name its parts", f.where,
				f.name, f.lines))
		}
	}
	return found
}

func longHello(h *module) (found []string) {
	for _, f := range h.files() {
		if f.path == hello && f.lines <= maxHello {
			return nil
		}
		if f.path == hello {
			return []string{
				fmt.Sprintf("%s has %d lines: the first program fits in %d", f.path, f.lines,
					maxHello),
			}
		}
	}
	return []string{"there is no " + hello}
}

// longExamples judges the programs that people read and copy.
func longExamples(h *module) (found []string) {
	for _, r := range h.sorted() {
		if !strings.HasPrefix(r.path, "examples/") || r.name != "main" ||
			r.path == path.Dir(hello) {
			continue
		}
		lines := 0
		for _, part := range h.sorted() {
			if part == r || strings.HasPrefix(part.path, r.path+"/") {
				for _, f := range part.code() {
					lines += f.lines
				}
			}
		}
		if lines > maxExample {
			found = append(found, fmt.Sprintf("%s has %d lines, at most %d: an example shows "+
				"one thing", r.path, lines, maxExample))
		}
		if len(r.code()) == len(r.files) {
			found = append(found, r.path+" has no test: show it failing and going on")
		}
		if _, err := os.Stat(filepath.Join(root, r.path, "README.md")); err != nil {
			found = append(found, r.path+" has no README.md: say what it shows, and what to type")
		}
	}
	return found
}
