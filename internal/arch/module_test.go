package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	modulePath  = "github.com/perdure/perdure"
	root        = "../.."
	rootPackage = "/" // the root package in the plan
)

// A module has the parsed Go files of this module, or of a small one that breaks a rule.
type module struct {
	fset     *token.FileSet
	packages map[string]*goPackage // by path below the module; rootPackage for the root package
}

// A goPackage is a package with its tests.
type goPackage struct {
	path  string
	name  string
	files []*file
}

// A file is a file of Go.
type file struct {
	*ast.File
	path   string // below the module
	source string
	lines  int
	test   bool
}

func newModule() *module {
	return &module{fset: token.NewFileSet(), packages: map[string]*goPackage{}}
}

// add reads a file of the module.
func (h *module) add(name string, source []byte) error {
	parsed, err := parser.ParseFile(h.fset, name, source, parser.ParseComments|
		parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	if dir == "." {
		dir = rootPackage
	}
	r := h.packages[dir]
	if r == nil {
		r = &goPackage{path: dir}
		h.packages[dir] = r
	}
	f := &file{
		File: parsed, path: name, source: string(source), test: strings.HasSuffix(name, "_test.go"),
	}
	f.lines = strings.Count(string(source), "\n")
	if !f.test {
		r.name = parsed.Name.Name
	}
	r.files = append(r.files, f)
	return nil
}

// load reads every Go file of the module, for whatever system.
func load(dir string) (*module, error) {
	h := newModule()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != dir && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") ||
				strings.HasPrefix(d.Name(), "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		return h.add(filepath.ToSlash(rel), source)
	})
	return h, err
}

// at returns the file and line of a node.
func (h *module) at(n ast.Node) string {
	p := h.fset.Position(n.Pos())
	return fmt.Sprintf("%s:%d", p.Filename, p.Line)
}

// sorted returns the packages in the order of their paths.
func (h *module) sorted() []*goPackage {
	var out []*goPackage
	for _, r := range h.packages {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *goPackage) int { return strings.Compare(a.path, b.path) })
	return out
}

// files returns every file, including tests.
func (h *module) files() []*file {
	var out []*file
	for _, r := range h.sorted() {
		out = append(out, r.files...)
	}
	return out
}

// code returns the files that are not tests.
func (r *goPackage) code() []*file {
	return slices.DeleteFunc(slices.Clone(r.files), func(f *file) bool { return f.test })
}

// imports returns the imports of some files: packages of the module by their path in the plan, and
// others as they are written.
func imports(files []*file) (own, others []string) {
	for _, f := range files {
		for _, spec := range f.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue
			}
			in, inside := strings.CutPrefix(p, modulePath)
			switch {
			case inside && in == "":
				own = append(own, rootPackage)
			case inside && in[0] == '/':
				own = append(own, in[1:])
			default:
				others = append(others, p)
			}
		}
	}
	slices.Sort(own)
	slices.Sort(others)
	return slices.Compact(own), slices.Compact(others)
}

// isStandard reports whether a package belongs to the standard library.
func isStandard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// A rule finds the places that break it.
type rule struct {
	name  string
	check func(*module) []string
	bad   map[string]string // a small module that breaks the rule, by file
	want  []string          // texts that its findings must contain
	fine  []string          // texts that they must not contain
}

func rules() []rule {
	return slices.Concat(
		planRules(), rootRules(), borrowedRules(), optionRules(), budgetRules(), wordRules(),
		vocabularyRules(), languageRules(), kernelRules(),
	)
}

// TestRules runs every rule over this module.
func TestRules(t *testing.T) {
	h, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, found := range r.check(h) {
				t.Error(found)
			}
		})
	}
}

// TestRulesBite runs every rule over the small module that breaks it.
func TestRulesBite(t *testing.T) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			h := newModule()
			for name, source := range r.bad {
				if err := h.add(name, []byte(source)); err != nil {
					t.Fatal(err)
				}
			}
			found := r.check(h)
			for _, want := range r.want {
				if !slices.ContainsFunc(found, func(s string) bool {
					return strings.Contains(s, want)
				}) {
					t.Errorf("it does not say %q, but %q", want, found)
				}
			}
			for _, fine := range r.fine {
				if slices.ContainsFunc(found, func(s string) bool {
					return strings.Contains(s, fine)
				}) {
					t.Errorf("it says %q, and that is fine: %q", fine, found)
				}
			}
			if len(r.want) == 0 {
				t.Error("there is no bad module for it")
			}
		})
	}
}
