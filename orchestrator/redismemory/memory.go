package redismemory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/perdure/perdure/orchestrator"
)

// Options are the settings of a [Memory].
type Options struct {
	// Prefix begins each key. Memories with one prefix are one memory, so each kind of state needs
	// its own. The default is "orchestration:".
	Prefix string
	// TTL is how long a state is kept after the end of its instance; 0 means for ever. Redis
	// removes it then with all that the memory knows of the subject: an event that comes again
	// later begins a new instance.
	TTL time.Duration
}

// A Memory is an [orchestrator.Memory], [orchestrator.Family] and [orchestrator.Cleaner] on Redis.
// It may be used by many goroutines.
type Memory[T any] struct {
	client redis.UniversalClient
	prefix string
	ttl    time.Duration
}

// New returns a memory that uses a client. It sends nothing yet. The client stays the caller's, who
// closes it.
func New[T any](client redis.UniversalClient, o Options) *Memory[T] {
	if o.Prefix == "" {
		o.Prefix = "orchestration:"
	}
	return &Memory[T]{client, o.Prefix, o.TTL}
}

// key returns the key of a subject. The subject is a hash tag, which alone decides the slot of a
// cluster. It is escaped, because a brace in it would end the tag, and with other prefixes two
// subjects could have one key. The usual names can still be read.
func (m *Memory[T]) key(subject string) string {
	return m.prefix + "{" + url.PathEscape(subject) + "}"
}

// children returns the key of the set of a parent's children. It may name subjects without a state.
func (m *Memory[T]) children(parent string) string { return m.key(parent) + ":children" }

// Read returns the state of a subject; nil if nothing is stored.
func (m *Memory[T]) Read(ctx context.Context, subject string, _ *orchestrator.Metadata) (
	*orchestrator.State[T], error) {
	found, err := m.run(ctx, read, m.key(subject)).StringSlice()
	if err != nil || len(found) == 0 {
		return nil, failed("read", subject, err)
	}
	s := &orchestrator.State[T]{}
	_, err = fmt.Sscan(found[1], &s.Version)
	if err := errors.Join(err, json.Unmarshal([]byte(found[0]), &s.Value)); err != nil {
		return nil, failed("read", subject, err)
	}
	return s, nil
}

// Write stores a state, or changes nothing. Its errors are those of [orchestrator.Memory].
func (m *Memory[T]) Write(ctx context.Context, subject string, c orchestrator.Change[T],
	meta *orchestrator.Metadata) error {
	data, err := json.Marshal(c.Next)
	if err != nil {
		return failed("write", subject, err)
	}
	before, parent := int64(0), ""
	if c.Prev != nil {
		before = c.Prev.Version
	}
	if meta != nil {
		parent, _ = meta.Parent.Name()
	}
	send := func(listed bool) (string, error) {
		return m.run(ctx, write, m.key(subject), int64(c.Lock), before, before+1, data, parent,
			listed).Text()
	}
	verdict, err := send(false)
	if verdict == "list" {
		// The set is in another slot, and cannot be a part of the write. It comes first: a crash
		// then leaves a name without a state, and not a child that nobody finds.
		if err = m.run(ctx, list, m.children(parent), subject).Err(); err == nil {
			verdict, err = send(true)
		}
	}
	switch verdict {
	case "fenced":
		err = orchestrator.ErrFenced
	case "conflict":
		err = orchestrator.ErrConflict
	}
	return failed("write", subject, err)
}

// Cleanup sets the time to live of a state whose instance has ended. The next Write ends it.
func (m *Memory[T]) Cleanup(ctx context.Context, subject string, c orchestrator.Change[T],
	_ *orchestrator.Metadata) error {
	if m.ttl <= 0 {
		return nil
	}
	kept, err := m.run(ctx, expire, m.key(subject), int64(c.Lock),
		max(m.ttl.Milliseconds(), 1)).Bool()
	if err == nil && !kept {
		err = orchestrator.ErrFenced
	}
	return failed("clean up", subject, err)
}

// Lock takes the lock of a subject; it returns 0 if somebody holds it.
func (m *Memory[T]) Lock(ctx context.Context, subject string, ttl time.Duration,
	_ *orchestrator.Metadata) (orchestrator.Token, error) {
	t, err := m.run(ctx, lock, m.key(subject), ttl.Microseconds()).Int64()
	return orchestrator.Token(t), failed("lock", subject, err)
}

// Unlock ends a lock; it returns false if that lock is not held any more.
func (m *Memory[T]) Unlock(ctx context.Context, subject string, t orchestrator.Token,
	_ *orchestrator.Metadata) (bool, error) {
	freed, err := m.run(ctx, unlock, m.key(subject), int64(t)).Bool()
	return freed, failed("unlock", subject, err)
}

// Children returns the subjects of the instances of a parent that have a state, sorted. It looks at
// each of them, all at once.
func (m *Memory[T]) Children(ctx context.Context, parent string) ([]string, error) {
	listed, err := m.run(ctx, members, m.children(parent)).StringSlice()
	if err != nil {
		return nil, failed("children of", parent, err)
	}
	answers, err := within(ctx, func() ([]redis.Cmder, error) {
		return m.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, subject := range listed {
				p.Eval(ctx, isOf, []string{m.key(subject)}, parent)
			}
			return nil
		})
	})
	var all []string
	for i, a := range answers {
		if is, _ := a.(*redis.Cmd).Bool(); is {
			all = append(all, listed[i])
		}
	}
	slices.Sort(all)
	return all, failed("children of", parent, err)
}

// failed returns nil, or the error with what has failed.
func failed(what, subject string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redismemory: %s %s: %w", what, subject, err)
}
