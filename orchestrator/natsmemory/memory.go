package natsmemory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/perdure/perdure/orchestrator"
)

// A Memory is an [orchestrator.Memory] and an [orchestrator.Family] in one bucket. Its methods may
// be called from any goroutine, and by any number of processes. [Open] makes it.
type Memory[T any] struct {
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	stream jetstream.Stream // which the bucket is in
	under  string           // with what the stream's names of keys begin
}

var errBusy = errors.New("others hold its lock, or change it again and again")

// Read returns the state of a subject.
func (m *Memory[T]) Read(ctx context.Context, subject string, _ *orchestrator.Metadata) (
	s *orchestrator.State[T], err error) {
	defer wrap(&err, "read", subject)
	e, err := m.get(ctx, stateKey(hash(subject)))
	if err != nil || e.Version == 0 {
		return nil, err
	}
	s = &orchestrator.State[T]{Version: e.Version}
	if err := json.Unmarshal(e.State, &s.Value); err != nil {
		return nil, err
	}
	return s, nil
}

// Write stores a state. The error is also nats.ErrMaxPayload if the server takes no state so large.
func (m *Memory[T]) Write(ctx context.Context, subject string, c orchestrator.Change[T],
	d *orchestrator.Metadata) (err error) {
	defer wrap(&err, "write", subject)
	state, err := json.Marshal(c.Next)
	if err != nil {
		return err
	}
	before := cmp.Or(c.Prev, &orchestrator.State[T]{}).Version
	_, err = m.change(ctx, subject, func(e *entry) error {
		if err := m.fence(ctx, e, c.Lock); err != nil {
			return err
		}
		if e.Version != before {
			return orchestrator.ErrConflict
		}
		e.Version, e.State = e.Version+1, state
		if err := m.adopt(ctx, e, d); err != nil {
			return err
		}
		return m.roomy(e)
	})
	return err
}

// Lock takes the lock of a subject. After an error, the lock may be taken until its end.
func (m *Memory[T]) Lock(ctx context.Context, subject string, ttl time.Duration,
	_ *orchestrator.Metadata) (t orchestrator.Token, err error) {
	defer wrap(&err, "lock", subject)
	revision, err := m.change(ctx, subject, func(e *entry) error {
		e.TTL = ttl
		switch err := m.fence(ctx, e, e.Token); {
		case err == nil:
			return errBusy
		case errors.Is(err, orchestrator.ErrFenced): // nobody holds it
			return nil
		default:
			return err
		}
	})
	if errors.Is(err, errBusy) {
		return 0, nil
	}
	return orchestrator.Token(revision), err
}

// Unlock ends the lock of that token.
func (m *Memory[T]) Unlock(ctx context.Context, subject string, t orchestrator.Token,
	_ *orchestrator.Metadata) (ok bool, err error) {
	defer wrap(&err, "unlock", subject)
	_, err = m.change(ctx, subject, func(e *entry) error {
		err := m.fence(ctx, e, t)
		e.Until = time.Time{}
		return err
	})
	if errors.Is(err, orchestrator.ErrFenced) {
		return false, nil
	}
	return err == nil, err
}

// Children returns the subjects of the instances of a parent.
func (m *Memory[T]) Children(ctx context.Context, parent string) (all []string, err error) {
	defer wrap(&err, "children of", parent)
	if parent == "" {
		return nil, ctx.Err()
	}
	under := m.under + childKey(parent, "")
	info, err := m.stream.Info(ctx, jetstream.WithSubjectFilter(under+"*"))
	if err != nil {
		return nil, err
	}
	for name := range info.State.Subjects {
		e, err := m.get(ctx, stateKey(strings.TrimPrefix(name, under)))
		if err != nil {
			return nil, err
		}
		if e.Version > 0 && e.Parent == parent {
			all = append(all, e.Subject)
		}
	}
	slices.Sort(all)
	return all, nil
}

// fence returns ErrFenced unless the lock of that token is held, by the clock of the server.
func (m *Memory[T]) fence(ctx context.Context, e *entry, t orchestrator.Token) error {
	if t != e.Token || e.Until.IsZero() {
		return orchestrator.ErrFenced
	}
	now, err := m.now(ctx)
	if err == nil && !now.Before(e.Until) {
		err = orchestrator.ErrFenced
	}
	return err
}

// wrap adds to an error what has failed.
func wrap(err *error, what, subject string) {
	if *err != nil {
		*err = fmt.Errorf("natsmemory: %s %s: %w", what, subject, *err)
	}
}
