package server

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
)

// redacted is the value in a payload instead of one that the caller must not see.
const redacted = "[redacted]"

// A redactor replaces the values of some fields in payloads. The zero value replaces none.
type redactor map[string]bool // names in lower case

func newRedactor(names []string) redactor {
	r := redactor{}
	for _, n := range names {
		r[strings.ToLower(n)] = true
	}
	return r
}

// answer returns an answer as a caller may see it. Its lists are not null. It changes copies only.
func (r redactor) answer(who auth.Identity, v any) any {
	if v == nil {
		return v
	}
	if who.Role >= auth.Admin {
		r = nil
	}
	return r.walk(reflect.ValueOf(v)).Interface()
}

var (
	dataType = reflect.TypeFor[api.Data]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// walk returns a copy of a value in which all payloads are redacted, and no list is nil.
func (r redactor) walk(v reflect.Value) reflect.Value {
	if isPayload(v.Type()) {
		return reflect.ValueOf(r.payload(v.Bytes())).Convert(v.Type())
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		c := reflect.New(v.Type().Elem())
		c.Elem().Set(r.walk(v.Elem()))
		return c
	case reflect.Struct:
		c := reflect.New(v.Type()).Elem()
		c.Set(v)
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.Field(i).Set(r.walk(v.Field(i)))
			}
		}
		if e, is := c.Addr().Interface().(*api.Entry); is && r.hidesValue(e) {
			e.Data = api.Data(`"` + redacted + `"`)
		}
		return c
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			c.Index(i).Set(r.walk(v.Index(i)))
		}
		return c
	case reflect.Map:
		if v.IsNil() {
			return v
		}
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			c.SetMapIndex(it.Key(), r.field(it.Key(), it.Value()))
		}
		return c
	}
	return v
}

func isPayload(t reflect.Type) bool { return t == dataType || t == rawType }

// field returns the value of a field of a map.
func (r redactor) field(name, v reflect.Value) reflect.Value {
	switch {
	case name.Kind() != reflect.String || !r.hides(name.String()):
	case v.Kind() == reflect.String:
		return reflect.ValueOf(redacted).Convert(v.Type())
	case isPayload(v.Type()):
		return reflect.ValueOf([]byte(`"` + redacted + `"`)).Convert(v.Type())
	}
	return r.walk(v)
}

// valued are the kinds of entries whose data is the value of a field, which the operation names.
var valued = map[string]bool{
	journal.StatePublished.String(): true, journal.AttributeSet.String(): true,
	journal.VariableSet.String(): true, journal.HeaderSet.String(): true,
}

// hidesValue reports whether an entry is about the value of a hidden field.
func (r redactor) hidesValue(e *api.Entry) bool {
	name := e.Operation[strings.LastIndexByte(e.Operation, '/')+1:]
	if i := strings.IndexAny(name, "[#"); i > 0 {
		name = name[:i]
	}
	return valued[e.Kind] && r.hides(name)
}

func (r redactor) hides(name string) bool { return r[strings.ToLower(name)] }

// payload returns a payload without the values of the fields. What is not JSON stays as it is.
func (r redactor) payload(raw []byte) []byte {
	if len(raw) == 0 || len(r) == 0 {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return raw
	}
	changed := false
	v = r.value(v, &changed)
	if !changed {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return []byte(`"` + redacted + `"`)
	}
	return out
}

func (r redactor) value(v any, changed *bool) any {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			if r.hides(name) {
				v[name], *changed = redacted, true
				continue
			}
			v[name] = r.value(field, changed)
		}
	case []any:
		for i := range v {
			v[i] = r.value(v[i], changed)
		}
	}
	return v
}
