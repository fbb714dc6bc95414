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
	for _, system := range []string{"windows/386", "darwin/arm64"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			goos, arch, _ := strings.Cut(system, "/")
			if err := checkFor(root, goos, arch); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkFor checks the types of the packages below a folder, and of all that they import. The bodies
// of functions are checked in this module only.
func checkFor(dir, goos, arch string) error {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module",
		"./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	c := systemCheck{fset: token.NewFileSet(), done: map[string]*types.Package{
		"unsafe": types.Unsafe,
	}, sizes: types.SizesFor("gc", arch)}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; { // what is imported comes first
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			return errors.Join(c.found...)
		} else if err != nil {
			return err
		}
		if err := c.check(p); err != nil {
			return err
		}
	}
}

// A systemCheck checks packages in the order of their imports.
type systemCheck struct {
	fset  *token.FileSet
	sizes types.Sizes
	done  map[string]*types.Package
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
