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
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/event/schema"
	"github.com/perdure/perdure/journal"
)

// A Form is a JSON schema. It implements approval.Form. Many goroutines may use it.
type Form struct{ schema *schema.Schema }

// maxSchema is the largest schema in bytes: a run publishes it with each ask.
const maxSchema = 64 << 10

// Of returns the form of a JSON schema. A text that is no schema, or that refers to another
// document, makes a form that is not valid: see [Form.Valid].
func Of(text string) *Form { return &Form{schema.Of(text)} }

// Valid returns an error of code invalid if the form is not valid. approval.Wait refuses an ask
// with such a form.
func (f *Form) Valid() error {
	err := f.schema.Valid()
	if n := len(f.schema.Text()); n > maxSchema {
		err = fmt.Errorf("the JSON schema is not valid: it has %d bytes; the limit is %d", n,
			maxSchema)
	}
	if err != nil {
		return &perdure.Error{Code: journal.CodeInvalid, Op: "form", Message: err.Error()}
	}
	return nil
}

// Schema returns the text of the schema.
func (f *Form) Schema() json.RawMessage { return f.schema.Text() }

// Check returns an error that names each place where data does not match, in one line.
func (f *Form) Check(data json.RawMessage) error {
	if err := f.Valid(); err != nil {
		return err
	}
	return f.schema.Check(data)
}
