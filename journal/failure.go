package journal

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// A Class states how the engine treats a failure. Any link of an error's chain may have one.
type Class string

// The classes of a failure.
const (
	ClassNone      Class = ""          // retried by the retry policy
	ClassPermanent Class = "permanent" // not retried
	// of a workflow: the run does not end, its code is replayed; of a step: it is retried after
	// Failure.After if that is set
	ClassRetry  Class = "retry"
	ClassPark   Class = "park"   // the run is parked for an operator
	ClassBenign Class = "benign" // expected: observers hear of it as a benign failure
)

// A Failure is an error as the journal has it: its message, its chain, and what errors.Is and
// errors.As need to answer after a crash as they did before.
type Failure struct {
	Message string          `json:"message"`
	Step    string          `json:"step,omitempty"`  // name[key] of a step
	Code    Code            `json:"code,omitempty"`  // the code of an error of this module
	Name    string          `json:"name,omitempty"`  // the name of a registered sentinel or type
	Type    string          `json:"type,omitempty"`  // the Go type, for readers
	Data    json.RawMessage `json:"data,omitempty"`  // the value of a registered type
	Class   Class           `json:"class,omitempty"` // the class of this link
	// with ClassRetry: the minimum delay, in nanoseconds
	After time.Duration `json:"after,omitempty"`
	Stack string        `json:"stack,omitempty"` // the stack of a panic
	// it was read from a journal: its class has taken effect already
	Settled bool       `json:"settled,omitempty"`
	Wraps   []*Failure `json:"wraps,omitempty"` // the wrapped errors
}

// Text returns the message, behind the name of the step if the failure has one. It returns an empty
// string if f is nil.
func (f *Failure) Text() string {
	switch {
	case f == nil:
		return ""
	case f.Step == "":
		return f.Message
	}
	return "step " + f.Step + ": " + f.Message
}

// Find returns the first link of the chain, in the order of errors.Is, for which ok returns true;
// nil if there is none.
func (f *Failure) Find(ok func(*Failure) bool) *Failure {
	if f == nil {
		return nil
	}
	if ok(f) {
		return f
	}
	for _, w := range f.Wraps {
		if g := w.Find(ok); g != nil {
			return g
		}
	}
	return nil
}

// ClassOf returns the first link of the chain that has a class; nil if there is none.
func (f *Failure) ClassOf() *Failure {
	return f.Find(func(f *Failure) bool { return f.Class != ClassNone })
}

// OwnClass is ClassOf without links that were read from a journal: a workflow that returns the
// error of a step does not take over the class of that error.
func (f *Failure) OwnClass() *Failure {
	if f == nil || f.Settled {
		return nil
	}
	if f.Class != ClassNone {
		return f
	}
	for _, w := range f.Wraps {
		if g := w.OwnClass(); g != nil {
			return g
		}
	}
	return nil
}

// CameFrom reports whether the chain contains the error g as it was read from a journal.
func (f *Failure) CameFrom(g *Failure) bool {
	return f.Find(func(link *Failure) bool { return link.isOf(g) }) != nil
}

// isOf reports whether the link is the error g as it was read from a journal.
func (f *Failure) isOf(g *Failure) bool {
	return f.Settled && g != nil && f.Message == g.Message && f.Code == g.Code &&
		f.Name == g.Name && f.Type == g.Type
}

// CodeOf returns the first code in the chain; empty if there is none.
func (f *Failure) CodeOf() Code {
	if g := f.Find(func(f *Failure) bool { return f.Code != "" }); g != nil {
		return g.Code
	}
	return ""
}

// StackOf returns the first stack in the chain; empty if there is none.
func (f *Failure) StackOf() string {
	if g := f.Find(func(f *Failure) bool { return f.Stack != "" }); g != nil {
		return g.Stack
	}
	return ""
}

// clone returns a deep copy.
func (f *Failure) clone() *Failure {
	if f == nil {
		return nil
	}
	c := *f
	c.Data = bytes.Clone(f.Data)
	c.Wraps = slices.Clone(f.Wraps)
	for i, w := range c.Wraps {
		c.Wraps[i] = w.clone()
	}
	return &c
}

func (f *Failure) size() int {
	if f == nil {
		return 0
	}
	n := len(f.Message) + len(f.Stack) + len(f.Data) + 64
	for _, w := range f.Wraps {
		n += w.size()
	}
	return n
}

// Interrupted is the name of the failure of a step that is called at most once and was interrupted:
// its body may have been called, and no result is recorded.
const Interrupted = "perdure.Interrupted"
