// Package expr parses conditions, for steps of declared patterns:
//
//	expr.When(`input.total > 100 && results.validate.ok && headers["X-Tenant"] != ""`)
//
// docs/conditions.md describes the language. A condition depends on the run's input, results,
// variables and headers alone. There is no clock, no randomness and no call to the outside, so it
// has the same result on replay. Its cost is limited, whatever the text and the data are.
package expr

import (
	"context"
	"errors"

	"github.com/perdure/perdure/pattern"

	"github.com/expr-lang/expr/file"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/guard"
)

// The limits. Check or Holds returns an error if one is exceeded.
const (
	maxText    = 4096 // bytes of a text
	maxNodes   = 1000 // names, values and operators in a text
	maxDepth   = 200  // of them within each other
	maxPattern = 1000 // depth of nesting
	// bytes of JSON that are decoded for one evaluation, and of a joined string
	maxData = 1 << 20
	// steps of one evaluation: one for each evaluated node and each compared element, more for
	// large ones
	maxSteps  = 200_000
	maxDigits = 400  // digits of a number, and its largest exponent
	maxBits   = 4096 // bits of a calculated number
)

// A condition is a compiled text.
type condition struct {
	text  string
	root  op
	needs wanted
	err   error // the reason why the text is not valid
}

// When compiles a text to a condition. If the text is not valid, Check and Holds return the error.
// Many goroutines may use a condition at a time. Every error of it is a [perdure.Error] of code
// invalid that shows the place in the text.
func When(text string) pattern.Condition {
	c := &condition{text: text}
	c.err = c.guarded(func() (err error) {
		c.root, c.needs, err = compile(text)
		return err
	})
	return c
}

// String returns the text.
func (c *condition) String() string { return c.text }

// Check returns the error of a text that is not valid.
func (c *condition) Check() error { return c.err }

// Holds evaluates the text. It needs no context, because the limits end it soon enough.
func (c *condition) Holds(_ context.Context, k pattern.View) (bool, error) {
	if c.err != nil {
		return false, c.err
	}
	holds := false
	err := c.guarded(func() error {
		data, err := read(k, c.needs)
		if err != nil {
			return err
		}
		v, err := c.root(&run{data: data, left: maxSteps})
		if err != nil {
			return err
		}
		holds, err = boolean(v)
		return err
	})
	return holds, err
}

// guarded calls do and shows the place of its error in the text. It turns a panic into an error.
func (c *condition) guarded(do func() error) error {
	err := guard.Try(do)
	if abort := guard.AbortOf(err); abort != nil {
		err = errors.New("it panicked: " + abort.Text())
	}
	if err != nil {
		return c.show(err)
	}
	return nil
}

// A fault is an error with its place.
type fault struct {
	at  int // index of the character in the text, from 0
	err error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// placed adds a place to an error, unless it has one.
func placed(at int, err error) error {
	var f *fault
	if err == nil || errors.As(err, &f) {
		return err
	}
	return &fault{at, err}
}

// show returns an error in the form in which it leaves the package.
func (c *condition) show(err error) error {
	at, message := -1, err.Error()
	var ours *fault
	var theirs *file.Error
	switch {
	case errors.As(err, &ours):
		at = ours.at
	case errors.As(err, &theirs):
		at, message = theirs.From, theirs.Message
	}
	return &perdure.Error{
		Code: "invalid", Op: "condition", Message: plain(message + excerpt(c.text, at)),
	}
}
