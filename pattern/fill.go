package pattern

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/jsontype"
	"github.com/perdure/perdure/internal/payload"
	"github.com/perdure/perdure/journal"
)

// fill makes an argument in v.
func (p *parts) fill(ctx context.Context, given Sources, v reflect.Value) error {
	if len(p.issues) > 0 {
		return perdure.Permanent(&perdure.Error{
			Code: journal.CodeInvalid, Op: "argument", Message: p.issues[0].String(),
		})
	}
	f := filling{ctx: ctx, given: given}
	for i := range p.all {
		g := &p.all[i]
		field := v
		if len(g.index) > 0 {
			field = v.FieldByIndex(g.index)
		}
		found, err := f.fill(g, field)
		if err != nil {
			return err
		}
		if !found && g.required {
			return perdure.Permanent(&perdure.Error{Code: journal.CodeInvalid, Op: "argument " +
				g.name, Message: "missing: " + g.what(), Hint: "it is required"})
		}
	}
	return nil
}

// A filling makes one argument. A value that several parts need is read once.
type filling struct {
	ctx   context.Context
	given Sources
	info  *perdure.Info
	keys  map[string]json.RawMessage // the keys of the input
}

// fill makes one part. It reports whether there was a value for it.
func (f *filling) fill(g *part, field reflect.Value) (found bool, err error) {
	if _, isValue := goValues[g.source]; isValue {
		v, err := f.value(g)
		if err != nil || !v.IsValid() {
			return false, err
		}
		put(v, field)
		return true, nil
	}
	data, found, err := f.data(g)
	if err != nil || !found || g.required && isNull(data) {
		return false, err
	}
	if g.payload() && payload.IsRaw(g.of) {
		field.SetBytes(bytes.Clone(data))
		return true, nil
	}
	err = payload.Unmarshal(data, field.Addr().Interface())
	switch {
	case err == nil:
	case g.source == noTag: // the input is of another type
		field.SetZero()
	default:
		return false, perdure.Permanent(&perdure.Error{Code: journal.CodeDecode, Op: "argument " +
			g.name, Message: g.what() + " does not decode", Err: err})
	}
	return true, nil
}

// isNull reports whether bytes are JSON's null, which stands for no value.
func isNull(data json.RawMessage) bool { return string(bytes.TrimSpace(data)) == "null" }

// payload reports whether a part is made of a whole input or result.
func (g *part) payload() bool {
	switch g.source {
	case noTag, "step", "try", "undo":
		return true
	}
	return g.source == "input" && g.key == ""
}

// data returns the bytes that a part is made of, and false if there are none.
func (f *filling) data(g *part) (json.RawMessage, bool, error) {
	var find func(string) (json.RawMessage, bool)
	switch g.source {
	case noTag, "input":
		if g.key == "" {
			return f.given.Input, f.given.Input != nil, nil
		}
		data, found := f.key(g.key)
		return data, found, nil
	case "step":
		find = f.given.Result
	case "try":
		find = f.given.Tried
	case "undo":
		find = f.given.Undone
	case "variable":
		return perdure.Variable[json.RawMessage](f.ctx, g.key)
	case "variables":
		all, err := Variables(f.ctx)
		if err != nil {
			return nil, false, err
		}
		data, err := json.Marshal(all)
		return data, true, err
	}
	if find == nil {
		return nil, false, nil
	}
	data, found := find(g.key)
	return data, found, nil
}

// key returns the value of a key of the input. An input that is not an object has no keys.
func (f *filling) key(key string) (json.RawMessage, bool) {
	if f.keys == nil {
		f.keys = map[string]json.RawMessage{}
		_ = json.Unmarshal(f.given.Input, &f.keys)
	}
	data, found := f.keys[key]
	return data, found
}

// value returns the Go value that a part is made of. It is not valid if there is no value.
func (f *filling) value(g *part) (v reflect.Value, err error) {
	switch {
	case g.source == "undo-error":
		if f.given.UndoError != nil {
			if err := f.given.UndoError(g.key); err != nil {
				v = reflect.ValueOf(&err).Elem()
			}
		}
		return v, nil
	case g.of == contextType:
		return reflect.ValueOf(&f.ctx).Elem(), nil
	case f.info == nil:
		info, err := perdure.InfoOf(f.ctx)
		if err != nil {
			return v, err
		}
		f.info = &info
	}
	switch g.source {
	case "header":
		if value, has := f.info.Headers[g.key]; has {
			v = reflect.ValueOf(value)
		}
	case "headers":
		if len(f.info.Headers) > 0 {
			v = reflect.ValueOf(f.info.Headers)
		}
	case "id":
		v = reflect.ValueOf(f.info.WorkflowID)
	default:
		v = reflect.ValueOf(*f.info)
	}
	return v, nil
}

// holds reports whether a field of type to is able to hold a Go value of type from: see put.
func holds(from, to reflect.Type) bool {
	if !from.AssignableTo(to) {
		to = jsontype.Behind(to)
	}
	return from.AssignableTo(to) || from.Kind() == to.Kind() && from.ConvertibleTo(to)
}

// put puts a value into a field that holds it, behind the pointers of the field's type.
func put(v, field reflect.Value) {
	for field.Kind() == reflect.Pointer && !v.Type().AssignableTo(field.Type()) {
		field.Set(reflect.New(field.Type().Elem()))
		field = field.Elem()
	}
	field.Set(v.Convert(field.Type()))
}
