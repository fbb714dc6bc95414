package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// A run is one evaluation. Values are those of JSON: nil, bool, string, numbers, []any
// and map[string]any.
type run struct {
	data  map[string]any // by the four names that a text may use
	items []any          // the current elements of functions such as all, the innermost last
	left  int            // steps
}

// spend takes steps. Work that takes longer with larger data takes more of them.
func (r *run) spend(steps int) error {
	if r.left -= steps; r.left < 0 {
		return fmt.Errorf("it takes more than %d steps", maxSteps)
	}
	return nil
}

// look takes the steps for reading a string.
func (r *run) look(bytes int) error { return r.spend(bytes / 64) }

// member returns the value of an object under a key, or of an array at an index; nil if there is
// none.
func (r *run) member(base, key any) (v any, there bool, err error) {
	switch base := base.(type) {
	case map[string]any:
		name, ok := key.(string)
		if !ok {
			return nil, false, fmt.Errorf("the key of an object is a string, and this is %s",
				kind(key))
		}
		v, there = base[name]
		return v, there, nil
	case []any:
		index, err := r.number("the index of an array", key)
		switch {
		case err != nil:
			return nil, false, err
		case !index.IsInt():
			return nil, false, errors.New("the index of an array is a whole number")
		}
		at := index.Num()
		if at.Sign() < 0 {
			at = new(big.Int).Add(at, big.NewInt(int64(len(base))))
		}
		if at.Sign() < 0 || at.Cmp(big.NewInt(int64(len(base)))) >= 0 {
			return nil, false, nil
		}
		return base[at.Int64()], true, nil
	}
	return nil, false, fmt.Errorf("%s has no members", kind(base))
}

// equal compares two values of any type, with everything in them. Values of two types are not
// equal.
func (r *run) equal(a, b any) (bool, error) {
	if err := r.spend(1); err != nil {
		return false, err
	}
	if kind(a) != kind(b) {
		return false, nil
	}
	switch a := a.(type) {
	case json.Number, *big.Rat:
		x, y, err := r.numbers("==", a, b)
		return err == nil && x.Cmp(y) == 0, err
	case string:
		return a == b, r.look(len(a))
	case []any:
		return r.equalArrays(a, b.([]any))
	case map[string]any:
		return r.equalObjects(a, b.(map[string]any))
	}
	return a == b, nil
}

func (r *run) equalArrays(a, b []any) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if same, err := r.equal(a[i], b[i]); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// equalObjects compares objects in the order of the keys, so that it takes the same steps each
// time.
func (r *run) equalObjects(a, b map[string]any) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	if err := r.spend(len(a)); err != nil {
		return false, err
	}
	for _, key := range slices.Sorted(maps.Keys(a)) {
		v, there := b[key]
		if !there {
			return false, nil
		}
		if same, err := r.equal(a[key], v); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// order compares two numbers, or two strings by their bytes.
func (r *run) order(operator string, a, b any) (int, error) {
	s, first := a.(string)
	t, second := b.(string)
	switch {
	case first && second:
		return strings.Compare(s, t), r.look(min(len(s), len(t)))
	case first || second:
		return 0, fmt.Errorf("%s needs two numbers or two strings, and these are %s and %s",
			operator, kind(a), kind(b))
	}
	x, y, err := r.numbers(operator, a, b)
	if err != nil {
		return 0, err
	}
	return x.Cmp(y), nil
}

// in looks for a value in an array, or for a key in an object.
func (r *run) in(v, where any) (any, error) {
	switch where := where.(type) {
	case []any:
		for _, item := range where {
			if same, err := r.equal(v, item); same || err != nil {
				return same, err
			}
		}
		return false, nil
	case map[string]any:
		key, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("the key of an object is a string, and this is %s", kind(v))
		}
		_, there := where[key]
		return there, nil
	}
	return nil, fmt.Errorf("in needs an array or an object, and this is %s", kind(where))
}
