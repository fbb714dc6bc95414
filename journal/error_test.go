package journal_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/perdure/perdure/journal"
)

func TestErrorIsOneLine(t *testing.T) {
	for _, c := range []struct {
		err  journal.Error
		want string
	}{
		{journal.Error{Message: "no such run"}, "perdure: no such run"},
		{journal.Error{Op: "get x", Message: "no such run"}, "perdure: get x: no such run"},
		{journal.Error{Op: "get x", Err: io.EOF}, "perdure: get x: EOF"},
		{
			journal.Error{
				Op: "get x", Message: "cannot read", Err: io.EOF, Hint: "look at the disk",
			},
			"perdure: get x: cannot read: EOF (look at the disk)",
		},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestErrorsAreComparedByCode(t *testing.T) {
	err := fmt.Errorf("wrapped: %w", &journal.Error{
		Code: journal.CodeNotFound, Op: "get", Message: "no", Hint: "look", Err: io.EOF,
	})
	for _, c := range []struct {
		target error
		want   bool
	}{
		{&journal.Error{Code: journal.CodeNotFound}, true},
		{&journal.Error{Code: journal.CodeConflict}, false},
		{&journal.Error{Code: journal.CodeNotFound, Op: "get"}, false},
		{&journal.Error{Code: journal.CodeNotFound, Message: "no"}, false},
		{&journal.Error{Code: journal.CodeNotFound, Hint: "look"}, false},
		{&journal.Error{Code: journal.CodeNotFound, Err: io.EOF}, false},
		{io.EOF, true},
		{io.ErrUnexpectedEOF, false},
	} {
		if got := errors.Is(err, c.target); got != c.want {
			t.Errorf("it is %v: %v, want %v", c.target, got, c.want)
		}
	}
	if got := journal.CodeOf(err); got != journal.CodeNotFound {
		t.Errorf("its code is %q", got)
	}
	if got := journal.CodeOf(io.EOF); got != "" {
		t.Errorf("the code of a foreign error is %q", got)
	}
	if got := journal.CodeOf(nil); got != "" {
		t.Errorf("the code of nil is %q", got)
	}
}

// chain is a failure that wraps two others, the first of which wraps one.
func chain() *journal.Failure {
	return &journal.Failure{Message: "top", Wraps: []*journal.Failure{
		{Message: "left", Wraps: []*journal.Failure{
			{
				Message: "leaf", Class: journal.ClassBenign, Code: journal.CodePanic,
				Stack: "leaf stack",
			},
		}},
		nil,
		{
			Message: "right", Class: journal.ClassPark, Code: journal.CodeDecode,
			Stack: "right stack",
		},
	}}
}

func TestFailuresAreSearchedInTheOrderOfErrorsIs(t *testing.T) {
	var order []string
	if f := chain().Find(func(f *journal.Failure) bool {
		order = append(order, f.Message)
		return false
	}); f != nil {
		t.Errorf("found %+v", f)
	}
	if got := fmt.Sprint(order); got != "[top left leaf right]" {
		t.Errorf("the order is %v", got)
	}
	if f := chain().ClassOf(); f == nil || f.Message != "leaf" || f.Class != journal.ClassBenign {
		t.Errorf("its class is that of %+v", f)
	}
	if got := chain().CodeOf(); got != journal.CodePanic {
		t.Errorf("its code is %q", got)
	}
	if got := chain().StackOf(); got != "leaf stack" {
		t.Errorf("its stack is %q", got)
	}
	var none *journal.Failure
	if none.Find(func(*journal.Failure) bool { return true }) != nil || none.ClassOf() != nil ||
		none.CodeOf() != "" || none.StackOf() != "" {
		t.Error("nothing is found in no failure")
	}
	plain := &journal.Failure{Message: "plain"}
	if plain.ClassOf() != nil || plain.CodeOf() != "" || plain.StackOf() != "" {
		t.Error("a plain failure has a class, code or stack")
	}
}
