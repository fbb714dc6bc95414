// Package payload converts values into the bytes that journals keep, and back.
package payload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
)

// ErrMangled is the error for a string that JSON cannot hold unchanged.
var ErrMangled = errors.New("a string is not UTF-8, which JSON cannot keep: use []byte for bytes")

func isRaw[T any]() bool { return IsRaw(reflect.TypeFor[T]()) }

// IsRaw reports whether payloads of that type are kept unchanged.
func IsRaw(t reflect.Type) bool {
	return t == reflect.TypeFor[[]byte]() || t == reflect.TypeFor[json.RawMessage]()
}

// Encode returns the bytes of a payload. A []byte and a json.RawMessage are kept unchanged; every
// other value becomes JSON.
func Encode[T any](v T) ([]byte, error) {
	if isRaw[T]() {
		raw := reflect.ValueOf(v).Bytes()
		return append(make([]byte, 0, len(raw)), raw...), nil
	}
	data, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(data) || mayBeMangled(data) && isMangled(reflect.ValueOf(v)) {
		return nil, ErrMangled
	}
	return data, nil
}

// EncodeAny is [Encode] by the dynamic type of v.
func EncodeAny(v any) ([]byte, error) {
	switch raw := v.(type) {
	case []byte:
		return Encode(raw)
	case json.RawMessage:
		return Encode(raw)
	}
	return Encode(v)
}

// Decode decodes bytes that [Encode] returned.
func Decode[T any](data []byte) (T, error) {
	var v T
	if isRaw[T]() {
		reflect.ValueOf(&v).Elem().SetBytes(append(make([]byte, 0, len(data)), data...))
		return v, nil
	}
	err := Unmarshal(data, &v)
	return v, err
}

// Marshal is json.Marshal, safe from panics of the application's types.
func Marshal(v any) (data []byte, err error) {
	err = guard.Try(func() (err error) {
		data, err = json.Marshal(v)
		return err
	})
	return data, err
}

// Unmarshal is json.Unmarshal, safe from panics of the application's types.
func Unmarshal(data []byte, v any) error {
	return guard.Try(func() error { return json.Unmarshal(data, v) })
}

// Failure returns the failure of a value that cannot be encoded.
func Failure(what string, v any, err error) *journal.Failure {
	return failure.Of(&journal.Error{
		Code: journal.CodeEncode, Op: what,
		Message: fmt.Sprintf("a value of type %T does not encode", v), Err: err,
	})
}

// DecodeError returns the error for bytes that cannot be decoded.
func DecodeError(what string, v any, err error) error {
	return &journal.Error{
		Code: journal.CodeDecode, Op: what, Message: fmt.Sprintf("its bytes do not decode into %T",
			v), Err: err,
		Hint: "keep the type that wrote them readable",
	}
}

// Call calls a function of the application and encodes what it returns.
func Call[T any](ctx context.Context, what, name string,
	fn func(context.Context) (T, error)) ([]byte, *journal.Failure) {
	v, err := fn(ctx)
	if err != nil {
		return nil, failure.Of(err)
	}
	data, err := Encode(v)
	if err != nil {
		return nil, Failure(what+" "+name, v, err)
	}
	return data, nil
}

// Result returns the value or error that workflow code gets for a recorded result or failure.
func Result[T any](what, name string, data []byte, f *journal.Failure) (T, error) {
	var zero T
	if f != nil {
		return zero, failure.Err(f)
	}
	v, err := Decode[T](data)
	if err != nil {
		return zero, DecodeError(what+" "+name, zero, err)
	}
	return v, nil
}
