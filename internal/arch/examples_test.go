package arch

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A showcase has the exported names of a package, and the names that its examples use.
type showcase struct {
	pkg      string
	exported []string       // Name, or Type.Method
	owners   map[string]int // number of exported functions and methods with a name
	// types that functions, methods and constants return: an example of these shows the types, too
	given  map[string]bool
	groups map[string][]string // constants by name: all of their group, one of which is enough
	uses   map[string][]string // examples by what they use: pkg.Name, or .Method
}

// showcaseOf reads the files of a package.
func showcaseOf(pkg string, files []*ast.File) *showcase {
	s := &showcase{
		pkg: pkg, owners: map[string]int{}, given: map[string]bool{}, groups: map[string][]string{},
		uses: map[string][]string{},
	}
	for _, f := range files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if f.Name.Name == pkg {
					s.function(d)
				} else if strings.HasPrefix(d.Name.Name, "Example") && d.Recv == nil {
					s.example(d.Name.Name, d.Body)
				} else if d.Name.Name == "init" {
					s.example("Example", d.Body)
				}
			case *ast.GenDecl:
				if f.Name.Name == pkg {
					s.declared(d)
				} else { // declarations beside an example
					s.example("Example", d)
				}
			}
		}
	}
	return s
}

// glue has names that are exported for other packages of this module only.
var glue = []string{"Future.Operation", "Client.Sealed"}

// function notes an exported function or method, and the types that it returns.
func (s *showcase) function(d *ast.FuncDecl) {
	if !d.Name.IsExported() {
		return
	}
	name := d.Name.Name
	if d.Recv != nil {
		ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
			if t, ok := n.(*ast.Ident); ok && name == d.Name.Name {
				name = t.Name + "." + name
			}
			return true
		})
		if !ast.IsExported(name) || strings.HasSuffix(name, ".Error") || strings.HasSuffix(name,
			".Unwrap") || strings.Contains(name, ".ApplyTo") || slices.Contains(glue, name) {
			return
		}
	}
	s.exported = append(s.exported, name)
	s.owners[d.Name.Name]++
	if d.Type.Results != nil {
		ast.Inspect(d.Type.Results, func(n ast.Node) bool {
			if t, ok := n.(*ast.Ident); ok {
				s.given[t.Name] = true
			}
			return true
		})
	}
}

// declared notes exported types, variables and constants. An interface of the root does not occur
// in programs by its name, but its implementations do.
func (s *showcase) declared(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if _, is := spec.Type.(*ast.InterfaceType); !is && spec.Name.IsExported() {
				s.exported = append(s.exported, spec.Name.Name)
			}
		case *ast.ValueSpec:
			if d.Tok == token.CONST && d.Lparen.IsValid() {
				for _, n := range spec.Names {
					s.groups[n.Name] = constants(d)
				}
			}
			if t, ok := spec.Type.(*ast.Ident); ok {
				s.given[t.Name] = true
			}
			for _, n := range spec.Names {
				if n.IsExported() {
					s.exported = append(s.exported, n.Name)
				}
			}
		}
	}
}

// constants returns the names of a group of constants.
func constants(d *ast.GenDecl) (names []string) {
	for _, spec := range d.Specs {
		for _, n := range spec.(*ast.ValueSpec).Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// example notes the names that an example uses.
func (s *showcase) example(name string, in ast.Node) {
	ast.Inspect(in, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			used := "." + sel.Sel.Name
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == s.pkg {
				used = s.pkg + used
			}
			s.uses[used] = append(s.uses[used], name)
		}
		return true
	})
}

// byPatterns stands for the patterns of this module: they are the examples of what is exported for
// authors of patterns.
const byPatterns = "patterns"

// unshown returns the names that no example uses. If several types have a method of one name, an
// example of the type is enough: no program shows which of them it calls.
func (s *showcase) unshown() (found []string) {
	slices.Sort(s.exported)
	for _, name := range s.exported {
		typ, method, is := strings.Cut(name, ".")
		shown := s.given[name] || len(s.uses[s.pkg+"."+name]) > 0 ||
			slices.ContainsFunc(s.groups[name], func(other string) bool {
				return len(s.uses[s.pkg+"."+other]) > 0
			})
		if is {
			shown = slices.ContainsFunc(s.uses["."+method], func(example string) bool {
				return s.owners[method] == 1 || example == byPatterns || example == "Example"+typ ||
					strings.HasPrefix(example, "Example"+typ+"_")
			})
		}
		if !shown {
			found = append(found, fmt.Sprintf("no example shows %s.%s: write func Example%s, "+
				"with its output, in a file example_…_test.go",
				s.pkg, name, strings.ReplaceAll(name, ".", "_")))
		}
	}
	return found
}

// pattern notes the names that a pattern uses.
func (s *showcase) pattern(t *testing.T, dir string) {
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		s.example(byPatterns, f)
	}
}

func TestEveryFeatureHasAnExample(t *testing.T) {
	for _, dir := range []string{".", "admin", "backpressure", "pattern", "perduretest"} {
		names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		fset, files := token.NewFileSet(), []*ast.File{}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(filepath.Base(name),
				"example") {
				continue
			}
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(fset, name, source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		s := showcaseOf(cmp.Or(strings.Trim(dir, "."), "perdure"), files)
		for _, pattern := range []string{"dag", "machine", "saga", "tcc"} {
			s.pattern(t, pattern)
		}
		for _, found := range s.unshown() {
			t.Error(found)
		}
	}
}

func TestAFeatureWithoutAnExampleIsTold(t *testing.T) {
	var files []*ast.File
	for _, source := range []string{
		`package p
type Given struct{}
type Bare int
type Kind interface{ kind() }
var Value int
func Make() *Given { return nil }
func Hidden() {}
func (*Given) Do() {}
func (*Given) Twice() {}
func (Bare) Twice() {}
func (Bare) Error() string { return "" }
func (Bare) own() {}`,
		`package p_test
import "p"
func ExampleMake() { g := p.Make(); g.Do(); g.Twice(); Hidden() }
func ExampleGiven() { p.Make().Twice() }`,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	var missing []string
	for _, found := range showcaseOf("p", files).unshown() {
		name, _, _ := strings.Cut(strings.TrimPrefix(found, "no example shows p."), ":")
		missing = append(missing, name)
	}
	if want := []string{"Bare", "Bare.Twice", "Hidden", "Value"}; !slices.Equal(missing, want) {
		t.Errorf("it misses %q, want %q", missing, want)
	}
}
