// Package failure converts errors into failures of journals, and back. It has the registry of
// errors that keep their identity.
package failure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/journal"
)

// A mark is an error with a class. The class is found anywhere in the chain.
type mark struct {
	class journal.Class
	after time.Duration
	err   error
}

func (m *mark) Error() string { return m.err.Error() }

func (m *mark) Unwrap() error { return m.err }

// Mark returns err with a class, and for [journal.ClassRetry] with a delay. Mark of nil is nil.
func Mark(class journal.Class, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &mark{class, after, err}
}

// registry has the errors that keep their identity in journals.
var registry = struct {
	sync.RWMutex
	sentinels map[string]error
	names     map[error]string
	types     map[string]reflect.Type
	typeNames map[reflect.Type]string
}{
	sentinels: map[string]error{
		"context.Canceled":         context.Canceled,
		"context.DeadlineExceeded": context.DeadlineExceeded,
	},
	names: map[error]string{
		context.Canceled:         "context.Canceled",
		context.DeadlineExceeded: "context.DeadlineExceeded",
	},
	types:     map[string]reflect.Type{},
	typeNames: map[reflect.Type]string{},
}

// Register registers a sentinel error under the name that journals keep.
func Register(name string, sentinel error) error {
	switch {
	case !journal.ValidName(name):
		return Invalid("register error", "not a name: %q", name)
	case sentinel == nil || !reflect.ValueOf(sentinel).Comparable():
		return Invalid("register error "+name, "an error that can be compared is needed")
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.sentinels[name] != nil || registry.types[name] != nil ||
		registry.names[sentinel] != "" {
		return &journal.Error{Code: journal.CodeDuplicate, Op: "register error " +
			name, Message: "the name or the error is registered already"}
	}
	registry.sentinels[name], registry.names[sentinel] = sentinel, name
	return nil
}

// RegisterType registers an error type under the name with which journals keep its values.
func RegisterType(name string, t reflect.Type) error {
	switch {
	case !journal.ValidName(name):
		return Invalid("register error type", "not a name: %q", name)
	case t.Kind() == reflect.Interface:
		return Invalid("register error type "+name,
			"%v is an interface: register the types that implement it", t)
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.sentinels[name] != nil || registry.types[name] != nil ||
		registry.typeNames[t] != "" {
		return &journal.Error{Code: journal.CodeDuplicate, Op: "register error type " +
			name, Message: "the name or the type is registered already"}
	}
	registry.types[name], registry.typeNames[t] = t, name
	return nil
}

// IsRegistered reports whether a sentinel error has a name.
func IsRegistered(sentinel error) bool {
	if sentinel == nil || !reflect.ValueOf(sentinel).Comparable() {
		return false
	}
	registry.RLock()
	defer registry.RUnlock()
	return registry.names[sentinel] != ""
}

// Invalid returns an error of code invalid.
func Invalid(op, format string, args ...any) *journal.Error {
	return &journal.Error{Code: journal.CodeInvalid, Op: op, Message: fmt.Sprintf(format, args...)}
}

const (
	maxMessage = 64 << 10 // maximum number of bytes of an error's message
	maxChain   = 100      // maximum number of links of an error's chain
)

// Of returns an error as it is recorded in a journal. Only Of converts errors of the application,
// so it does not trust their methods.
func Of(err error) *journal.Failure {
	links := maxChain
	return failureOf(err, &links)
}

func failureOf(err error, links *int) *journal.Failure {
	*links--
	if r, ok := err.(*recorded); ok {
		f := *r.failure
		f.Settled = f.Settled || !r.live
		return &f
	}
	f := &journal.Failure{Message: Clip(guard.Text(err)), Type: fmt.Sprintf("%T", err)}
	switch e := err.(type) {
	case *mark:
		f.Class, f.After, f.Type = e.class, e.after, ""
	case *guard.Abort:
		f.Code, f.Type, f.Stack = journal.CodePanic, "", e.Stack()
	case *journal.Error:
		f.Code, f.Type = e.Code, ""
		f.Data, _ = json.Marshal(errorData{e.Op, e.Message, e.Hint})
	}
	identify(f, err)
	if *links <= 0 {
		return f
	}
	for _, w := range unwrap(err) {
		if w != nil && *links > 0 {
			f.Wraps = append(f.Wraps, failureOf(w, links))
		}
	}
	return f
}

// errorData has the fields of an Error that are kept besides its code.
type errorData struct {
	Op      string `json:"op,omitempty"`
	Message string `json:"message,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// identify sets the name and data of a failure if its error is registered.
func identify(f *journal.Failure, err error) {
	registry.RLock()
	name := registry.typeNames[reflect.TypeOf(err)]
	if name == "" && reflect.ValueOf(err).Comparable() {
		f.Name = registry.names[err]
	}
	registry.RUnlock()
	if name == "" {
		return
	}
	var data []byte
	if guard.Call(func() (e error) { data, e = json.Marshal(err); return e }) == nil {
		f.Name, f.Data = name, data
	}
}

func unwrap(err error) (wraps []error) {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		_ = guard.Call(func() error { wraps = []error{e.Unwrap()}; return nil })
	case interface{ Unwrap() []error }:
		_ = guard.Call(func() error { wraps = e.Unwrap(); return nil })
	}
	return wraps
}

// Clip returns a text as valid UTF-8 that is short enough to be kept.
func Clip(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

// recorded is an error from a journal, the same live and on replay.
type recorded struct {
	failure *journal.Failure
	// The registered sentinel or value, or the Error, that this error was. It is nil if there is
	// none.
	self  error
	wraps []error
	live  bool // its class has not been acted on yet
}

// Err returns the error of a recorded failure. Err of nil is nil.
func Err(f *journal.Failure) error { return errorOf(f, false) }

// OfStep returns the error of the failure of a step. Its text begins with the step's name and key,
// unless the text names the step already, or the error is the end of the workflow's context.
func OfStep(name, key string, f *journal.Failure) error {
	if f == nil || f.Step != "" || strings.HasPrefix(f.Message, "step ") ||
		strings.HasPrefix(f.Message, "perdure: step "+name+":") ||
		strings.HasPrefix(f.Name, "context.") {
		return Err(f)
	}
	named := *f
	named.Step = journal.Op{Name: name, Key: key}.String()
	return Err(&named)
}

// Live returns the error of a failure whose class has not been acted on yet, so the class still
// counts.
func Live(f *journal.Failure) error { return errorOf(f, true) }

func errorOf(f *journal.Failure, live bool) error {
	if f == nil {
		return nil
	}
	r := &recorded{failure: f, self: original(f), live: live}
	for _, w := range f.Wraps {
		r.wraps = append(r.wraps, errorOf(w, live))
	}
	return r
}

// IsOnly reports whether err is the error that [Err] or [Live] returned for f, unwrapped.
func IsOnly(err error, f *journal.Failure) bool {
	r, ok := err.(*recorded)
	return ok && r.failure == f
}

// original returns the error that a link of a chain was, or nil.
func original(f *journal.Failure) error {
	if f.Code != "" && f.Name == "" {
		var d errorData
		if f.Data == nil || json.Unmarshal(f.Data, &d) != nil {
			d.Message = f.Message
		}
		return &journal.Error{Code: f.Code, Op: d.Op, Message: d.Message, Hint: d.Hint}
	}
	registry.RLock()
	t, sentinel := registry.types[f.Name], registry.sentinels[f.Name]
	registry.RUnlock()
	if t == nil {
		return sentinel
	}
	v := reflect.New(t)
	if guard.Call(func() error { return json.Unmarshal(f.Data, v.Interface()) }) != nil {
		return nil
	}
	e, _ := v.Elem().Interface().(error)
	return e
}

// Error returns the message of the original error, behind the name of the step that it is from.
func (r *recorded) Error() string { return r.failure.Text() }

// Unwrap returns the chain of the original error.
func (r *recorded) Unwrap() []error { return r.wraps }

// Is reports whether the original error was target, as far as its identity is kept.
func (r *recorded) Is(target error) bool {
	if r.failure.Code != "" && (&journal.Error{Code: r.failure.Code}).Is(target) {
		return true
	}
	if r.self == nil {
		return false
	}
	if reflect.TypeOf(r.self) == reflect.TypeOf(target) && reflect.ValueOf(target).Comparable() &&
		r.self == target {
		return true
	}
	is, ok := r.self.(interface{ Is(error) bool })
	return ok && is.Is(target)
}

// As sets target to the original error if that had the type that target points to, and reports
// whether it did.
func (r *recorded) As(target any) bool {
	if r.self == nil {
		return false
	}
	if e, ok := target.(**journal.Error); ok && r.failure.Code != "" && r.failure.Name != "" {
		*e = &journal.Error{Code: r.failure.Code, Message: r.failure.Message}
		return true
	}
	to := reflect.ValueOf(target).Elem()
	if v := reflect.ValueOf(r.self); v.Type().AssignableTo(to.Type()) {
		to.Set(v)
		return true
	}
	as, ok := r.self.(interface{ As(any) bool })
	return ok && as.As(target)
}

// Stack returns the stack of the panic that the chain of err records. It is empty if there is
// none.
func Stack(err error) string {
	var r *recorded
	if errors.As(err, &r) {
		return r.failure.StackOf()
	}
	return ""
}
