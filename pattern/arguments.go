package pattern

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/journal"
)

// Arguments make the argument of a step's function in a declared pattern from values that
// the run knows. If A is a struct, tags name the source of each field:
//
//	type shipping struct {
//		Order   Order           `perdure:"input"`                 // of the run, or of the step
//		City    string          `perdure:"input=city"`            // one key of it
//		Receipt Receipt         `perdure:"step=charge,required"`  // the result of a step
//		Hold    string          `perdure:"try=debit"`             // of a participant's try
//		Refund  Refund          `perdure:"undo=charge"`           // of a step's compensation
//		Why     error           `perdure:"undo-error=charge"`     // of that compensation
//		Tenant  string          `perdure:"header=X-Tenant"`
//		All     perdure.Headers `perdure:"headers"`
//		Rank    int             `perdure:"variable=rank"`
//		Vars    map[string]any  `perdure:"variables"`
//		ID      string          `perdure:"id"`                    // the workflow ID
//		Run     perdure.Info                                      // by type, like context.Context
//	}
//
// A value that does not exist is zero; with "required" the step fails. One field may have no
// tag: it is the input if the input decodes into the field's type, else zero. An A that has no
// tag at all is the input itself. An A that is a context.Context or an Info is that context or
// Info. The tags of an embedded struct count as tags of A. A []byte and a json.RawMessage get
// an input or a result unchanged.
//
// Arguments are made once for each function. Many goroutines may use them.
type Arguments[A any] struct{ parts *parts }

// NewArguments reads the tags of A. [Arguments.Check] reports tags that are not valid; until they
// are corrected Fill fails.
func NewArguments[A any]() *Arguments[A] { return &Arguments[A]{partsOf(reflect.TypeFor[A]())} }

// Sources are the values that arguments are made of. A nil function knows no value.
type Sources struct {
	Input     json.RawMessage // nil for no input
	Result    func(step string) (json.RawMessage, bool)
	Tried     func(participant string) (json.RawMessage, bool)
	Undone    func(step string) (json.RawMessage, bool)
	UndoError func(step string) error // nil if there is no such error
}

type sourcesKey struct{}

// SourcesOf returns the sources of the argument of a task. ctx is the context of the task's body.
func SourcesOf(ctx context.Context) (Sources, bool) {
	g, ok := ctx.Value(sourcesKey{}).(Sources)
	return g, ok
}

// Output returns the result of a step. It is called in the body of a later step. It returns false
// if the step has no result because it was skipped.
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

// SourceTypes are the types of [Sources] before the values exist. A nil type is not known and fits
// every field. A nil function knows no step.
type SourceTypes struct {
	Input  reflect.Type
	Result func(step string) (reflect.Type, bool) // false if there is no such step
	Tried  func(participant string) (reflect.Type, bool)
	Undone func(step string) (reflect.Type, bool) // false if the step has no compensation
}

// Check returns the defects of A: tags that are not valid, tags that name something that does not
// exist, types that journals cannot keep, and known types whose values never decode into the type
// of the field.
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
