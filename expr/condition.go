// Package expr has conditions as text, for steps of declared patterns:
//
//	expr.When(`input.total > 100 && results.validate.ok && headers["X-Tenant"] != ""`)
//
// docs/conditions.md has the language on a page. A condition decides by the run's
// input, results, variables and headers alone: there is no clock, no randomness and
// nothing to call outside, so it decides the same on replay. What it may cost is bounded,
// whatever the text and whatever the data.
package expr

import (
	"context"
	"errors"

	"github.com/perdure/perdure/pattern"

	"github.com/expr-lang/expr/file"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/guard"
)

// The limits. What is over one is an error of Check, or of Holds.
const (
	maxText    = 4096 // bytes of a text
	maxNodes   = 1000 // names, values and operators in a text
	maxDepth   = 200  // of them within each other
	maxPattern = 1000 // instructions of a regular expression
	// bytes of JSON that are decoded for one evaluation, and of a string that was joined
	maxData = 1 << 20
	// of one evaluation: one for each node that is evaluated and each element that is compared,
	// more for large ones
	maxSteps  = 200_000
	maxDigits = 400  // of a number, and its largest exponent
	maxBits   = 4096 // of a number that was calculated
)

// A condition is a text that was compiled.
type condition struct {
	text  string
	root  op
	needs wanted
	err   error // why it cannot be used
}

// When gives the condition that text is. It is compiled here, once: Check says what is
// wrong with it, and so does Holds. Many goroutines may use it at a time. Every error of
// it is a [perdure.Error] of code invalid that shows the place in the text.
func When(text string) pattern.Condition {
	c := &condition{text: text}
	c.err = c.guarded(func() (err error) {
		c.root, c.needs, err = compile(text)
		return err
	})
	return c
}

// Check says what is wrong with the text.
func (c *condition) Check() error { return c.err }

// Holds evaluates the text. It needs no context: the limits end it soon enough.
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

// guarded calls do and shows its error in the text. A panic is an error too.
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
	at  int // the character of the text where it is, from 0
	err error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// placed gives an error its place, unless it has one.
func placed(at int, err error) error {
	var f *fault
	if err == nil || errors.As(err, &f) {
		return err
	}
	return &fault{at, err}
}

// show gives an error as it leaves the package.
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
