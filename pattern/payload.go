package pattern

import (
	"encoding/json"

	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/payload"
)

// Encode returns a value as encoded in journals.
func Encode[T any](v T) (json.RawMessage, error) {
	data, err := payload.Encode(v)
	if err != nil {
		return nil, failure.Err(payload.Failure("encode", v, err))
	}
	return data, nil
}

// Decode reads the bytes that [Encode] returned.
func Decode[T any](data []byte) (T, error) {
	v, err := payload.Decode[T](data)
	if err != nil {
		return v, payload.DecodeError("decode", v, err)
	}
	return v, nil
}
