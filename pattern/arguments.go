package pattern

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/journal"
)

// Arguments make the argument of a step's function in a declared pattern out of what
// its run knows. An A of a struct type says with tags what its fields are:
//
//	type shipping struct {
//		Order   Order           `perdure:"input"`                 // of the run, or of the step
//		City    string          `perdure:"input=city"`            // one key of it
//		Receipt Receipt         `perdure:"step=charge,required"`  // the result of a step
//		Hold    string          `perdure:"try=debit"`             // of a participant's try
//		Refund  Refund          `perdure:"undo=charge"`           // of a step's compensation
//		Why     error           `perdure:"undo-error=charge"`     // that it failed with
//		Tenant  string          `perdure:"header=X-Tenant"`
//		All     perdure.Headers `perdure:"headers"`
//		Rank    int             `perdure:"variable=rank"`
//		Vars    map[string]any  `perdure:"variables"`
//		ID      string          `perdure:"id"`                    // the workflow ID
//		Run     perdure.Info                                      // by its type, as a context.Context is
//	}
//
// A value that is not there is zero; with "required" the step fails. One field may have
// no tag: it is the input, where that decodes into its type, else zero. An A that has no
// tag at all is such a value itself, and so is a context.Context or an Info. The tags of
// a struct that is embedded count as those of A. A []byte and a json.RawMessage get an
// input or a result as it is.
//
// Arguments are made once for each function, and used by many goroutines.
type Arguments[A any] struct{ parts *parts }

// NewArguments reads the tags of A. What is wrong with them is told by
// [Arguments.Check]; until then Fill fails.
func NewArguments[A any]() *Arguments[A] { return &Arguments[A]{partsOf(reflect.TypeFor[A]())} }

// Sources are what arguments are made of. A function that is nil knows nothing.
type Sources struct {
	Input     json.RawMessage // nil for none
	Result    func(step string) (json.RawMessage, bool)
	Tried     func(participant string) (json.RawMessage, bool)
	Undone    func(step string) (json.RawMessage, bool)
	UndoError func(step string) error // nil where there is none
}

type sourcesKey struct{}

// SourcesOf returns what the argument of the task was made of whose body ctx belongs to.
func SourcesOf(ctx context.Context) (Sources, bool) {
	g, ok := ctx.Value(sourcesKey{}).(Sources)
	return g, ok
}

// Output gives the result of a step in the body of one that comes after it, and false
// where there is none: it was skipped.
func Output[R any](ctx context.Context, step string) (R, bool, error) {
	var zero R
	given, ok := SourcesOf(ctx)
	if !ok || given.Result == nil {
		return zero, false, &perdure.Error{Code: journal.CodeMisuse, Op: "output of " +
			step, Message: "called outside the body of a step of a declared pattern"}
	}
	data, found := given.Result(step)
	if !found || data == nil {
		return zero, false, nil
	}
	v, err := Decode[R](data)
	return v, err == nil, err
}

// SourceTypes is what is known of that before it is there. A type that is nil is not
// known, and fits everything; a function that is nil knows no step.
type SourceTypes struct {
	Input  reflect.Type
	Result func(step string) (reflect.Type, bool) // false where there is no such step
	Tried  func(participant string) (reflect.Type, bool)
	Undone func(step string) (reflect.Type, bool) // false where the step has no compensation
}

// Check says what is wrong with A: with its tags, with what they name that is not there,
// and with types, as far as they are known, that never decode into those of its fields.
func (a *Arguments[A]) Check(types SourceTypes) []definition.Issue { return a.parts.check(types) }

// Fill makes an argument, in the body of a step.
func (a *Arguments[A]) Fill(ctx context.Context, given Sources) (A, error) {
	var out A
	if err := a.parts.fill(ctx, given, reflect.ValueOf(&out).Elem()); err != nil {
		var zero A
		return zero, err
	}
	return out, nil
}
