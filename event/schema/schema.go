// Package schema checks the data of events, and other JSON, by JSON schemas.
//
//	var placed = schema.Of(`{
//		"type": "object", "required": ["cents"],
//		"properties": {"cents": {"type": "integer", "minimum": 1}}
//	}`)
//
// Drafts 4, 6, 7, 2019-09 and 2020-12 are known; a schema without "$schema" is of 2020-12. "format"
// is checked. A schema refers to itself only: nothing is loaded from files or from the network.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema is a JSON schema. It implements orchestrator.Schema. Many goroutines may use it.
type Schema struct {
	text   json.RawMessage
	schema *jsonschema.Schema
	err    error // why there is no schema
}

// Of returns the schema of a text. If the text is no schema, or refers to another document, nothing
// matches it: see [Schema.Valid].
func Of(text string) *Schema {
	s := &Schema{text: json.RawMessage(text)}
	if s.schema, s.err = compile(text); s.err != nil {
		s.err = errors.New("the JSON schema is not valid: " + oneLine(s.err.Error()))
	}
	return s
}

func compile(text string) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	const location = "schema.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(none{})
	c.AssertFormat()
	if err := c.AddResource(location, doc); err != nil {
		return nil, err
	}
	return c.Compile(location)
}

// none loads no other document.
type none struct{}

func (none) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is another document, and none is loaded", url)
}

// Valid returns an error if the text is no schema.
func (s *Schema) Valid() error { return s.err }

// Text returns the schema as it was given, valid or not.
func (s *Schema) Text() json.RawMessage { return s.text }

// Check returns an error that names each place where data does not match, in one line.
func (s *Schema) Check(data json.RawMessage) error {
	if s.err != nil {
		return s.err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return errors.New(oneLine(err.Error()))
	}
	err = s.schema.Validate(v)
	if e := (*jsonschema.ValidationError)(nil); errors.As(err, &e) {
		if all := mistakes(e.DetailedOutput()); len(all) > 0 {
			return errors.New(oneLine(strings.Join(all, "; ")))
		}
	}
	return err
}

// mistakes returns the innermost errors of a result, each with its place.
func mistakes(u *jsonschema.OutputUnit) (all []string) {
	for i := range u.Errors {
		all = append(all, mistakes(&u.Errors[i])...)
	}
	if len(u.Errors) == 0 && u.Error != nil {
		all = append(all, strings.TrimPrefix(u.InstanceLocation+": "+u.Error.String(), ": "))
	}
	return all
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }),
		" ")
}
