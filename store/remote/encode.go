package remote

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The structs of the contract become JSON field by field, so that all of them survive, and a new
// one needs no code here. Package encoding/json by itself loses some: bytes of a key that are not
// UTF-8, times outside of 1678 to 2262 in an entry, a message without a number. The forms are:
//
//   - a struct: an object with its exported fields that are not zero, by their names in Go;
//   - a time: its seconds since 1970 and its nanoseconds, in a list;
//   - bytes: base64; nil bytes are zero, and empty ones are not;
//   - a text: a string; one that a string cannot have exactly: a list with its bytes;
//   - a map: a list of lists of a key and a value;
//   - an error: a [failure].

var (
	timeType  = reflect.TypeFor[time.Time]()
	errorType = reflect.TypeFor[error]()
	bytesType = reflect.TypeFor[[]byte]()
)

// encode returns the JSON of a value.
func encode(v any) ([]byte, error) { return appendValue(nil, reflect.ValueOf(v)) }

func appendValue(b []byte, v reflect.Value) ([]byte, error) {
	switch v.Type() {
	case timeType:
		t := v.Interface().(time.Time)
		return fmt.Appendf(b, "[%d,%d]", t.Unix(), t.Nanosecond()), nil
	case errorType:
		return appendError(b, v)
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case reflect.String:
		return appendText(b, v.String())
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if v.IsNil() {
			return append(b, "null"...), nil
		}
		return appendBehind(b, v)
	case reflect.Struct:
		return appendStruct(b, v)
	}
	return nil, fmt.Errorf("remote: a value of type %s has no form", v.Type())
}

// appendBehind appends what a pointer, slice or map has, which is not nil.
func appendBehind(b []byte, v reflect.Value) (_ []byte, err error) {
	switch {
	case v.Kind() == reflect.Pointer:
		return appendValue(b, v.Elem())
	case v.Kind() == reflect.Map:
		return appendMap(b, v)
	case v.Type().ConvertibleTo(bytesType):
		return appendBytes(b, v.Bytes()), nil
	}
	b = append(b, '[')
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, v.Index(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

func appendMap(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for i, all := 0, v.MapRange(); all.Next(); i++ {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(append(b, '['), all.Key()); err != nil {
			return nil, err
		}
		if b, err = appendValue(append(b, ','), all.Value()); err != nil {
			return nil, err
		}
		b = append(b, ']')
	}
	return append(b, ']'), nil
}

func appendStruct(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '{')
	first := true
	for f, field := range v.Fields() {
		if !f.IsExported() || isZero(field) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(append(b, '"'), f.Name...), `":`...)
		if b, err = appendValue(b, field); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func isZero(v reflect.Value) bool {
	if v.Type() == timeType {
		return v.Interface().(time.Time).IsZero()
	}
	return v.IsZero()
}

func appendBytes(b, data []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), data), '"')
}

// appendText appends a text. The replacement character may stand for something that was lost on
// the way: a text that has it is sent as bytes, too.
func appendText(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) || strings.ContainsRune(s, utf8.RuneError) {
		return append(appendBytes(append(b, '['), []byte(s)), ']'), nil
	}
	quoted, err := json.Marshal(s)
	return append(b, quoted...), err
}

func appendError(b []byte, v reflect.Value) ([]byte, error) {
	if v.IsNil() {
		return append(b, "null"...), nil
	}
	return appendValue(b, reflect.ValueOf(failureOf(v.Interface().(error))))
}
