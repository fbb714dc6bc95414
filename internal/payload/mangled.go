package payload

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/guard"
)

// encoding/json does not refuse a string that is not UTF-8: it writes U+FFFD, escaped, in place
// of the bytes. It writes a U+FFFD that was in the string without an escape. So an escape in the
// JSON is a sign, but not proof: raw JSON within the value may have it too. Only if the sign is
// there, the strings of the value itself are examined.

// mayBeMangled reports whether the JSON has U+FFFD as an escape. A backslash that is escaped
// itself and followed by ufffd does not count.
func mayBeMangled(data []byte) bool {
	sign := []byte(`\ufffd`)
	for {
		at := bytes.Index(data, sign)
		if at < 0 {
			return false
		}
		before := at - len(bytes.TrimRight(data[:at], `\`))
		if before%2 == 0 {
			return true
		}
		data = data[at+len(sign):]
	}
}

// isMangled reports whether a value that encodes has a string that is not UTF-8.
func isMangled(v reflect.Value) bool { return search{}.finds(v) }

// A search walks through a value, and records the pointers that it has visited.
type search map[visited]bool

type visited struct {
	at  uintptr
	of  reflect.Type
	len int // length of a slice
}

// finds reports whether v has a string that is not UTF-8. A value with its own MarshalJSON is
// examined completely, since the method may have encoded any part of it. The value may also refer
// back to itself.
func (s search) finds(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return !utf8.ValidString(v.String()) || textIsMangled(v)
	case reflect.Interface:
		return !v.IsNil() && s.finds(v.Elem())
	case reflect.Pointer:
		here := visited{at: v.Pointer(), of: v.Type()}
		if v.IsNil() || s[here] {
			return false
		}
		s[here] = true
		return textIsMangled(v) || s.finds(v.Elem())
	case reflect.Struct:
		return textIsMangled(v) || s.inFields(v)
	case reflect.Map:
		return s.inMap(v)
	case reflect.Slice, reflect.Array:
		return s.inList(v)
	}
	return textIsMangled(v)
}

func (s search) inFields(v reflect.Value) bool {
	whole := reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[json.Marshaler]())
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if (whole || f.Anonymous || f.IsExported()) && f.Tag.Get("json") != "-" &&
			s.finds(v.Field(i)) {
			return true
		}
	}
	return false
}

func (s search) inMap(v reflect.Value) bool {
	here := visited{at: v.Pointer(), of: v.Type()}
	if s[here] {
		return false
	}
	s[here] = true
	for each := v.MapRange(); each.Next(); {
		if s.finds(each.Key()) || s.finds(each.Value()) {
			return true
		}
	}
	return false
}

func (s search) inList(v reflect.Value) bool {
	if v.Type().Elem().Kind() == reflect.Uint8 { // encoded as base64, or raw
		return textIsMangled(v)
	}
	if v.Kind() == reflect.Slice {
		here := visited{v.Pointer(), v.Type(), v.Len()}
		if s[here] {
			return false
		}
		s[here] = true
	}
	for i := range v.Len() {
		if s.finds(v.Index(i)) {
			return true
		}
	}
	return false
}

// textIsMangled reports whether the text of a value with its own MarshalText is not UTF-8.
func textIsMangled(v reflect.Value) bool {
	if !v.CanInterface() {
		return false
	}
	m, is := v.Interface().(encoding.TextMarshaler)
	if !is {
		return false
	}
	if _, raw := m.(json.Marshaler); raw {
		return false
	}
	var text []byte
	err := guard.Try(func() (err error) {
		text, err = m.MarshalText()
		return err
	})
	return err == nil && !utf8.Valid(text)
}
