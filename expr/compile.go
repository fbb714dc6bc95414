package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/types"
)

// An op is a compiled part of a text.
type op func(*run) (any, error)

// A compiler makes ops from a syntax tree. A node that it does not know is not part of the
// language, even if the parser accepts it, now or later.
type compiler struct {
	source []rune
	needs  wanted
	nodes  int
	depth  int
	path   bool // inside a path that is noted already
}

// compile returns the op of a text, and the data that it reads. It checks the tree before its
// types: a chain of comparisons contains a part twice, so the type checker would visit the parts of
// nested chains too often.
func compile(text string) (op, wanted, error) {
	switch {
	case len(text) > maxText:
		return nil, nil, fmt.Errorf("it has %d bytes, at most %d", len(text), maxText)
	case !utf8.ValidString(text):
		return nil, nil, errors.New("it is not UTF-8")
	}
	config := conf.New(names)
	config.Expect, config.ExpectAny = reflect.Bool, true
	config.DisableIfOperator = true
	tree, err := parser.ParseWithConfig(text, config)
	if err != nil {
		return nil, nil, err
	}
	c := &compiler{source: []rune(text), needs: wanted{}}
	root, err := c.node(tree.Node)
	if err != nil {
		return nil, nil, err
	}
	_, err = checker.Check(tree, config)
	return root, c.needs, err
}

// names are the names that a text may use, with their types.
var names = types.Map{
	"input":     types.Any,
	"results":   types.Map{types.Extra: types.Any},
	"variables": types.Map{types.Extra: types.Any},
	"headers":   types.TypeOf(map[string]string{}),
	"number":    types.TypeOf(func(any) any { return nil }),
}

// node compiles a node. Its evaluation takes a step, and its errors get its place.
func (c *compiler) node(n ast.Node) (op, error) {
	at := n.Location().From
	c.nodes++
	c.depth++
	defer func() { c.depth-- }()
	switch {
	case c.nodes > maxNodes:
		return nil, &fault{at, fmt.Errorf("it has more than %d parts", maxNodes)}
	case c.depth > maxDepth:
		return nil, &fault{at, fmt.Errorf("it is nested more than %d deep", maxDepth)}
	}
	do, err := c.part(n)
	if err != nil {
		return nil, placed(at, err)
	}
	return func(r *run) (any, error) {
		if err := r.spend(1); err != nil {
			return nil, placed(at, err)
		}
		v, err := do(r)
		return v, placed(at, err)
	}, nil
}

var errLanguage = errors.New("this is not in the language of conditions")

func (c *compiler) part(n ast.Node) (op, error) {
	switch n := n.(type) {
	case *ast.NilNode:
		return constant(nil), nil
	case *ast.BoolNode:
		return constant(n.Value), nil
	case *ast.StringNode:
		return constant(n.Value), nil
	case *ast.IntegerNode:
		return constant(big.NewRat(int64(n.Value), 1)), nil
	case *ast.FloatNode:
		return c.decimal(n)
	case *ast.ArrayNode:
		return c.array(n)
	case *ast.IdentifierNode:
		return c.identifier(n)
	case *ast.PointerNode:
		return pointer(n)
	case *ast.MemberNode:
		return c.member(n)
	case *ast.ChainNode:
		return c.chain(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.ConditionalNode:
		return c.conditional(n)
	case *ast.BuiltinNode:
		return c.builtin(n)
	case *ast.CallNode:
		return c.call(n)
	}
	return nil, errLanguage
}

func constant(v any) op {
	return func(*run) (any, error) { return v, nil }
}

// decimal parses a number as it is written, because the parser has rounded it.
func (c *compiler) decimal(n *ast.FloatNode) (op, error) {
	text := string(c.source[n.Location().From:n.Location().To])
	v, err := parseNumber(text)
	if err != nil {
		return nil, err
	}
	return constant(v), nil
}

func (c *compiler) array(n *ast.ArrayNode) (op, error) {
	items, err := c.all(n.Nodes)
	if err != nil {
		return nil, err
	}
	return func(r *run) (any, error) {
		values := make([]any, len(items))
		for i, do := range items {
			v, err := do(r)
			if err != nil {
				return nil, err
			}
			values[i] = v
		}
		return values, nil
	}, nil
}

func (c *compiler) all(nodes []ast.Node) ([]op, error) {
	ops := make([]op, len(nodes))
	for i, n := range nodes {
		do, err := c.node(n)
		if err != nil {
			return nil, err
		}
		ops[i] = do
	}
	return ops, nil
}

func (c *compiler) identifier(n *ast.IdentifierNode) (op, error) {
	name := n.Value
	if _, known := names[name]; !known || name == "number" {
		return nil, fmt.Errorf("unknown name %s: allowed are input, results, variables and headers",
			name)
	}
	if !c.path {
		c.needs.add([]string{name})
	}
	return func(r *run) (any, error) { return r.data[name], nil }, nil
}

// pointer compiles #, and the value before a leading dot.
func pointer(n *ast.PointerNode) (op, error) {
	if n.Name != "" {
		return nil, errLanguage
	}
	return item, nil
}

// item returns the current element of a function such as all.
func item(r *run) (any, error) { return r.items[len(r.items)-1], nil }

// pathTo returns the names on the path from one of the four names to a node; nil if the node is
// anything else.
func pathTo(n ast.Node) []string {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return []string{n.Value}
	case *ast.MemberNode:
		if key, ok := n.Property.(*ast.StringNode); ok {
			if base := pathTo(n.Node); base != nil {
				return append(base, key.Value)
			}
		}
	}
	return nil
}

func (c *compiler) member(n *ast.MemberNode) (op, error) {
	if path := pathTo(n); path != nil && !c.path {
		c.needs.add(path)
		c.path = true
		defer func() { c.path = false }()
	}
	parts, err := c.all([]ast.Node{n.Node, n.Property})
	if err != nil {
		return nil, err
	}
	var missing any
	if isHeader(n) {
		missing = ""
	}
	return func(r *run) (any, error) {
		base, err := parts[0](r)
		if err != nil {
			return nil, err
		}
		if base == nil && n.Optional {
			return nil, errNothing
		}
		key, err := parts[1](r)
		if err != nil {
			return nil, err
		}
		v, there, err := r.member(base, key)
		if !there {
			v = missing
		}
		return v, err
	}, nil
}

func isHeader(n ast.Node) bool {
	m, ok := n.(*ast.MemberNode)
	if !ok {
		return false
	}
	name, ok := m.Node.(*ast.IdentifierNode)
	return ok && name.Value == "headers"
}

// errNothing ends a chain at a nil before ?.
var errNothing = errors.New("nothing there")

func (c *compiler) chain(n *ast.ChainNode) (op, error) {
	do, err := c.node(n.Node)
	if err != nil {
		return nil, err
	}
	return func(r *run) (any, error) {
		v, err := do(r)
		if errors.Is(err, errNothing) {
			return nil, nil
		}
		return v, err
	}, nil
}

// boolean compiles a node whose value must be a boolean.
func (c *compiler) boolean(n ast.Node) (op, error) {
	do, err := c.node(n)
	if err != nil {
		return nil, err
	}
	at := n.Location().From
	return func(r *run) (any, error) {
		v, err := do(r)
		if err != nil {
			return nil, err
		}
		b, err := boolean(v)
		return b, placed(at, err)
	}, nil
}

func boolean(v any) (bool, error) {
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("a boolean is needed, and this is %s", kind(v))
	}
	return b, nil
}

func (c *compiler) conditional(n *ast.ConditionalNode) (op, error) {
	test, err := c.boolean(n.Cond)
	if err != nil {
		return nil, err
	}
	ways, err := c.all([]ast.Node{n.Exp1, n.Exp2})
	if err != nil {
		return nil, err
	}
	return func(r *run) (any, error) {
		yes, err := test(r)
		switch {
		case err != nil:
			return nil, err
		case yes == true:
			return ways[0](r)
		}
		return ways[1](r)
	}, nil
}

// kind returns the name of a value's type.
func kind(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "a boolean"
	case json.Number, *big.Rat:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}
