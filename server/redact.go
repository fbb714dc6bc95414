package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
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

// walk returns a copy of a value in which all payloads are redacted, and no list is nil. A field
// with the tag redact:"schema" is a JSON schema.
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
			switch f := v.Type().Field(i); {
			case !f.IsExported():
			case f.Tag.Get("redact") == "schema":
				c.Field(i).SetBytes(r.schema(v.Field(i).Bytes()))
			default:
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

// mayFilter returns an error if a filter has a search attribute that is hidden: who must not see a
// value could find it by guesses.
func (r redactor) mayFilter(attributes map[string]string) error {
	for name := range attributes {
		if r.hides(name) {
			return &journal.Error{
				Code: journal.CodeUnauthorised, Op: "list",
				Message: "the search attribute " + name + " is hidden from you, so no filter may " +
					"have it",
				Hint: "leave it out of the filter, or use the credential of an admin",
			}
		}
	}
	return nil
}

// payload returns a payload without the values of the fields. It may have several values of JSON,
// as the log lines of a step have. What is not JSON from its beginning on stays as it is.
func (r redactor) payload(raw []byte) []byte {
	if len(raw) == 0 || len(r) == 0 {
		return raw
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out []byte
	changed := false
	for n := 0; ; n++ {
		var v any
		err := d.Decode(&v)
		switch {
		case errors.Is(err, io.EOF) && changed:
			return out
		case errors.Is(err, io.EOF), err != nil && n == 0:
			return raw
		}
		var text []byte
		if err == nil {
			text, err = json.Marshal(r.value(v, &changed))
		}
		if err != nil {
			return []byte(`"` + redacted + `"`)
		}
		if n > 0 {
			out = append(out, '\n')
		}
		out = append(out, text...)
	}
}

// schema returns a JSON schema that has the names of the hidden fields, and no values of them.
func (r redactor) schema(raw []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if len(raw) == 0 || len(r) == 0 || d.Decode(&v) != nil {
		return raw
	}
	r.inSchema(v, false)
	text, err := json.Marshal(v)
	if err != nil {
		return []byte(`"` + redacted + `"`)
	}
	return text
}

// inSchema takes the values out of a part of a schema that is about a hidden field. Elsewhere the
// values are payloads, which may have hidden fields.
func (r redactor) inSchema(v any, hidden bool) {
	switch v := v.(type) {
	case []any:
		for _, of := range v {
			r.inSchema(of, hidden)
		}
	case map[string]any:
		for _, name := range []string{"default", "const", "enum", "examples", "example"} {
			if of, has := v[name]; has && hidden {
				delete(v, name)
			} else if has {
				v[name] = r.value(of, new(bool))
			}
		}
		properties, _ := v["properties"].(map[string]any)
		for name, of := range properties {
			r.inSchema(of, hidden || r.hides(name))
		}
		for name, of := range v {
			if name != "properties" {
				r.inSchema(of, hidden)
			}
		}
	}
}

// entry returns an entry of a journal, or a message, as a caller may see it.
func (r redactor) entry(e journal.Entry) journal.Entry {
	e.Data = r.payload(e.Data)
	name := e.Op.Name
	if e.Detail != nil {
		d := *e.Detail
		d.Headers, d.Attributes = r.texts(d.Headers), r.texts(d.Attributes)
		e.Detail = &d
		if e.Kind == journal.HeaderSet || e.Kind == journal.VariableSet {
			name = d.Variable
		}
	}
	if valued[e.Kind.String()] && r.hides(name) {
		e.Data = []byte(`"` + redacted + `"`)
	}
	return e
}

func (r redactor) texts(of map[string]string) map[string]string {
	out := maps.Clone(of)
	for name := range of {
		if r.hides(name) {
			out[name] = redacted
		}
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
