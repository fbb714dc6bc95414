package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
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

// unmarshal is the decoder of bodies. Names of fields are taken in their own case only.
func unmarshal(data []byte, v any) error {
	if err := strict(data); err != nil {
		return err
	}
	var names any
	if err := json.Unmarshal(data, &names); err != nil {
		return err
	}
	if err := exact(names, reflect.TypeOf(v)); err != nil {
		return err
	}
	return json.Unmarshal(data, v)
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// exact returns an error if a field of a JSON value has the name of a field of a type in another
// case only, which encoding/json takes, and if a text is not what was sent. Payloads are as they
// are.
func exact(v any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Interface || t.Implements(unmarshaler) ||
		reflect.PointerTo(t).Implements(unmarshaler) {
		return nil
	}
	switch v := v.(type) {
	case string:
		if strings.ContainsAny(v, "\x00\ufffd") {
			return errors.New("a text has a character that is none: U+0000 or half of a pair")
		}
	case []any:
		for _, item := range v {
			if t.Kind() != reflect.Slice {
				return nil
			}
			if err := exact(item, t.Elem()); err != nil {
				return err
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil
		}
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			for given, value := range v {
				switch {
				case given == name:
					if err := exact(value, f.Type); err != nil {
						return err
					}
				case strings.EqualFold(given, name):
					return fmt.Errorf("the field %q is not known: its name is %q", given, name)
				}
			}
		}
	}
	return nil
}

// readStrict decodes the body of a request that huma does not read.
func readStrict(r *http.Request, v any) *Problem {
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = strict(data)
	}
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		err = d.Decode(v)
	}
	if err == nil {
		err = unmarshal(data, v)
	}
	if err != nil {
		return problem(http.StatusBadRequest, string(journal.CodeInvalid), err.Error(), "")
	}
	return nil
}
