package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/perdure/perdure/journal"
)

// maxDepth bounds the nesting of JSON in a request.
const maxDepth = 64

// strict reports the first thing that makes a text ambiguous or dangerous as JSON, although
// encoding/json takes it: a field that comes twice, deep nesting, bytes that are no UTF-8, and
// text behind the end.
func strict(data []byte) error {
	if !utf8.Valid(data) {
		return errors.New("the body is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := value(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the end of the JSON")
	}
	return nil
}

func value(d *json.Decoder, depth int) error {
	token, err := d.Token()
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	open, is := token.(json.Delim)
	if !is {
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("the JSON is nested more than %d deep", maxDepth)
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return fmt.Errorf("the body is not JSON: %w", err)
			}
			if text, _ := name.(string); seen[text] {
				return fmt.Errorf("the field %q comes twice", text)
			} else {
				seen[text] = true
			}
		}
		if err := value(d, depth+1); err != nil {
			return err
		}
	}
	if _, err = d.Token(); err != nil {
		return fmt.Errorf("the body is not JSON: %w", err)
	}
	return nil
}

// unmarshal is the decoder of bodies.
func unmarshal(data []byte, v any) error {
	if err := strict(data); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

// readStrict decodes the body of a request that huma does not read.
func readStrict(r *http.Request, v any) *Problem {
	data, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, string(journal.CodeTooLarge),
			"the body is too large", "")
	case err != nil:
		return problem(http.StatusBadRequest, string(journal.CodeInvalid),
			"the body did not arrive: "+err.Error(), "")
	}
	if err = strict(data); err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		err = d.Decode(v)
	}
	if err != nil {
		return problem(http.StatusBadRequest, string(journal.CodeInvalid), err.Error(), "")
	}
	return nil
}
