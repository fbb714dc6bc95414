package perdure

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
)

// errMangled says that JSON cannot hold a string as it is.
var errMangled = errors.New("a string is not UTF-8, which JSON cannot keep: use []byte for bytes")

// isRaw says whether payloads of that type are kept exactly as they are.
func isRaw[T any]() bool { return isRawType(reflect.TypeFor[T]()) }

func isRawType(t reflect.Type) bool {
	return t == reflect.TypeFor[[]byte]() || t == reflect.TypeFor[json.RawMessage]()
}

// Encode gives a value as journals have it.
func Encode[T any](v T) (json.RawMessage, error) {
	data, err := encode(v)
	if err != nil {
		return nil, fromFailure(encodeFailure("encode", v, err))
	}
	return data, nil
}

// Decode reads what [Encode] gave.
func Decode[T any](data []byte) (T, error) {
	v, err := decode[T](data)
	if err != nil {
		return v, decodeError("decode", v, err)
	}
	return v, nil
}

// encode gives the bytes of a payload. A []byte and a json.RawMessage are kept
// exactly; everything else is JSON.
func encode[T any](v T) ([]byte, error) {
	if isRaw[T]() {
		raw := reflect.ValueOf(v).Bytes()
		return append(make([]byte, 0, len(raw)), raw...), nil
	}
	data, err := marshal(v)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(data) || mayBeMangled(data) && isMangled(reflect.ValueOf(v)) {
		return nil, errMangled
	}
	return data, nil
}

// encodeAny is encode by what v is, and not by what it is declared as.
func encodeAny(v any) ([]byte, error) {
	switch raw := v.(type) {
	case []byte:
		return encode(raw)
	case json.RawMessage:
		return encode(raw)
	}
	return encode(v)
}

// decode reads what encode gave.
func decode[T any](data []byte) (T, error) {
	var v T
	if isRaw[T]() {
		reflect.ValueOf(&v).Elem().SetBytes(append(make([]byte, 0, len(data)), data...))
		return v, nil
	}
	err := unmarshal(data, &v)
	return v, err
}

// marshal and unmarshal call methods of the application's types.
func marshal(v any) (data []byte, err error) {
	err = guard.Try(func() (err error) {
		data, err = json.Marshal(v)
		return err
	})
	return data, err
}

func unmarshal(data []byte, v any) error {
	return guard.Try(func() error { return json.Unmarshal(data, v) })
}

// encodeFailure is the failure that a value is which does not encode.
func encodeFailure(what string, v any, err error) *journal.Failure {
	return toFailure(&Error{
		Code: journal.CodeEncode, Op: what, Message: fmt.Sprintf("a value of type %T does not encode", v), Err: err,
	})
}

// decodeError is the error that bytes are which do not decode.
func decodeError(what string, v any, err error) error {
	return &Error{
		Code: journal.CodeDecode, Op: what, Message: fmt.Sprintf("its bytes do not decode into %T", v), Err: err,
		Hint: "keep the type that wrote them readable",
	}
}
