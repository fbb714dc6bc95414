// Package world is the outside of a torture: it records every call of the steps, and knows what an
// operator has mended. It may be a process of its own.
package world

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure/internal/torture/play"
)

// An Entry is one recorded call.
type Entry struct {
	play.Call
	Gave int64 // the number that the call got
	At   time.Time
}

// A Ledger is a world in this process. The zero value is empty; it is safe for
// concurrent use.
type Ledger struct {
	Write func(Entry) error // writes an entry elsewhere; nil keeps it here

	mu      sync.Mutex
	last    int64
	entries []Entry
	mended  map[string]bool
}

// Call records a call.
func (l *Ledger) Call(_ context.Context, c play.Call) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e := Entry{c, l.last, time.Now()}
	if l.Write != nil {
		return l.last, l.Write(e)
	}
	l.entries = append(l.entries, e)
	return l.last, nil
}

// Mended reports whether a label was mended.
func (l *Ledger) Mended(_ context.Context, label string) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mended[label], nil
}

// Mend makes the calls with one of the labels succeed from now on.
func (l *Ledger) Mend(labels ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mended == nil {
		l.mended = map[string]bool{}
	}
	for _, label := range labels {
		l.mended[label] = true
	}
	return nil
}

// Entries returns all calls so far, in their order.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}
