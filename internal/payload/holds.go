package payload

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Check returns an error for a type whose values JSON cannot hold: a channel, a function, a complex
// number, an interface with methods, a map whose keys are no text and no whole numbers, a struct
// with fields of which none is exported, or a type that contains one of these. It does not look
// into types that encode or decode themselves, nor at a field that points to a struct without
// exported fields, since most values have nil there.
func Check(t reflect.Type) error { return checking{}.check(t) }

// checking has the types that were checked already.
type checking map[reflect.Type]bool

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func (seen checking) check(t reflect.Type) error {
	if seen[t] || encodesItself(t) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("JSON cannot hold a value of type %v", t)
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("JSON cannot hold a value of type %v: no value decodes into an "+
				"interface with methods", t)
		}
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return seen.check(t.Elem())
	case reflect.Map:
		if !isKey(t.Key()) {
			return fmt.Errorf("JSON cannot hold a value of type %v: keys are text or whole numbers",
				t)
		}
		return seen.check(t.Elem())
	case reflect.Struct:
		if isHidden(t) {
			return fmt.Errorf("JSON cannot hold a value of type %v: none of its fields is exported",
				t)
		}
		for f := range fields(t) {
			if of := f.Type; of.Kind() == reflect.Pointer && isHidden(of.Elem()) {
				continue // such as User of url.URL, which is nil in most of them
			}
			if err := seen.check(f.Type); err != nil {
				return fmt.Errorf("field %s of %v: %w", f.Name, t, err)
			}
		}
	}
	return nil
}

func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) || p.Implements(textMarshaler) ||
		p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)
}

// isKey reports whether JSON holds a map with keys of that type.
func isKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Uintptr:
		return true
	}
	return t.Implements(textMarshaler) && reflect.PointerTo(t).Implements(textUnmarshaler)
}

// isHidden reports whether a type is a struct with fields of which JSON sees none because of their
// names.
func isHidden(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() || f.Anonymous {
			return false
		}
	}
	return t.NumField() > 0
}

// fields returns the fields of a struct that are in its JSON.
func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == "-" && !strings.Contains(f.Tag.Get("json"), ",") ||
				!f.IsExported() && !f.Anonymous {
				continue
			}
			if !yield(f) {
				return
			}
		}
	}
}
