package payload

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Check returns an error for a type whose values JSON cannot hold, or not completely: a channel,
// a function, a complex number, or a type that contains one. It does not look into types that
// encode themselves.
func Check(t reflect.Type) error { return checking{}.check(t) }

// checking has the types that were checked already.
type checking map[reflect.Type]bool

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func (seen checking) check(t reflect.Type) error {
	if seen[t] || encodesItself(t) {
		return nil
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("JSON cannot hold a value of type %v", t)
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return seen.check(t.Elem())
	case reflect.Struct:
		for f := range fields(t) {
			if err := seen.check(f.Type); err != nil {
				return fmt.Errorf("field %s of %v: %w", f.Name, t, err)
			}
		}
	}
	return nil
}

func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
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
