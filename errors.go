package perdure

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
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/journal"
)

// An Error is any error of this module. See [journal.Error] and its codes:
// errors.Is(err, &perdure.Error{Code: journal.CodeNotFound}) asks for one.
type Error = journal.Error

// ErrUnloaded is the cause of a workflow's context when the run leaves this
// engine's memory without having ended: the engine stops, or the run is parked
// or replayed later. Its goroutines then end, deferred functions run, and the
// code goes on elsewhere or later from the journal.
var ErrUnloaded = kernel.ErrUnloaded

// A mark gives an error a class. The class is found anywhere in the chain.
type mark struct {
	class journal.Class
	after time.Duration
	err   error
}

func (m *mark) Error() string { return m.err.Error() }
func (m *mark) Unwrap() error { return m.err }

func marked(class journal.Class, after time.Duration, err error) error {
	if err == nil {
		return nil
	}
	return &mark{class, after, err}
}

// Permanent marks an error that no further attempt can mend: a step that
// returns it fails at once. Permanent of nil is nil.
func Permanent(err error) error { return marked(journal.ClassPermanent, 0, err) }

// RetryAfter marks an error of a step whose next attempt, if the policy allows
// one, should begin after d instead of the policy's delay. A d of zero or less
// leaves the delay to the policy. RetryAfter of nil is nil.
func RetryAfter(d time.Duration, err error) error {
	return marked(journal.ClassRetry, max(d, 0), err)
}

// Retryable marks an error that does not end the run when the workflow function
// returns it: the run waits and its code is replayed, as after a panic.
// Retryable of nil is nil.
func Retryable(err error) error { return marked(journal.ClassRetry, 0, err) }

// Parking marks an error that an operator must look at: the run is parked,
// SUSPENDED with this error as the cause, and goes on when it is resumed. A step
// that returned it is tried again then. Parking of nil is nil.
func Parking(err error) error { return marked(journal.ClassPark, 0, err) }

// Benign marks an error that is expected. It is retried as any other, and
// observers are told that it is benign. Benign of nil is nil.
func Benign(err error) error { return marked(journal.ClassBenign, 0, err) }

// registry has the errors that keep their identity in journals.
var registry = struct {
	sync.RWMutex
	sentinels map[string]error
	names     map[error]string
	types     map[string]reflect.Type
	typeNames map[reflect.Type]string
}{
	sentinels: map[string]error{"context.Canceled": context.Canceled, "context.DeadlineExceeded": context.DeadlineExceeded},
	names:     map[error]string{context.Canceled: "context.Canceled", context.DeadlineExceeded: "context.DeadlineExceeded"},
	types: map[string]reflect.Type{
		"perdure.StepError": reflect.TypeFor[*StepError](), "perdure.CompensationError": reflect.TypeFor[*CompensationError](),
		"perdure.PhaseError": reflect.TypeFor[*PhaseError](),
	},
	typeNames: map[reflect.Type]string{
		reflect.TypeFor[*StepError](): "perdure.StepError", reflect.TypeFor[*CompensationError](): "perdure.CompensationError",
		reflect.TypeFor[*PhaseError](): "perdure.PhaseError",
	},
}

// RegisterError gives a sentinel error a name under which journals keep it, so
// that errors.Is finds it in the chain of a recorded error: live, after a crash,
// and in another process that registered it under the same name. It is called
// while the program starts, before any engine runs. It fails on a name or error
// that is registered already, and on an error that cannot be compared.
func RegisterError(name string, sentinel error) error {
	switch {
	case !journal.ValidName(name):
		return invalid("register error", "not a name: %q", name)
	case sentinel == nil || !reflect.ValueOf(sentinel).Comparable():
		return invalid("register error "+name, "an error that can be compared is needed")
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.sentinels[name] != nil || registry.types[name] != nil || registry.names[sentinel] != "" {
		return &Error{Code: journal.CodeDuplicate, Op: "register error " + name, Message: "the name or the error is registered already"}
	}
	registry.sentinels[name], registry.names[sentinel] = sentinel, name
	return nil
}

// RegisterErrorType gives an error type a name under which journals keep its
// values, as JSON of the exported fields, so that errors.As finds it in the
// chain of a recorded error as it did live. See [RegisterError] for when.
func RegisterErrorType[E error](name string) error {
	t := reflect.TypeFor[E]()
	switch {
	case !journal.ValidName(name):
		return invalid("register error type", "not a name: %q", name)
	case t.Kind() == reflect.Interface:
		return invalid("register error type "+name, "%v is an interface: register the types that implement it", t)
	}
	registry.Lock()
	defer registry.Unlock()
	if registry.sentinels[name] != nil || registry.types[name] != nil || registry.typeNames[t] != "" {
		return &Error{Code: journal.CodeDuplicate, Op: "register error type " + name, Message: "the name or the type is registered already"}
	}
	registry.types[name], registry.typeNames[t] = t, name
	return nil
}

func invalid(op, format string, args ...any) *Error {
	return &Error{Code: journal.CodeInvalid, Op: op, Message: fmt.Sprintf(format, args...)}
}

const (
	maxMessage = 64 << 10 // bytes of an error's message that are kept
	maxChain   = 100      // links of an error's chain that are kept
)

// toFailure gives an error as it is journaled. It is the one place where errors
// of others become ours, so it does not trust their methods.
func toFailure(err error) *journal.Failure {
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
	f := &journal.Failure{Message: clip(guard.Text(err)), Type: fmt.Sprintf("%T", err)}
	switch e := err.(type) {
	case *mark:
		f.Class, f.After, f.Type = e.class, e.after, ""
	case *guard.Abort:
		f.Code, f.Type, f.Stack = journal.CodePanic, "", e.Stack()
	case *Error:
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

// errorData is what is kept of an Error beside its code.
type errorData struct {
	Op      string `json:"op,omitempty"`
	Message string `json:"message,omitempty"`
	Hint    string `json:"hint,omitempty"`
}

// identify names a registered error.
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

func clip(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

// recorded is an error that comes from a journal, live as on replay.
type recorded struct {
	failure *journal.Failure
	self    error // the registered sentinel or value, or the Error, that it stands for; nil without
	wraps   []error
	live    bool // its class was not acted on yet
}

// fromFailure gives the error that a failure was; nil for nil.
func fromFailure(f *journal.Failure) error { return errorOf(f, false) }

// errorOf gives the error that a failure was; live where that is yet to be acted
// on.
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

// isOnly says whether err is what errorOf gave of f, and nothing around it.
func isOnly(err error, f *journal.Failure) bool {
	r, ok := err.(*recorded)
	return ok && r.failure == f
}

// original gives the error that a link of a chain stands for, or nil.
func original(f *journal.Failure) error {
	if f.Code != "" && f.Name == "" {
		var d errorData
		if f.Data == nil || json.Unmarshal(f.Data, &d) != nil {
			d.Message = f.Message
		}
		return &Error{Code: f.Code, Op: d.Op, Message: d.Message, Hint: d.Hint}
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

// Error gives the message that the error had.
func (r *recorded) Error() string { return r.failure.Message }

// Unwrap gives the chain that the error had.
func (r *recorded) Unwrap() []error { return r.wraps }

// Is says whether the error was target, as far as its identity is kept.
func (r *recorded) Is(target error) bool {
	if r.failure.Code != "" && (&Error{Code: r.failure.Code}).Is(target) {
		return true
	}
	if r.self == nil {
		return false
	}
	if reflect.TypeOf(r.self) == reflect.TypeOf(target) && reflect.ValueOf(target).Comparable() && r.self == target {
		return true
	}
	is, ok := r.self.(interface{ Is(error) bool })
	return ok && is.Is(target)
}

// As gives the error where it was of the type that target points to.
func (r *recorded) As(target any) bool {
	if r.self == nil {
		return false
	}
	if e, ok := target.(**Error); ok && r.failure.Code != "" && r.failure.Name != "" {
		*e = &Error{Code: r.failure.Code, Message: r.failure.Message}
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

// Stack gives the stack of the panic that err's chain records, as text; empty
// without.
func Stack(err error) string {
	var r *recorded
	if errors.As(err, &r) {
		return r.failure.StackOf()
	}
	return ""
}
