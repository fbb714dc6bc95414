package expr

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/perdure/perdure/pattern"
)

// wanted has the keys of an object that are read; nil means all of it.
type wanted map[string]wanted

// add notes that the value at a path is read, with everything in it.
func (w wanted) add(path []string) {
	for i, key := range path {
		next, known := w[key]
		switch {
		case known && next == nil:
			return
		case i == len(path)-1:
			w[key] = nil
		case !known:
			next = wanted{}
			w[key] = next
		}
		w = next
	}
}

// A reader decodes the data of one evaluation. It skips what the text does not name, however large
// it is.
type reader struct {
	left int // bytes
}

// read returns those of the four names that are needed.
func read(k pattern.View, needs wanted) (map[string]any, error) {
	r := &reader{left: maxData}
	data := map[string]any{}
	if w, needed := needs["input"]; needed {
		v, err := r.value(k.Input, w)
		if err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		data["input"] = v
	}
	for _, of := range []struct {
		name string
		read func(wanted) (map[string]json.RawMessage, error)
	}{
		{"results", func(wanted) (map[string]json.RawMessage, error) { return k.Results, nil }},
		{"variables", func(w wanted) (map[string]json.RawMessage, error) {
			return variables(k, w)
		}},
	} {
		if w, needed := needs[of.name]; needed {
			all, err := of.read(w)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", of.name, err)
			}
			v, err := r.values(all, w)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", of.name, err)
			}
			data[of.name] = v
		}
	}
	if w, needed := needs["headers"]; needed {
		data["headers"] = headers(k.Headers, w)
	}
	return data, nil
}

// variables reads the wanted variables, and no others.
func variables(k pattern.View, w wanted) (map[string]json.RawMessage, error) {
	if k.Variables == nil {
		return nil, nil
	}
	return k.Variables(slices.Collect(maps.Keys(w))...)
}

func headers(from map[string]string, w wanted) map[string]any {
	data := map[string]any{}
	for _, key := range keys(from, w) {
		data[key] = from[key]
	}
	return data
}

// keys returns the wanted keys of a map that exist, in order.
func keys[V any](from map[string]V, w wanted) []string {
	if w == nil {
		return slices.Sorted(maps.Keys(from))
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(w)), func(key string) bool {
		_, there := from[key]
		return !there
	})
}

func (r *reader) values(from map[string]json.RawMessage, w wanted) (map[string]any, error) {
	data := map[string]any{}
	for _, key := range keys(from, w) {
		v, err := r.value(from[key], w[key])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		data[key] = v
	}
	return data, nil
}

// value decodes the wanted part of a value; no bytes decode to nil.
func (r *reader) value(raw json.RawMessage, w wanted) (any, error) {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	switch {
	case len(raw) == 0:
		return nil, nil
	case w != nil && raw[0] == '{':
		return r.object(raw, w)
	}
	if r.left -= len(raw); r.left < 0 {
		return nil,
			fmt.Errorf("a condition reads at most %d bytes: name the fields that it needs, "+
				"or decide in Go", maxData)
	}
	from := json.NewDecoder(bytes.NewReader(raw))
	from.UseNumber()
	var v any
	if err := from.Decode(&v); err != nil {
		return nil, err
	}
	return v, ended(from)
}

// object decodes the wanted keys.
func (r *reader) object(raw json.RawMessage, w wanted) (any, error) {
	from := json.NewDecoder(bytes.NewReader(raw))
	if _, err := from.Token(); err != nil {
		return nil, err
	}
	data := map[string]any{}
	for from.More() {
		key, err := from.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		below, needed := w[name]
		var part json.RawMessage
		var into any = &part
		if !needed {
			into = &passed{}
		}
		if err := from.Decode(into); err != nil {
			return nil, err
		}
		if needed {
			if data[name], err = r.value(part, below); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if _, err := from.Token(); err != nil {
		return nil, err
	}
	return data, ended(from)
}

// passed is a value that is skipped.
type passed struct{}

// UnmarshalJSON decodes nothing.
func (*passed) UnmarshalJSON([]byte) error { return nil }

// ended returns an error if there is more than one value.
func ended(from *json.Decoder) error {
	if _, err := from.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}
