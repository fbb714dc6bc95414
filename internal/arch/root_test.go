package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
)

// The budget of the root package, whose page readers have to look through.
const (
	maxNames   = 110 // exported; the constants of one enumeration count as one
	maxAliases = 10
	maxFiles   = 70 // of Go, tests included
)

func rootRules() []rule {
	return []rule{
		{
			name: "root/the root has at most 110 names, 10 aliases and 70 files", check: wideRoot,
			bad: map[string]string{
				"many.go": "package perdure\n" + numbered(111, "type T%d int\n"),
				"alias.go": "package perdure\n" + numbered(11, "type A%d = int\n") +
					"const (\n\tB = 1\n\tC = 2\n)\n",
			},
			want: []string{
				"the root exports 123 names, at most 110", "11 of them are aliases, at most 10",
			},
		},
		{
			name: "root/nothing in the root is used by patterns only", check: forPatternsOnly,
			bad: map[string]string{
				"a.go": "package perdure\ntype Both int\ntype Alone int\ntype Given int\n" +
					"func Make() Given { return 0 }\nconst (\n\tOne = 1\n\tTwo = 2\n)",
				"dag/d.go": "package dag\nimport \"github.com/perdure/perdure\"\nvar _, _, _, _, " +
					"_ = perdure.Both(1), perdure.Alone(1), perdure.Make(), perdure.Given(1), " +
					"perdure.One",
				"app/a.go": "package app\nimport \"github.com/perdure/perdure\"\nvar _, _, _ = " +
					"perdure.Both(1), perdure.Make(), perdure.Two",
			},
			want: []string{"perdure.Alone is used by patterns only"},
			fine: []string{"perdure.Both", "perdure.Given", "perdure.Make", "perdure.One"},
		},
	}
}

func numbered(n int, line string) (s string) {
	for i := range n {
		s += fmt.Sprintf(line, i)
	}
	return s
}

func wideRoot(h *module) (found []string) {
	r := h.packages[rootPackage]
	if r == nil {
		return nil
	}
	names, aliases := 0, 0
	for _, f := range r.code() {
		for _, d := range f.Decls {
			n, a := exports(d)
			names, aliases = names+n, aliases+a
		}
	}
	if names > maxNames {
		found = append(found, fmt.Sprintf("the root exports %d names, at most %d: what only "+
			"patterns, operators or tools use has a package of its own", names, maxNames))
	}
	if aliases > maxAliases {
		found = append(found, fmt.Sprintf("%d of them are aliases, at most %d: use the name of "+
			"the package below", aliases, maxAliases))
	}
	if n := len(r.files); n > maxFiles {
		found = append(found, fmt.Sprintf("the root has %d files, at most %d", n, maxFiles))
	}
	return found
}

// exports counts the exported names of a declaration, and those of them that are aliases.
func exports(d ast.Decl) (names, aliases int) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.IsExported() {
			names++
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					names++
					if s.Assign.IsValid() {
						aliases++
					}
				}
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() {
						names++
					}
				}
			}
		}
		if d.Tok == token.CONST {
			names = min(names, 1)
		}
	}
	return names, aliases
}

// patterns are the packages that are made with package pattern, and package pattern.
var patterns = []string{
	"dag", "saga", "tcc", "pattern", "internal/patterntest", "internal/enginetest/patterns",
}

// forPatternsOnly finds names of the root that only patterns use: no other package, its tests
// included, and no other declaration of the root.
func forPatternsOnly(h *module) (found []string) {
	r := h.packages[rootPackage]
	if r == nil {
		return nil
	}
	byPatterns, byOthers := map[string]bool{}, map[string]bool{}
	for path, other := range h.packages {
		used := byOthers
		if slices.Contains(patterns, path) {
			used = byPatterns
		}
		for _, f := range other.files {
			if path != rootPackage {
				usesOfRoot(f.File, used)
			}
		}
	}
	groups := map[string][]string{}
	for _, f := range r.code() {
		for _, d := range f.Decls {
			names := exported(d)
			for _, n := range names {
				groups[n] = names
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && !slices.Contains(names, id.Name) {
					byOthers[id.Name] = true
				}
				return true
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byPatterns)) {
		used := slices.ContainsFunc(groups[name], func(n string) bool { return byOthers[n] })
		if groups[name] != nil && !used {
			found = append(found, fmt.Sprintf(
				"perdure.%s is used by patterns only: move it to package pattern", name))
		}
	}
	return found
}

// usesOfRoot adds the names of the root that a file uses.
func usesOfRoot(f *ast.File, used map[string]bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == "perdure" {
				used[sel.Sel.Name] = true
			}
		}
		return true
	})
}

// exported lists the exported names of a declaration: all of them stand for one thing.
func exported(d ast.Decl) (names []string) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			add(d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				add(s.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					add(n)
				}
			}
		}
	}
	return names
}
