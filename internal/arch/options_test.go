package arch

import (
	"fmt"
	"go/ast"
	"strings"
	"unicode"
)

func optionRules() []rule {
	return []rule{{
		name: "root/the comment of an option type lists its members", check: unlistedOptions,
		bad: map[string]string{
			"o.go": "package perdure\n// A CallOption is one: [Key].\n" +
				"type CallOption interface{ ApplyToCall(int) error }\n" +
				"type Key int\nfunc (Key) ApplyToCall(int) error { return nil }\n" +
				"type Limit int\nfunc (Limit) ApplyToCall(int) error { return nil }\n" +
				"type once int\nvar Once once\nfunc (once) ApplyToCall(int) error { " +
				"return nil }\n" +
				"type own int\nfunc (own) ApplyToCall(int) error { return nil }",
			"pattern/p.go": "package pattern\ntype Mode int\n" +
				"func (Mode) ApplyToCall(int) error { return nil }",
		},
		want: []string{
			"does not list [Limit]", "does not list [Once]", "does not list pattern.Mode",
		},
		fine: []string{"[Key]", "own"},
	}}
}

// unlistedOptions finds the members of the option types of the root that go doc does not show.
func unlistedOptions(h *module) (found []string) {
	r := h.packages[rootPackage]
	if r == nil {
		return nil
	}
	for _, f := range r.code() {
		for _, d := range f.Decls {
			name, method := optionType(d)
			if name == "" {
				continue
			}
			doc := d.(*ast.GenDecl).Doc.Text()
			for _, member := range h.appliedBy(method) {
				if !strings.Contains(doc, member) {
					found = append(found, fmt.Sprintf("%s: the comment of %s does not list %s",
						h.at(d), name, member))
				}
			}
		}
	}
	return found
}

// optionType returns the name of an option type that d declares, and its method.
func optionType(d ast.Decl) (name, method string) {
	g, ok := d.(*ast.GenDecl)
	if !ok || len(g.Specs) != 1 {
		return "", ""
	}
	t, ok := g.Specs[0].(*ast.TypeSpec)
	if !ok || !strings.HasSuffix(t.Name.Name, "Option") {
		return "", ""
	}
	i, ok := t.Type.(*ast.InterfaceType)
	if !ok || len(i.Methods.List) != 1 || len(i.Methods.List[0].Names) != 1 {
		return "", ""
	}
	return t.Name.Name, i.Methods.List[0].Names[0].Name
}

// appliedBy lists the exported types with a method, and the exported functions and variables
// that have the name of one that is not exported, as a comment of the root names them.
func (h *module) appliedBy(method string) (members []string) {
	for _, r := range h.sorted() {
		if strings.Contains(r.path, "internal/") {
			continue
		}
		values := map[string]bool{}
		var types []string
		for _, f := range r.code() {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil {
					if fn.Name.Name == method {
						types = append(types, receiver(fn))
					}
					continue
				}
				if g, ok := d.(*ast.GenDecl); ok && g.Tok.String() == "type" {
					continue
				}
				for _, name := range exported(d) {
					values[name] = true
				}
			}
		}
		for _, name := range types {
			open := string(unicode.ToUpper(rune(name[0]))) + name[1:]
			switch {
			case name != open && !values[open]:
			case r.path == rootPackage:
				members = append(members, "["+open+"]")
			default:
				members = append(members, r.name+"."+open)
			}
		}
	}
	return members
}
