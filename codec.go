package perdure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure/journal"
)

// errMangled says that JSON cannot hold a string as it is.
var errMangled = errors.New("a string is not UTF-8, which JSON cannot keep: use []byte for bytes")

// encode gives the bytes of a payload. A []byte and a json.RawMessage are kept
// exactly; everything else is JSON.
func encode[T any](v T) ([]byte, error) {
	switch p := any(&v).(type) {
	case *[]byte:
		return append(make([]byte, 0, len(*p)), *p...), nil
	case *json.RawMessage:
		return append(make([]byte, 0, len(*p)), *p...), nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	// encoding/json writes U+FFFD escaped only where it has replaced bytes that
	// are no UTF-8; one that was in the string is written as it is.
	if bytes.Contains(data, []byte(`\ufffd`)) {
		return nil, errMangled
	}
	return data, nil
}

// decode reads what encode gave.
func decode[T any](data []byte) (T, error) {
	var v T
	switch p := any(&v).(type) {
	case *[]byte:
		*p = append(make([]byte, 0, len(data)), data...)
		return v, nil
	case *json.RawMessage:
		*p = append(make([]byte, 0, len(data)), data...)
		return v, nil
	}
	err := json.Unmarshal(data, &v)
	return v, err
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
