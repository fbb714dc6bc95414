package payload

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/guard"
)

// encoding/json does not refuse a string that is not UTF-8: it writes U+FFFD, escaped, in
// place of the bytes. One that was in the string it writes as it is. So an escape in the
// JSON is a sign, but no proof: raw JSON within the value may have it too. Only where the
// sign is there, the strings of the value itself are looked at.

// mayBeMangled reports whether JSON has U+FFFD as an escape, and not as a backslash that
// is followed by ufffd.
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

// isMangled reports whether a string in a value that encodes is not UTF-8.
func isMangled(v reflect.Value) bool { return search{}.finds(v) }

// A search goes through a value, and has what it has come to by a pointer.
type search map[visited]bool

type visited struct {
	at  uintptr
	of  reflect.Type
	len int // of a slice
}

// finds reports whether there is such a string. What has its own MarshalJSON is looked at
// whole, since that may have encoded any part of it; it may also lead back to itself.
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
	if v.Type().Elem().Kind() == reflect.Uint8 { // base64, or raw
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

// textIsMangled asks a value that gives its own text.
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
