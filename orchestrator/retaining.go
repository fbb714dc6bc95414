package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"time"
)

// A Retaining is a memory that removes the states of instances that have finished, each after a
// time of its own. The rest of their records stays. What is to be removed is noted in the memory
// itself, in lists under subjects that begin with [DueSubjects]; [Retaining.Sweep] removes it.
type Retaining struct {
	Memory[Record]
	// Keep returns how long the state of an instance is kept after its end: by its final state, for
	// example. Zero removes it at once, and below zero it is kept for ever.
	Keep func(subject string, r Record) time.Duration
	Log  *slog.Logger // nil means slog.Default
}

// DueSubjects is how the subjects of the lists of a [Retaining] begin. No instance has such a
// subject.
const DueSubjects = "perdure:due:"

// There is a list for each hour, in several parts, so that instances that end at once do not wait
// for one lock.
const (
	dueSlot  = time.Hour
	dueParts = 8
)

func dueSubject(at time.Time, part uint32) string {
	return fmt.Sprintf("%s%s:%d", DueSubjects, at.UTC().Format("2006-01-02T15"), part)
}

// Cleanup removes the state, or notes when it is to be removed.
func (r Retaining) Cleanup(ctx context.Context, subject string, c Change[Record],
	m *Metadata) error {
	keep := r.Keep(subject, c.Next)
	switch {
	case keep < 0:
		return nil
	case keep == 0:
		return Deleting{r.Memory}.Cleanup(ctx, subject, c, m)
	}
	part := fnv.New32a()
	_, _ = part.Write([]byte(subject)) // it never fails
	at := time.Now().Add(keep).Truncate(dueSlot).Add(dueSlot)
	if err := r.begin(ctx); err != nil {
		return err
	}
	return r.change(ctx, dueSubject(at, part.Sum32()%dueParts), func(list []string) []string {
		return append(list, subject)
	})
}

// cursor is the subject under which the hour is that is to be swept next.
const cursor = DueSubjects + "next"

// begin sees to it that there is a cursor, before the first list is written.
func (r Retaining) begin(ctx context.Context) error {
	if s, err := r.Read(ctx, cursor, nil); s != nil || err != nil {
		return err
	}
	return r.change(ctx, cursor, func(at []string) []string {
		if len(at) > 0 {
			return at
		}
		return []string{time.Now().UTC().Truncate(dueSlot).Format(time.RFC3339)}
	})
}

// change changes the list of texts under a subject.
func (r Retaining) change(ctx context.Context, subject string, f func([]string) []string) error {
	m := Insist(r.Memory)
	return locked(ctx, m, subject, func(t Token) error {
		last, list, err := r.list(ctx, subject)
		if err != nil {
			return err
		}
		state, err := json.Marshal(f(list))
		if err != nil {
			return err
		}
		return m.Write(ctx, subject, Change[Record]{Record{State: state}, last, t}, nil)
	})
}

func (r Retaining) list(ctx context.Context, subject string) (s *State[Record], list []string,
	err error) {
	if s, err = Insist(r.Memory).Read(ctx, subject, nil); s == nil || err != nil {
		return s, nil, err
	}
	return s, list, json.Unmarshal(s.Value.State, &list)
}

// locked calls f under the lock of a subject.
func locked(ctx context.Context, m Memory[Record], subject string, f func(Token) error) error {
	t, err := m.Lock(ctx, subject, time.Minute, nil)
	if err == nil && t == 0 {
		err = ErrLocked
	}
	if err != nil {
		return err
	}
	defer func() { // if it fails, the time to live frees the lock
		_, _ = m.Unlock(context.WithoutCancel(ctx), subject, t, nil)
	}()
	return f(t)
}

// Sweep removes the states whose time has passed for an hour or two, and returns how many. Call it
// every hour or so, in any process: the hour in between allows clocks that differ. A state that
// cannot be removed is tried again later. After an error, the next call goes on where this one has
// stopped.
func (r Retaining) Sweep(ctx context.Context) (removed int, err error) {
	_, at, err := r.list(ctx, cursor)
	if err != nil || len(at) == 0 {
		return 0, err
	}
	next, err := time.Parse(time.RFC3339, at[0])
	if err != nil {
		return 0, err
	}
	for ; next.Before(time.Now().Add(-dueSlot)); next = next.Add(dueSlot) {
		for part := range uint32(dueParts) {
			n, err := r.remove(ctx, dueSubject(next, part))
			removed += n
			if err != nil {
				return removed, err
			}
		}
		err := r.change(ctx, cursor, func([]string) []string {
			return []string{next.Add(dueSlot).Format(time.RFC3339)}
		})
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// remove removes the states of the subjects in a list, and empties the list.
func (r Retaining) remove(ctx context.Context, list string) (removed int, err error) {
	_, all, err := r.list(ctx, list)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	m := Insist(r.Memory)
	var later []string // what cannot be removed holds up nothing else
	for _, subject := range all {
		err := locked(ctx, m, subject, func(t Token) error {
			return Deleting{r.Memory}.Cleanup(ctx, subject, Change[Record]{Lock: t}, nil)
		})
		if ctx.Err() != nil {
			return removed, ctx.Err()
		}
		if err != nil {
			r.log().WarnContext(ctx, "orchestrator: a state is not removed yet", "subject", subject,
				"error", err)
			later = append(later, subject)
			continue
		}
		removed++
	}
	if len(later) > 0 {
		at := time.Now().Truncate(dueSlot).Add(dueSlot)
		if err := r.change(ctx, dueSubject(at, 0), func(list []string) []string {
			return append(list, later...)
		}); err != nil {
			return removed, err
		}
	}
	return removed, r.change(ctx, list, func(now []string) []string {
		return slices.DeleteFunc(now, func(s string) bool { return slices.Contains(all, s) })
	})
}

func (r Retaining) log() *slog.Logger {
	if r.Log == nil {
		return slog.Default()
	}
	return r.Log
}
