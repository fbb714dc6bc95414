package arch

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A listed package is a package as "go list" shows it.
type listed struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	ImportMap  map[string]string
	Module     *struct{ Path string }
}

// TestTheModuleIsValidOnOtherSystems checks the types of the whole program for systems that the
// tests do not run on: other files are built there, and an int may have 32 bits. A build for each
// would take minutes.
func TestTheModuleIsValidOnOtherSystems(t *testing.T) {
	for _, system := range []string{"linux/386", "windows/amd64", "darwin/arm64"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			goos, arch, _ := strings.Cut(system, "/")
			if own, err := checkFor(root, goos, arch); err != nil || own < 50 {
				t.Errorf("%d packages are checked: %v", own, err)
			}
		})
	}
}

// TestAProgramForOtherSystemsIsJudged checks a module that is valid on some systems only.
func TestAProgramForOtherSystemsIsJudged(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module " + modulePath + "\n\ngo 1.26\n",
		"a.go":         "package a\n\nconst Large int = 1 << 40\n",
		"a_windows.go": "package a\n\nvar Text string = 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for system, valid := range map[string]bool{
		"linux/amd64": true, "linux/386": false, "windows/amd64": false,
	} {
		goos, arch, _ := strings.Cut(system, "/")
		if own, err := checkFor(dir, goos, arch); own != 1 || (err == nil) != valid {
			t.Errorf("%s: %d packages, %v", system, own, err)
		}
	}
}

// checkFor checks the types of the packages below a folder, and of all that they import. The bodies
// of functions are checked in this module only. It returns the number of packages of this module.
func checkFor(dir, goos, arch string) (own int, err error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module",
		"./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("go list: %w", err)
	}
	c := systemCheck{fset: token.NewFileSet(), done: map[string]*types.Package{
		"unsafe": types.Unsafe,
	}, sizes: types.SizesFor("gc", arch)}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; { // what is imported comes first
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			return c.own, errors.Join(c.found...)
		} else if err != nil {
			return 0, err
		}
		if err := c.check(p); err != nil {
			return 0, err
		}
	}
}

// A systemCheck checks packages in the order of their imports.
type systemCheck struct {
	fset  *token.FileSet
	sizes types.Sizes
	done  map[string]*types.Package
	own   int     // packages of this module
	found []error // in this module
}

func (c *systemCheck) check(p listed) error {
	if p.ImportPath == "unsafe" {
		return nil
	}
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil,
			parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	own := p.Module != nil && p.Module.Path == modulePath
	if own {
		c.own++
	}
	config := types.Config{
		Importer: checked{c.done, p.ImportMap}, Sizes: c.sizes, IgnoreFuncBodies: !own,
		FakeImportC: true,
		Error: func(err error) {
			if own {
				c.found = append(c.found, err)
			}
		},
	}
	c.done[p.ImportPath], _ = config.Check(p.ImportPath, c.fset, files, nil) // see Error
	return nil
}

// A checked finds the packages that are checked already, for the imports of one package.
type checked struct {
	done  map[string]*types.Package
	names map[string]string // from what the file says to the package, where they differ
}

// Import implements [types.Importer].
func (i checked) Import(path string) (*types.Package, error) {
	if name := i.names[path]; name != "" {
		path = name
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not listed", path)
}
