// Package jsontype compares types by the JSON that they encode to and decode from.
package jsontype

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A shape is the kind of JSON value that a type has.
type shape uint8

const (
	isAnything shape = iota // or not known
	isString
	isNumber
	isBool
	isList
	isObject
	isNothing // no JSON decodes into it
)

// ownJSON are the interfaces of types that encode or decode themselves.
var ownJSON = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

// Behind returns the type that a pointer, or a pointer to pointers, points at. It follows at
// most eight: a type may be a pointer to itself.
func Behind(t reflect.Type) reflect.Type {
	for n := 0; n < 8 && t.Kind() == reflect.Pointer; n++ {
		t = t.Elem()
	}
	return t
}

// Decodes reports whether any JSON decodes into a type.
func Decodes(t reflect.Type) bool { return shapeOf(t) != isNothing }

func shapeOf(t reflect.Type) shape {
	t = Behind(t)
	for _, own := range ownJSON {
		if reflect.PointerTo(t).Implements(own) { // so it does where t does
			return isAnything
		}
	}
	switch k := t.Kind(); {
	case k == reflect.Interface && t.NumMethod() == 0:
		return isAnything
	case k == reflect.Slice && t.Elem().Kind() == reflect.Uint8: // a string or a list
		return isAnything
	case k == reflect.String:
		return isString
	case k == reflect.Bool:
		return isBool
	case k >= reflect.Int && k <= reflect.Float64:
		return isNumber
	case k == reflect.Slice, k == reflect.Array:
		return isList
	case k == reflect.Struct, k == reflect.Map:
		return isObject
	}
	return isNothing
}

// Fits reports whether the JSON of one type decodes into another type, and fills something of
// it, as far as the types tell. A type that is nil is not known, and fits.
func Fits(from, to reflect.Type) bool {
	return from == nil || to == nil || fitting{}.fits(from, to) && !unrelated(from, to)
}

// KeyFits reports whether the JSON of one type, under a key of an object, decodes into that
// key of another type. A type that is nil is not known, and fits.
func KeyFits(from reflect.Type, key string, to reflect.Type) bool {
	if to == nil || shapeOf(to) == isAnything {
		return true
	}
	var takers []reflect.Type
	switch to = Behind(to); to.Kind() {
	case reflect.Map:
		takers = []reflect.Type{to.Elem()}
	case reflect.Struct:
		takers = takersOf(key, keysOf(to))
	}
	return slices.ContainsFunc(takers, func(t reflect.Type) bool { return Fits(from, t) })
}

// Key returns the type that a key has in the JSON of a type: nil where that is not known, and
// false where the type has no such key.
func Key(t reflect.Type, key string) (reflect.Type, bool) {
	if t == nil {
		return nil, true
	}
	switch t = Behind(t); {
	case shapeOf(t) == isAnything || t.Kind() == reflect.Interface:
		return nil, true
	case t.Kind() == reflect.Map:
		return t.Elem(), true
	case t.Kind() != reflect.Struct:
		return nil, false
	}
	of, known := keysOf(t)[key]
	return of, known
}

// Keys returns the keys of a struct in JSON, sorted; of a type that is none, or that encodes
// itself, no keys.
func Keys(t reflect.Type) []string {
	if t == nil || Behind(t).Kind() != reflect.Struct || shapeOf(t) != isObject {
		return nil
	}
	return slices.Sorted(maps.Keys(keysOf(Behind(t))))
}

// unrelated reports whether two structs have keys, and none in common.
func unrelated(from, to reflect.Type) bool {
	from, to = Behind(from), Behind(to)
	structs := from.Kind() == reflect.Struct && to.Kind() == reflect.Struct
	if !structs || shapeOf(from) != isObject || shapeOf(to) != isObject {
		return false
	}
	gives, takes := keysOf(from), keysOf(to)
	for name := range gives {
		if len(takersOf(name, takes)) > 0 {
			return false
		}
	}
	return len(gives) > 0 && len(takes) > 0
}

// fitting has the pairs of types that are being compared, or were.
type fitting map[[2]reflect.Type]bool

func (seen fitting) fits(from, to reflect.Type) bool {
	from, to = Behind(from), Behind(to)
	pair := [2]reflect.Type{from, to}
	if from == to || from.Kind() == reflect.Interface || seen[pair] {
		return shapeOf(to) != isNothing
	}
	seen[pair] = true
	a, b := shapeOf(from), shapeOf(to)
	switch {
	case b == isNothing:
		return false
	case a == isAnything || b == isAnything:
		return true
	case a != b:
		return false
	case a == isList, from.Kind() == reflect.Map && to.Kind() == reflect.Map:
		return seen.fits(from.Elem(), to.Elem())
	case from.Kind() == reflect.Struct && to.Kind() == reflect.Struct:
		return seen.decode(keysOf(from), keysOf(to))
	}
	return true
}

// decode reports whether no key of one struct has a value that does not fit into the other.
func (seen fitting) decode(from, to map[string]reflect.Type) bool {
	for name, f := range from {
		takers := takersOf(name, to)
		takes := func(t reflect.Type) bool { return f == nil || t == nil || seen.fits(f, t) }
		if len(takers) > 0 && !slices.ContainsFunc(takers, takes) {
			return false
		}
	}
	return true
}

// takersOf returns the types of the fields that may get the value of a key: the one of
// this name, else those whose name differs in its case.
func takersOf(key string, keys map[string]reflect.Type) (types []reflect.Type) {
	if t, is := keys[key]; is {
		return []reflect.Type{t}
	}
	for name, t := range keys {
		if strings.EqualFold(name, key) {
			types = append(types, t)
		}
	}
	return types
}

// keysOf returns the keys of a struct in JSON, with their types: nil for one that is not
// known.
func keysOf(t reflect.Type) map[string]reflect.Type {
	keys := map[string]reflect.Type{}
	addKeys(t, keys, map[reflect.Type]bool{})
	return keys
}

// addKeys adds the keys of a struct, and those of structs that are embedded in it.
func addKeys(t reflect.Type, keys map[string]reflect.Type, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	var embedded []reflect.Type
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		of := Behind(f.Type)
		switch {
		case tag == "-":
			continue
		case name == "" && f.Anonymous && of.Kind() == reflect.Struct:
			embedded = append(embedded, of)
			continue
		case !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		_, twice := keys[name] // then JSON may ignore both
		keys[name] = f.Type
		if twice || strings.Contains(options, "string") {
			keys[name] = nil
		}
	}
	for _, e := range embedded {
		inner := map[string]reflect.Type{}
		addKeys(e, inner, seen)
		for name, of := range inner {
			if _, has := keys[name]; !has {
				keys[name] = of
			}
		}
	}
}
