package world

import (
	"context"
	"sync"

	"github.com/perdure/perdure"
)

// A Subscriber keeps the events that it receives.
type Subscriber struct {
	mu   sync.Mutex
	Told []perdure.Event
	// Do handles the n-th call, from 1. If it is nil, every event is accepted.
	Do func(ctx context.Context, n int, e perdure.Event) error
}

// Take receives an event; it is for Options.Publisher.
func (s *Subscriber) Take(ctx context.Context, e perdure.Event) error {
	s.mu.Lock()
	s.Told = append(s.Told, e)
	n, do := len(s.Told), s.Do
	s.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(ctx, n, e)
}

// Types returns the types of the events in the order of the calls.
func (s *Subscriber) Types() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, e := range s.Told {
		out = append(out, e.Type)
	}
	return out
}
