package arch

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
)

// kernel is the package whose value types are listed below.
const kernel = "internal/kernel"

// homes has the value types of the kernel, each with the one file that touches its fields. The
// promise of such a type stands beside its fields, and can be checked by reading that file.
var homes = map[string]string{
	"log":         "log.go",
	"standing":    "head.go",
	"reservation": "reservation.go",
	"keeping":     "late.go",
	"turns":       "turn.go",
	"operations":  "openoperations.go",
	"alarm":       "timer.go",
	"lanes":       "pipeline.go",
	"prompt":      "dispatcher.go",
	"claims":      "claim.go",
	"activity":    "activity.go",
	"observed":    "notices.go",
	"trial":       "trial.go",
	"inbox":       "inbox.go",
	"freezing":    "freeze.go",
	"adoption":    "child.go",
	"activation":  "activation.go",
	"ending":      "closing.go",
	"values":      "values.go",
	"deadLetters": "deadletter.go",
	"waits":       "openwaits.go",
	"outputs":     "output.go",
	"logged":      "output.go",
}

// clockFile has the clock that tells the kernel the time.
const clockFile = "timer.go"

// measured has the functions of the kernel that read the monotonic clock of the machine, because
// they measure a time or set the end of one.
var measured = map[string]string{
	"activity.go": "drains Show",
	"aside.go":    "put",
	"attempt.go":  "interrupt again execute succeeded failed discarded",
	"claim.go":    "claimDue claim",
	"engine.go":   "rejoin turn now",
	"kernel.go":   "newKernel join drain",
	"late.go":     "begin isYoung",
	"lease.go":    "extend shortened holds renew",
	"lend.go":     "look may took contend suspect",
	"notices.go":  "tellBegun",
	"transact.go": "propose withdraw",
	"unload.go":   "considerUnload add look unloadUntil",
	"visit.go":    "Took",
}

func kernelRules() []rule {
	return []rule{
		{
			name:  "kernel/the time that is recorded is that of the kernel's clock",
			check: otherClocks,
			bad: map[string]string{
				kernel + "/late.go": `package kernel
import "time"
func begin() time.Time { return time.Now() }
func end(t time.Time) time.Duration { return time.Until(t) + time.Since(t) }`,
				kernel + "/timer.go": `package kernel
import "time"
func Now() time.Time { return time.Now() }`,
			},
			want: []string{
				"late.go:4: end calls time.Until", "late.go:4: end calls time.Since",
				"isYoung of late.go is in the table",
			},
			fine: []string{"late.go:3", "timer.go:3"},
		},
		{
			name:  "kernel/fields of the kernel's value types are touched in their own file",
			check: strayFields,
			bad: map[string]string{
				kernel + "/log.go": `package kernel
import "time"
type log struct { seq int64; at time.Time }
func (l *log) last() int64 { return l.seq }`,
				kernel + "/run.go": `package kernel
type run struct { log; other int }
func (r *run) a() { r.seq++ }
func (r *run) b() log { return log{seq: 1} }
func (r *run) c() (int64, int) { return r.last(), r.other }
func (r *run) d() bool { return r.log.at.IsZero() }`,
			},
			want: []string{
				"run.go:3: seq of log", "run.go:4: seq of log", "run.go:6: at of log",
				"turns is in the table",
			},
			fine: []string{"run.go:5", "kernel/log.go:"},
		},
	}
}

// otherClocks finds functions of the kernel that read the clock of the machine and do not measure.
func otherClocks(h *module) (found []string) {
	r := h.packages[kernel]
	if r == nil {
		return nil
	}
	reads := map[string]bool{}
	for _, f := range r.code() {
		in := path.Base(f.path)
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := fn.Name.Name
			ast.Inspect(fn, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := sel.X.(*ast.Ident)
				if !ok || x.Name != "time" || in == clockFile ||
					!slices.Contains([]string{"Now", "Since", "Until"}, sel.Sel.Name) {
					return true
				}
				reads[in+" "+name] = true
				if !slices.Contains(strings.Fields(measured[in]), name) {
					found = append(found, fmt.Sprintf("%s: %s calls time.%s: ask Now or until of "+
						"the clock in %s", h.at(n), name, sel.Sel.Name, clockFile))
				}
				return true
			})
		}
	}
	for _, in := range slices.Sorted(maps.Keys(measured)) {
		for name := range strings.FieldsSeq(measured[in]) {
			if !reads[in+" "+name] {
				found = append(found, name+" of "+in+" is in the table and measures nothing")
			}
		}
	}
	return found
}

// strayFields finds fields of the value types that another file touches.
func strayFields(h *module) (found []string) {
	r := h.packages[kernel]
	if r == nil {
		return nil
	}
	uses := map[*ast.Ident]types.Object{}
	c := &checker{module: h, std: importer.Default(), done: map[string]*types.Package{}}
	pkg := c.check(r, &types.Info{Uses: uses})
	owner := map[types.Object]string{}
	for _, name := range slices.Sorted(maps.Keys(homes)) {
		t := pkg.Scope().Lookup(name)
		if t == nil {
			found = append(found, name+" is in the table and not in "+kernel+": take it off")
			continue
		}
		if s, ok := t.Type().Underlying().(*types.Struct); ok {
			for i := range s.NumFields() {
				owner[s.Field(i)] = name
			}
		}
	}
	for at, field := range uses {
		home := homes[owner[field]]
		if in := path.Base(h.fset.Position(at.Pos()).Filename); home != "" && in != home {
			found = append(found, fmt.Sprintf(
				"%s: %s of %s is touched outside %s: ask a method there, which can keep what the "+
					"type promises",
				h.at(at), field.Name(), owner[field], home))
		}
	}
	slices.Sort(found)
	return found
}

// A checker finds the types of packages. It tolerates code that does not compile.
type checker struct {
	module *module
	std    types.Importer
	done   map[string]*types.Package
}

func (c *checker) check(r *goPackage, info *types.Info) *types.Package {
	var files []*ast.File
	for _, f := range r.code() {
		files = append(files, f.File)
	}
	conf := types.Config{Importer: c, Error: func(error) {}}
	pkg, _ := conf.Check(r.path, c.module.fset, files, info)
	return pkg
}

// Import implements types.Importer.
func (c *checker) Import(p string) (*types.Package, error) {
	in, own := strings.CutPrefix(p, modulePath+"/")
	r := c.module.packages[in]
	if !own || r == nil {
		return c.std.Import(p)
	}
	if c.done[in] == nil {
		c.done[in] = c.check(r, nil)
	}
	return c.done[in], nil
}
