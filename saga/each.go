package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/pattern"
)

// An each makes the clones of a step.
type each struct {
	items func(input json.RawMessage) ([]json.RawMessage, error)
	name  func(item json.RawMessage) (string, error) // nil if clones are numbered
	list  func(results []json.RawMessage) (json.RawMessage, error)
}

// A clone is one of the steps that a step over a list becomes. Its ID is the path of its operation,
// so that reports, descriptions and decisions say the same. It is not id#1, which is the path of
// an operation whose name occurs again.
type clone struct {
	key  string // of the operation
	id   string // of the step
	item json.RawMessage
}

// keys returns the key of the operation as an option; nothing if it has no key.
func (c clone) keys() []deadletter.Option {
	if c.key == "" {
		return nil
	}
	return []deadletter.Option{perdure.Key(c.key)}
}

// AddEach adds a step over a list. The function items takes the list from the saga's input, and the
// step becomes one step, a clone, for each item. The result of items must depend on its argument
// alone. Clones have the IDs id[0], id[1] and so on; see [Step.Named]. A step that comes after this
// step waits for all clones and gets their results as a list, in the order of the items. For an
// empty list there is no clone. Each clone is undone separately, and has its own idempotency key.
func AddEach[I, T, R any](s *Saga[I], id string, items func(I) []T, fn func(context.Context, T) (R,
	error)) *Step[T, R] {
	step := Add(s, id, fn)
	t := step.s
	t.result = reflect.TypeFor[[]R]()
	t.each = &each{list: listOf[R], items: func(input json.RawMessage) ([]json.RawMessage, error) {
		in, err := pattern.Decode[I](input)
		if err != nil {
			return nil, err
		}
		return encodeAll(items(in))
	}}
	if items == nil {
		t.complain("items", "a step over a list needs the list")
	}
	return step
}

// Named sets the IDs of the clones of a step over a list to id[suffix]. Suffixes must be different,
// must depend on the item alone, and must be valid names.
func (s *Step[A, R]) Named(suffix func(item A) string) *Step[A, R] {
	switch {
	case s.s.each == nil:
		s.s.complain("named", "only clones have suffixes: it is no step over a list")
	case suffix == nil:
		s.s.complain("named", "the suffix needs a function")
	default:
		s.s.each.name = func(data json.RawMessage) (string, error) {
			item, err := pattern.Decode[A](data)
			if err != nil {
				return "", err
			}
			return suffix(item), nil
		}
	}
	return s
}

func encodeAll[T any](items []T) ([]json.RawMessage, error) {
	out := make([]json.RawMessage, len(items))
	for i, item := range items {
		var err error
		if out[i], err = pattern.Encode(item); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return out, nil
}

// listOf returns one list of the results of clones. A nil among them becomes the zero value.
func listOf[R any](results []json.RawMessage) (json.RawMessage, error) {
	all := make([]R, len(results))
	for i, data := range results {
		if data == nil {
			continue
		}
		var err error
		if all[i], err = pattern.Decode[R](data); err != nil {
			return nil, err
		}
	}
	return pattern.Encode(all)
}

// clones returns the clones of a step, or the step itself if it is not over a list. A panic in the
// user's code is an error.
func (t *step) clones(input json.RawMessage) (out []clone, err error) {
	if t.each == nil {
		return []clone{{id: t.id}}, nil
	}
	err = guard.Try(func() (err error) {
		out, err = t.over(input)
		return err
	})
	return out, err
}

// over returns the clones of a step over a list.
func (t *step) over(input json.RawMessage) (out []clone, err error) {
	items, err := t.each.items(input)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(items))
	for i, item := range items {
		key := strconv.Itoa(i)
		if t.each.name != nil {
			if key, err = t.each.name(item); err != nil {
				return nil, err
			}
		}
		if err := pattern.CheckName(fmt.Sprintf("the suffix of item %d,", i), key,
			t.id+"."); err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, fmt.Errorf("two items have the suffix %q", key)
		}
		seen[key] = true
		out = append(out, clone{key: key, id: t.id + "[" + key + "]", item: item})
	}
	return out, nil
}
