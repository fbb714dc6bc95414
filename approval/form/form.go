// Package form makes forms of approvals from JSON schemas.
//
//	var discount = form.Of(`{
//		"type": "object", "required": ["percent"],
//		"properties": {"percent": {"type": "integer", "minimum": 1, "maximum": 50}}
//	}`)
//
//	out, err := approval.Wait(ctx, approval.Ask{Key: "discount", Form: discount})
//
// Drafts 4, 6, 7, 2019-09 and 2020-12 are known; a schema without "$schema" is of 2020-12. "format"
// is checked. A schema refers to itself only: nothing is loaded from files or from the network.
package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// A Form is a JSON schema. It implements approval.Form. Many goroutines may use it.
type Form struct {
	text   json.RawMessage
	schema *jsonschema.Schema
	err    error // why there is no schema
}

const location = "form.json"

// maxSchema is the largest schema in bytes: a run publishes it with each ask.
const maxSchema = 64 << 10

// Of returns the form of a JSON schema. A text that is no schema, or that refers to another
// document, makes a form that is not valid: see [Form.Valid].
func Of(schema string) *Form {
	f := &Form{text: json.RawMessage(schema)}
	f.err = f.compile(schema)
	return f
}

func (f *Form) compile(schema string) error {
	if len(schema) > maxSchema {
		return invalid(fmt.Errorf("it has %d bytes; the limit is %d", len(schema), maxSchema))
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return invalid(err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(none{})
	c.AssertFormat()
	if err = c.AddResource(location, doc); err == nil {
		f.schema, err = c.Compile(location)
	}
	if err != nil {
		return invalid(err)
	}
	return nil
}

// Valid returns an error of code invalid if the form is not valid. approval.Wait refuses an ask
// with such a form.
func (f *Form) Valid() error { return f.err }

func invalid(err error) error {
	return &perdure.Error{
		Code: journal.CodeInvalid, Op: "form", Message: "the JSON schema is not valid",
		Err: errors.New(oneLine(err.Error())),
	}
}

// none loads no other document.
type none struct{}

func (none) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s is another document, and none is loaded", url)
}

// Schema returns the text of the schema.
func (f *Form) Schema() json.RawMessage { return f.text }

// Check returns an error that names each place where data does not match, in one line.
func (f *Form) Check(data json.RawMessage) error {
	if f.err != nil {
		return f.err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return errors.New(oneLine(err.Error()))
	}
	err = f.schema.Validate(v)
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
