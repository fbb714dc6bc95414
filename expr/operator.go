package expr

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/expr-lang/expr/ast"
)

func (c *compiler) unary(n *ast.UnaryNode) (op, error) {
	switch n.Operator {
	case "!", "not":
		do, err := c.boolean(n.Node)
		if err != nil {
			return nil, err
		}
		return func(r *run) (any, error) {
			v, err := do(r)
			return v == false, err
		}, nil
	case "-":
		do, err := c.node(n.Node)
		if err != nil {
			return nil, err
		}
		return func(r *run) (any, error) {
			v, err := do(r)
			if err != nil {
				return nil, err
			}
			return r.arithmetic("-", new(big.Rat), v)
		}, nil
	}
	return nil, errLanguage
}

// operators are the operators that evaluate both sides.
var operators = map[string]func(r *run, a, b any) (any, error){
	"==": func(r *run, a, b any) (any, error) { return r.equal(a, b) },
	"!=": func(r *run, a, b any) (any, error) {
		same, err := r.equal(a, b)
		return !same, err
	},
	"<": func(r *run, a, b any) (any, error) {
		order, err := r.order("<", a, b)
		return order < 0, err
	},
	"<=": func(r *run, a, b any) (any, error) {
		order, err := r.order("<=", a, b)
		return order <= 0, err
	},
	">": func(r *run, a, b any) (any, error) {
		order, err := r.order(">", a, b)
		return order > 0, err
	},
	">=": func(r *run, a, b any) (any, error) {
		order, err := r.order(">=", a, b)
		return order >= 0, err
	},
	"+":          (*run).plus,
	"-":          func(r *run, a, b any) (any, error) { return r.arithmetic("-", a, b) },
	"*":          func(r *run, a, b any) (any, error) { return r.arithmetic("*", a, b) },
	"/":          func(r *run, a, b any) (any, error) { return r.arithmetic("/", a, b) },
	"%":          func(r *run, a, b any) (any, error) { return r.arithmetic("%", a, b) },
	"in":         (*run).in,
	"contains":   within("contains", strings.Contains),
	"startsWith": within("startsWith", strings.HasPrefix),
	"endsWith":   within("endsWith", strings.HasSuffix),
}

func (c *compiler) binary(n *ast.BinaryNode) (op, error) {
	if asksForNoHeader(n) {
		return nil, errors.New("a header that is not there is an empty string, never nil")
	}
	switch n.Operator {
	case "&&", "and":
		return c.logic(n, false)
	case "||", "or":
		return c.logic(n, true)
	case "??":
		return c.otherwise(n)
	case "matches":
		return c.matches(n)
	}
	do, known := operators[n.Operator]
	if !known {
		return nil, errLanguage
	}
	sides, err := c.all([]ast.Node{n.Left, n.Right})
	if err != nil {
		return nil, err
	}
	return func(r *run) (any, error) {
		a, err := sides[0](r)
		if err != nil {
			return nil, err
		}
		b, err := sides[1](r)
		if err != nil {
			return nil, err
		}
		return do(r, a, b)
	}, nil
}

// asksForNoHeader finds comparisons that have the same result with every header.
func asksForNoHeader(n *ast.BinaryNode) bool {
	switch n.Operator {
	case "==", "!=":
		return isHeader(n.Left) && isNil(n.Right) || isNil(n.Left) && isHeader(n.Right)
	case "??":
		return isHeader(n.Left)
	}
	return false
}

func isNil(n ast.Node) bool {
	_, ok := n.(*ast.NilNode)
	return ok
}

// logic compiles an operator that does not evaluate its right side if its left side decides.
func (c *compiler) logic(n *ast.BinaryNode, decides bool) (op, error) {
	left, err := c.boolean(n.Left)
	if err != nil {
		return nil, err
	}
	right, err := c.boolean(n.Right)
	if err != nil {
		return nil, err
	}
	return func(r *run) (any, error) {
		v, err := left(r)
		if err != nil || v == decides {
			return v, err
		}
		return right(r)
	}, nil
}

func (c *compiler) otherwise(n *ast.BinaryNode) (op, error) {
	sides, err := c.all([]ast.Node{n.Left, n.Right})
	if err != nil {
		return nil, err
	}
	return func(r *run) (any, error) {
		v, err := sides[0](r)
		if err != nil || v != nil {
			return v, err
		}
		return sides[1](r)
	}, nil
}

// matches compiles a regular expression together with the text. The expression must be in the text:
// in the data it could have any size.
func (c *compiler) matches(n *ast.BinaryNode) (op, error) {
	literal, ok := n.Right.(*ast.StringNode)
	if !ok {
		return nil, errors.New("matches needs a pattern in quotes")
	}
	left, err := c.node(n.Left)
	if err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(literal.Value, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	size := len(program.Inst)
	if size > maxPattern {
		return nil, fmt.Errorf("the pattern compiles to %d instructions, at most %d", size,
			maxPattern)
	}
	pattern, err := regexp.Compile(literal.Value)
	if err != nil {
		return nil, err
	}
	return func(r *run) (any, error) {
		v, err := left(r)
		if err != nil {
			return nil, err
		}
		s, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("matches needs a string, and this is %s", kind(v))
		}
		if err := r.spend((len(s)/16 + 1) * size); err != nil {
			return nil, err
		}
		return pattern.MatchString(s), nil
	}, nil
}

// within returns an operator for two strings.
func within(name string, is func(s, part string) bool) func(r *run, a, b any) (any, error) {
	return func(r *run, a, b any) (any, error) {
		s, first := a.(string)
		part, second := b.(string)
		if !first || !second {
			return nil, fmt.Errorf("%s needs two strings, and these are %s and %s", name, kind(a),
				kind(b))
		}
		if err := r.look(len(s) + len(part)); err != nil {
			return nil, err
		}
		return is(s, part), nil
	}
}
