package perdure

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/perdure/perdure/journal"
)

// Encode gives a value as journals have it.
func Encode[T any](v T) (json.RawMessage, error) {
	data, err := encode(v)
	if err != nil {
		return nil, fromFailure(encodeFailure("encode", v, err))
	}
	return data, nil
}

// Decode reads what [Encode] gave.
func Decode[T any](data []byte) (T, error) {
	v, err := decode[T](data)
	if err != nil {
		return v, decodeError("decode", v, err)
	}
	return v, nil
}

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
// no tag: it is the input, where that has its type, else zero. An A that has no tag at
// all is such a value itself. Made once for each function; used by many goroutines.
type Arguments[A any] struct {
	whole  bool // A is the value without a tag
	fields []argument
	issues []Issue
}

// An argument is one field.
type argument struct {
	index    int
	name     string
	of       reflect.Type
	source   string // input, step …; none for a value without a tag
	key      string
	required bool
}

// Given is what arguments are made of.
type Given struct {
	Input     json.RawMessage
	Result    func(step string) (json.RawMessage, bool)
	Tried     func(participant string) (json.RawMessage, bool)
	Undone    func(step string) (json.RawMessage, bool)
	UndoError func(step string) error
}

type givenKey struct{}

// GivenOf gives what the argument of the task was made of whose body ctx belongs to.
func GivenOf(ctx context.Context) (Given, bool) {
	g, ok := ctx.Value(givenKey{}).(Given)
	return g, ok
}

// Output gives the result of a step in the body of one that comes after it, and false
// where there is none: it was skipped.
func Output[R any](ctx context.Context, step string) (R, bool, error) {
	var zero R
	given, ok := GivenOf(ctx)
	if !ok || given.Result == nil {
		return zero, false, &Error{Code: journal.CodeMisuse, Op: "output of " + step, Message: "called outside the body of a step of a declared pattern"}
	}
	data, found := given.Result(step)
	if !found || data == nil {
		return zero, false, nil
	}
	v, err := Decode[R](data)
	return v, err == nil, err
}

// GivenTypes is what is known of that before it is there. A type that is nil is not known.
type GivenTypes struct {
	Input  reflect.Type
	Result func(step string) (reflect.Type, bool) // false where there is no such step
	Tried  func(participant string) (reflect.Type, bool)
	Undone func(step string) (reflect.Type, bool)
}

// sources are the words of tags, and whether a key follows.
var sources = map[string]string{
	"input": "may", "step": "must", "try": "must", "undo": "must", "undo-error": "must",
	"header": "must", "headers": "", "variable": "must", "variables": "", "id": "",
}

var (
	contextType = reflect.TypeFor[context.Context]()
	infoType    = reflect.TypeFor[Info]()
	errorType   = reflect.TypeFor[error]()
	rawType     = reflect.TypeFor[json.RawMessage]()
	stringType  = reflect.TypeFor[string]()
	headersType = reflect.TypeFor[map[string]string]()
)

const noTag = "none"

// NewArguments reads the tags of A.
func NewArguments[A any]() *Arguments[A] {
	a := &Arguments[A]{}
	t := reflect.TypeFor[A]()
	if t.Kind() != reflect.Struct || !tagged(t) {
		a.whole = true
		a.fields = []argument{{of: t, source: noTag}}
		return a
	}
	bare := 0
	for i := range t.NumField() {
		f := t.Field(i)
		g := argument{index: i, name: f.Name, of: f.Type, source: noTag}
		tag, has := f.Tag.Lookup("perdure")
		switch {
		case !f.IsExported():
			if has {
				a.complain(f.Name, "a field that is not exported cannot be filled")
			}
			continue
		case has:
			a.issues = append(a.issues, g.parse(tag)...)
		case f.Type == contextType || f.Type == infoType:
			g.source = "context"
		default:
			if bare++; bare == 2 {
				a.complain(f.Name, "a second field without a tag: only one can be the input")
			}
		}
		a.fields = append(a.fields, g)
	}
	return a
}

func (a *Arguments[A]) complain(where, format string, args ...any) {
	a.issues = append(a.issues, Issue{Severity: IssueError, Where: where, Message: fmt.Sprintf(format, args...)})
}

// tagged says whether a type is one that is made of parts.
func tagged(t reflect.Type) bool {
	for i := range t.NumField() {
		if _, has := t.Field(i).Tag.Lookup("perdure"); has || t.Field(i).Type == contextType || t.Field(i).Type == infoType {
			return true
		}
	}
	return false
}

// parse reads a tag.
func (g *argument) parse(tag string) (issues []Issue) {
	complain := func(format string, args ...any) {
		issues = append(issues, Issue{Severity: IssueError, Where: g.name, Message: fmt.Sprintf(format, args...)})
	}
	for _, word := range strings.Split(tag, ",") {
		name, key, keyed := strings.Cut(word, "=")
		takes, known := sources[name]
		switch {
		case word == "required":
			g.required = true
		case !known:
			complain("the tag word %s is not known", quoted(word))
		case g.source != noTag:
			complain("two sources: %s and %s", g.source, name)
		case keyed && takes == "", !keyed && takes == "must", keyed && key == "":
			complain("the tag word %s needs the form %s", quoted(word), name+map[string]string{"must": "=name", "may": " or " + name + "=key"}[takes])
		default:
			g.source, g.key = name, key
		}
	}
	return issues
}

// Check says what is wrong with A, and with its fields where the types of what they are
// made of are known.
func (a *Arguments[A]) Check(types GivenTypes) []Issue {
	issues := append([]Issue(nil), a.issues...)
	for _, g := range a.fields {
		if message := g.check(types); message != "" {
			issues = append(issues, Issue{Severity: IssueError, Where: g.name, Message: message})
		}
	}
	if of := a.fields; a.whole && !isEmpty(of[0].of) && !fits(types.Input, of[0].of) {
		issues = append(issues, Issue{Severity: IssueWarning, Message: fmt.Sprintf("it takes a %v, and the input is a %v: it will be zero", of[0].of, types.Input)})
	}
	return issues
}

func isEmpty(t reflect.Type) bool { return t.Kind() == reflect.Struct && t.NumField() == 0 }

// check says what is wrong with a field; nothing where that is not known.
func (g *argument) check(types GivenTypes) string {
	of := func(what string, find func(string) (reflect.Type, bool)) string {
		if find == nil {
			return "there are no results of that kind here: " + g.source
		}
		t, known := find(g.key)
		if !known {
			return fmt.Sprintf("there is no %s %s", what, quoted(g.key))
		}
		return g.misfit(t)
	}
	switch g.source {
	case "input":
		if g.key == "" {
			return g.misfit(types.Input)
		}
		t, known := member(types.Input, g.key)
		if !known {
			return fmt.Sprintf("the input, a %v, has no key %s", types.Input, quoted(g.key))
		}
		return g.misfit(t)
	case "step":
		return of("step", types.Result)
	case "try":
		return of("participant", types.Tried)
	case "undo":
		return of("step with a compensation", types.Undone)
	case "undo-error":
		if _, known := types.undone(g.key); !known {
			return fmt.Sprintf("there is no step with a compensation %s", quoted(g.key))
		}
		return g.misfit(errorType)
	case "header", "id":
		return g.misfit(stringType)
	case "headers":
		return g.misfit(headersType)
	}
	return ""
}

func (t GivenTypes) undone(step string) (reflect.Type, bool) {
	if t.Undone == nil {
		return nil, false
	}
	return t.Undone(step)
}

func (g *argument) misfit(from reflect.Type) string {
	if fits(from, g.of) || from != nil && from.ConvertibleTo(g.of) && from.Kind() == g.of.Kind() {
		return ""
	}
	return fmt.Sprintf("it is a %v, and what it takes a %v", g.of, from)
}

// fits says whether a value of one type decodes into another, as far as that is known.
func fits(from, to reflect.Type) bool {
	if from == nil || from == to || to == rawType || from == rawType || to.Kind() == reflect.Interface && from.Implements(to) {
		return true
	}
	if from.Kind() == reflect.Pointer {
		return fits(from.Elem(), to)
	}
	if to.Kind() == reflect.Pointer {
		return fits(from, to.Elem())
	}
	dynamic := func(t reflect.Type) bool { return t.Kind() == reflect.Interface || t.Kind() == reflect.Map }
	return from != errorType && to != errorType && (dynamic(from) && from.Kind() == reflect.Interface || dynamic(to) && to.Key() == stringType && from.Kind() == reflect.Struct)
}

// member gives the type that a key has in the JSON of a type, nil where that is not
// known, and false where there is none.
func member(t reflect.Type, key string) (reflect.Type, bool) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil || t == rawType || t.Kind() == reflect.Interface:
		return nil, true
	case t.Kind() == reflect.Map:
		return t.Elem(), true
	case t.Kind() != reflect.Struct:
		return nil, false
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		if f.IsExported() && name != "-" && name == key {
			return f.Type, true
		}
	}
	return nil, false
}

// Fill makes an argument, in the body of a step.
func (a *Arguments[A]) Fill(ctx context.Context, given Given) (A, error) {
	var out A
	v := reflect.ValueOf(&out).Elem()
	for i := range a.fields {
		g := &a.fields[i]
		field := v
		if !a.whole {
			field = v.Field(g.index)
		}
		found, err := g.fill(ctx, given, field)
		if err != nil {
			return out, &Error{Code: journal.CodeDecode, Op: "argument " + g.name, Err: err}
		}
		if !found && g.required {
			return out, Permanent(&Error{
				Code: journal.CodeInvalid, Op: "argument " + g.name,
				Message: strings.TrimSuffix(fmt.Sprintf("there is no %s %s", g.source, g.key), " "), Hint: "it is required",
			})
		}
	}
	return out, nil
}

func (g *argument) fill(ctx context.Context, given Given, field reflect.Value) (found bool, err error) {
	into := func(data json.RawMessage, found bool) (bool, error) {
		if !found || data == nil {
			return false, nil
		}
		return true, json.Unmarshal(data, field.Addr().Interface())
	}
	from := func(find func(string) (json.RawMessage, bool)) (bool, error) {
		if find == nil {
			return false, nil
		}
		return into(find(g.key))
	}
	switch g.source {
	case noTag:
		if _, err := into(given.Input, given.Input != nil); err != nil {
			field.SetZero() // its type is not that of the input
		}
		return true, nil
	case "input":
		if g.key == "" {
			return into(given.Input, true)
		}
		var keys map[string]json.RawMessage
		if json.Unmarshal(given.Input, &keys) != nil {
			return false, nil
		}
		data, has := keys[g.key]
		return into(data, has)
	case "step":
		return from(given.Result)
	case "try":
		return from(given.Tried)
	case "undo":
		return from(given.Undone)
	case "undo-error":
		return g.fillError(given, field), nil
	case "variable":
		data, has, err := Variable[json.RawMessage](ctx, g.key)
		if err != nil {
			return false, err
		}
		return into(data, has)
	case "variables":
		all, err := Variables(ctx)
		if err != nil {
			return false, err
		}
		data, err := json.Marshal(all)
		if err != nil {
			return false, err
		}
		return into(data, true)
	}
	return g.fillInfo(ctx, field)
}

// fillInfo fills a field with what is known of the run.
func (g *argument) fillInfo(ctx context.Context, field reflect.Value) (found bool, err error) {
	if g.of == contextType {
		field.Set(reflect.ValueOf(ctx))
		return true, nil
	}
	info, err := InfoOf(ctx)
	if err != nil {
		return false, err
	}
	switch g.source {
	case "header":
		value, has := info.Headers[g.key]
		field.SetString(value)
		return has, nil
	case "headers":
		if info.Headers == nil {
			return false, nil
		}
		field.Set(reflect.ValueOf(info.Headers).Convert(g.of))
	case "id":
		field.SetString(info.WorkflowID)
	default:
		field.Set(reflect.ValueOf(info))
	}
	return true, nil
}

func (g *argument) fillError(given Given, field reflect.Value) bool {
	if given.UndoError == nil {
		return false
	}
	err := given.UndoError(g.key)
	if err == nil {
		return false
	}
	field.Set(reflect.ValueOf(&err).Elem())
	return true
}
