package arch

import (
	"fmt"
	"go/ast"
	"slices"
)

// borrowing has the names of the root whose type or signature names a type of journal, store or
// observe. The first line opens an engine and sets it up. The others read what a journal says: the
// value is read or passed on, and a program rarely writes the name of its type.
var borrowing = []string{
	"New", "NewClient", "Options.NewClient", "Options.Observers", "Options.Trace", "Options.Off",
	"Engine.Load",
	"Client.History", "Client.List", "Query.After", "Query.Patterns", "Status.Head",
	"Description.Head", "Description.State", "Description.Waits", "Future.State", "StepInfo.Run",
	"Registered.Pattern", "Event.Pattern", "Info.Pattern", "Ended.Pattern",
}

func borrowedRules() []rule {
	return []rule{{
		name:  "root/signatures of the root name no type of another package, but for a few",
		check: borrowedTypes,
		bad: map[string]string{
			"a.go": `package perdure
type Run struct { Key journal.Number; own store.Store }
func (r *Run) Head() journal.Head { return journal.Head{} }
func (r *run) Head() journal.Head { return journal.Head{} }
func Step(e observe.Event, n int) { var _ journal.Head }
type List func(store.Store)
type Fine = journal.Head`,
			"b/b.go": "package b\nfunc B(journal.Head) {}",
		},
		want: []string{
			"a.go:2: Run.Key names journal.Number", "a.go:3: Run.Head names journal.Head",
			"a.go:5: Step names observe.Event", "a.go:6: List names store.Store",
		},
		fine: []string{"Run.own", "a.go:4", "a.go:7", "b/b.go"},
	}}
}

// borrowedTypes finds types of journal, store and observe in what the root exports. An alias is no
// other type, but the name of it that users write.
func borrowedTypes(h *module) (found []string) {
	r := h.packages[rootPackage]
	if r == nil {
		return nil
	}
	look := func(name string, of ast.Node) {
		if slices.Contains(borrowing, name) {
			return
		}
		ast.Inspect(of, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if ok && slices.Contains([]string{"journal", "store", "observe"}, x.Name) {
				found = append(found, fmt.Sprintf("%s: %s names %s.%s: users of workflows meet a "+
					"type of the root", h.at(sel), name, x.Name, sel.Sel.Name))
			}
			return true
		})
	}
	for _, f := range r.code() {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if name := methodName(d); name != "" {
					look(name, d.Type)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if t, ok := s.(*ast.TypeSpec); ok && t.Name.IsExported() {
						lookIntoType(t, look)
					}
				}
			}
		}
	}
	return found
}

// methodName returns the exported name of a function, or of a method with its exported type; empty
// if users cannot see it.
func methodName(d *ast.FuncDecl) string {
	if !d.Name.IsExported() {
		return ""
	}
	if d.Recv == nil {
		return d.Name.Name
	}
	name := ""
	ast.Inspect(d.Recv, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.IsExported() && len(id.Name) > 1 {
			name = id.Name + "." + d.Name.Name
		}
		return true
	})
	return name
}

func lookIntoType(t *ast.TypeSpec, look func(name string, of ast.Node)) {
	s, ok := t.Type.(*ast.StructType)
	switch {
	case t.Assign.IsValid():
	case !ok:
		look(t.Name.Name, t.Type)
	default:
		for _, f := range s.Fields.List {
			for _, id := range f.Names {
				if id.IsExported() {
					look(t.Name.Name+"."+id.Name, f.Type)
				}
			}
		}
	}
}
