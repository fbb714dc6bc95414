package journal

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// Class says what to do about a failure. It is looked for anywhere in the
// chain of an error.
type Class string

// The classes of a failure.
const (
	ClassNone      Class = ""          // retried as the policy says
	ClassPermanent Class = "permanent" // not retried
	// of a workflow: not terminal, the code is replayed; of a step: retried after Failure.After if
	// that is set
	ClassRetry  Class = "retry"
	ClassPark   Class = "park"   // the run is parked for an operator
	ClassBenign Class = "benign" // expected: told to observers as such
)

// A Failure is an error as it is journaled: its message, its chain, and what
// it needs to answer to errors.Is and errors.As after a crash as it did live.
type Failure struct {
	Message string          `json:"message"`
	Code    Code            `json:"code,omitempty"`  // of an error of this module
	Name    string          `json:"name,omitempty"`  // of a registered sentinel or type
	Type    string          `json:"type,omitempty"`  // the Go type, for people
	Data    json.RawMessage `json:"data,omitempty"`  // a registered type's value
	Class   Class           `json:"class,omitempty"` // of this link
	// with ClassRetry: the least delay, in nanoseconds
	After time.Duration `json:"after,omitempty"`
	Stack string        `json:"stack,omitempty"` // of a panic
	// it came from a journal: its class was acted on
	Settled bool       `json:"settled,omitempty"`
	Wraps   []*Failure `json:"wraps,omitempty"` // what it wraps
}

// Find gives the first link of the chain, in the order of errors.Is, for which
// ok holds; nil without.
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

// ClassOf gives the first link of the chain that has a class, or nil.
func (f *Failure) ClassOf() *Failure {
	return f.Find(func(f *Failure) bool { return f.Class != ClassNone })
}

// OwnClass is ClassOf without what came from a journal: a workflow that returns
// the error of a step says nothing about its own.
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

// CameFrom says whether the chain has the error that g is, as it came from a journal.
func (f *Failure) CameFrom(g *Failure) bool {
	return f.Find(func(link *Failure) bool { return link.isOf(g) }) != nil
}

// isOf says whether the link is the error that g is, as it came from a journal.
func (f *Failure) isOf(g *Failure) bool {
	return f.Settled && g != nil && f.Message == g.Message && f.Code == g.Code &&
		f.Name == g.Name && f.Type == g.Type
}

// CodeOf is the first code in the chain; empty without.
func (f *Failure) CodeOf() Code {
	if g := f.Find(func(f *Failure) bool { return f.Code != "" }); g != nil {
		return g.Code
	}
	return ""
}

// StackOf is the first stack in the chain; empty without.
func (f *Failure) StackOf() string {
	if g := f.Find(func(f *Failure) bool { return f.Stack != "" }); g != nil {
		return g.Stack
	}
	return ""
}

// clone gives a copy that shares nothing with f.
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
