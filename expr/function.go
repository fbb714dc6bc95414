package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
)

// searches are the functions that evaluate a predicate for each element of an array. They stop as
// soon as the result is clear.
var searches = map[string]struct {
	stopAtYes, stopAtNo bool
	give                func(found []any, stopped bool) any
}{
	"all":    {stopAtNo: true, give: func(_ []any, stopped bool) any { return !stopped }},
	"any":    {stopAtYes: true, give: func(_ []any, stopped bool) any { return stopped }},
	"none":   {stopAtYes: true, give: func(_ []any, stopped bool) any { return !stopped }},
	"one":    {give: func(found []any, _ bool) any { return len(found) == 1 }},
	"count":  {give: func(found []any, _ bool) any { return big.NewRat(int64(len(found)), 1) }},
	"filter": {give: func(found []any, _ bool) any { return found }},
	"find": {stopAtYes: true, give: func(found []any, stopped bool) any {
		if !stopped {
			return nil
		}
		return found[0]
	}},
}

// functions are the functions with one argument.
var functions = map[string]func(r *run, v any) (any, error){
	"len":    (*run).length,
	"lower":  (*run).lower,
	"upper":  (*run).upper,
	"trim":   (*run).trim,
	"number": (*run).toNumber,
}

func (c *compiler) builtin(n *ast.BuiltinNode) (op, error) {
	switch n.Name {
	case "all", "any", "none", "one", "count", "filter", "find":
		return c.search(n)
	case "map", "sum":
		return c.each(n)
	}
	return c.function(n.Name, n.Arguments)
}

func (c *compiler) call(n *ast.CallNode) (op, error) {
	name, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return nil, errLanguage
	}
	return c.function(name.Value, n.Arguments)
}

func (c *compiler) function(name string, arguments []ast.Node) (op, error) {
	do, known := functions[name]
	switch {
	case !known:
		return nil, fmt.Errorf("unknown function %s", name)
	case len(arguments) != 1:
		return nil, fmt.Errorf("%s takes one value, and there are %d", name, len(arguments))
	}
	value, err := c.node(arguments[0])
	if err != nil {
		return nil, err
	}
	return func(r *run) (any, error) {
		v, err := value(r)
		if err != nil {
			return nil, err
		}
		return do(r, v)
	}, nil
}

func (c *compiler) search(n *ast.BuiltinNode) (op, error) {
	if len(n.Arguments) != 2 {
		return nil, fmt.Errorf(
			"%s takes an array and a predicate, as in %s(input.items, .price > 100)", n.Name,
			n.Name)
	}
	list, err := c.list(n)
	if err != nil {
		return nil, err
	}
	test, err := c.predicate(n.Arguments[1], c.boolean)
	if err != nil {
		return nil, err
	}
	how := searches[n.Name]
	return func(r *run) (any, error) {
		items, err := list(r)
		if err != nil {
			return nil, err
		}
		var found []any
		for _, item := range items {
			yes, err := r.within(item, test)
			if err != nil {
				return nil, err
			}
			if yes == true {
				found = append(found, item)
			}
			if yes == true && how.stopAtYes || yes == false && how.stopAtNo {
				return how.give(found, true), nil
			}
		}
		return how.give(found, false), nil
	}, nil
}

// each compiles map and sum, which compute a value for each element.
func (c *compiler) each(n *ast.BuiltinNode) (op, error) {
	list, err := c.list(n)
	if err != nil {
		return nil, err
	}
	value := item
	if len(n.Arguments) == 2 {
		if value, err = c.predicate(n.Arguments[1], c.node); err != nil {
			return nil, err
		}
	}
	return func(r *run) (any, error) {
		items, err := list(r)
		if err != nil {
			return nil, err
		}
		values := []any{}
		var sum any = new(big.Rat)
		for _, item := range items {
			v, err := r.within(item, value)
			if err != nil {
				return nil, err
			}
			if n.Name == "map" {
				values = append(values, v)
			} else if sum, err = r.arithmetic("sum", sum, v); err != nil {
				return nil, err
			}
		}
		if n.Name == "map" {
			return values, nil
		}
		return sum, nil
	}, nil
}

// list compiles the array that a function iterates over.
func (c *compiler) list(n *ast.BuiltinNode) (func(*run) ([]any, error), error) {
	do, err := c.node(n.Arguments[0])
	if err != nil {
		return nil, err
	}
	return func(r *run) ([]any, error) {
		v, err := do(r)
		if err != nil {
			return nil, err
		}
		items, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("%s needs an array, and this is %s", n.Name, kind(v))
		}
		return items, nil
	}, nil
}

// predicate compiles the expression that is evaluated for each element.
func (c *compiler) predicate(n ast.Node, compile func(ast.Node) (op, error)) (op, error) {
	p, ok := n.(*ast.PredicateNode)
	if !ok {
		return nil, errLanguage
	}
	return compile(p.Node)
}

// within evaluates do for an element.
func (r *run) within(item any, do op) (any, error) {
	r.items = append(r.items, item)
	v, err := do(r)
	r.items = r.items[:len(r.items)-1]
	return v, err
}

func (r *run) length(v any) (any, error) {
	n := 0
	switch v := v.(type) {
	case string:
		if err := r.look(len(v)); err != nil {
			return nil, err
		}
		n = utf8.RuneCountInString(v)
	case []any:
		n = len(v)
	case map[string]any:
		n = len(v)
	default:
		return nil, fmt.Errorf("len needs a string, an array or an object, and this is %s", kind(v))
	}
	return big.NewRat(int64(n), 1), nil
}

func (r *run) lower(v any) (any, error) { return r.text("lower", v, strings.ToLower) }
func (r *run) upper(v any) (any, error) { return r.text("upper", v, strings.ToUpper) }
func (r *run) trim(v any) (any, error)  { return r.text("trim", v, strings.TrimSpace) }

func (r *run) text(name string, v any, do func(string) string) (any, error) {
	s, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("%s needs a string, and this is %s", name, kind(v))
	}
	if err := r.look(len(s)); err != nil {
		return nil, err
	}
	return do(s), nil
}

// toNumber parses a number in a string, such as a header, in the syntax of JSON.
func (r *run) toNumber(v any) (any, error) {
	s, ok := v.(string)
	if !ok {
		if _, err := r.number("number", v); err != nil {
			return nil, err
		}
		return v, nil
	}
	if !strings.ContainsAny(s[:min(len(s), 1)], "-0123456789") || !json.Valid([]byte(s)) {
		return nil, errors.New("number needs a number in its string, written as in JSON")
	}
	return parseNumber(s)
}
