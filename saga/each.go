package saga

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
)

// An each is what makes clones of a step.
type each struct {
	// clones gives the items that a saga's input has, each with its suffix.
	clones func(input json.RawMessage) ([]clone, error)
	named  bool
}

// separator is between the ID of the step and what tells its clones apart.
func (e *each) separator() string {
	if e.named {
		return ":"
	}
	return "#"
}

// A clone is one of the steps that a step over a list becomes.
type clone struct {
	key  string // of the operation
	id   string // of the step
	item json.RawMessage
}

// name is that of the step as an operation may have it.
func (c clone) name() string { return strings.ReplaceAll(c.id, "#", ".") }

// A FanOut is a step over a list: it becomes one step for each item. Its dependants wait
// for all of them, and get their results as a list, in the order of the items. An empty
// list is no step. Each clone is undone on its own.
type FanOut[T, R any] struct {
	*Step[T, R]
	suffix func(T) string
}

// AddEach adds a step over the items that the saga's input has; items must decide by its
// argument alone. A clone has the ID id#0, id#1 …; see [FanOut.Named].
func AddEach[I, T, R any](s *Saga[I], id string, items func(I) []T, fn func(context.Context, T) (R, error)) *FanOut[T, R] {
	f := &FanOut[T, R]{Step: Add(s, id, fn)}
	t := f.s
	t.result = reflect.TypeFor[[]R]()
	t.each = &each{clones: func(input json.RawMessage) ([]clone, error) {
		in, err := perdure.Decode[I](input)
		if err != nil {
			return nil, err
		}
		return f.clonesOf(items(in))
	}}
	if items == nil {
		t.complain("items", "a step over a list needs the list")
	}
	return f
}

// Named has the clones called id:suffix. Suffixes must differ, and decide by the item
// alone; they have the form of names.
func (f *FanOut[T, R]) Named(suffix func(T) string) *FanOut[T, R] {
	f.suffix, f.s.each.named = suffix, suffix != nil
	return f
}

func (f *FanOut[T, R]) clonesOf(items []T) ([]clone, error) {
	out := make([]clone, len(items))
	seen := map[string]bool{}
	for i, item := range items {
		data, err := perdure.Encode(item)
		if err != nil {
			return nil, err
		}
		n := strconv.Itoa(i)
		if f.suffix != nil {
			n = f.suffix(item)
		}
		out[i] = clone{key: n, id: f.s.id + f.s.each.separator() + n, item: data}
		if seen[out[i].key] {
			return nil, perdure.Permanent(fmt.Errorf("two items of step %s are called %q", f.s.id, out[i].key))
		}
		seen[out[i].key] = true
	}
	return out, nil
}
