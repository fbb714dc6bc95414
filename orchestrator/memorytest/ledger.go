package memorytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure/orchestrator"
)

// A ledger has what holders were told of their writes. A state is a list of marks, and each write
// adds one.
type ledger struct {
	mu    sync.Mutex
	wrote map[string]place // by mark
}

// A place is where a mark must be: the mark of the first version is at 1. At 0 it must be nowhere.
type place struct {
	subject string
	at      int64
}

// A holder is one of those that write.
type holder struct {
	handle
	*ledger
	number  int
	locks   int // that it has had
	written int
}

// loses has holders in parallel write marks to several subjects, each write under the lock. Each
// holder keeps one lock for too long. A holder whose tries have run out ends earlier.
func loses(ctx context.Context, w World) error {
	const holders, writes, tries = 6, 6, 500
	h, l := w.handle(ctx), &ledger{wrote: map[string]place{}}
	subjects := []string{"a", "b", "c"}
	errs := make([]error, holders)
	var group sync.WaitGroup
	for i := range holders {
		group.Go(func() {
			me := &holder{handle: h.beside(), ledger: l, number: i}
			for n := 0; n < tries && me.written < writes && errs[i] == nil; n++ {
				errs[i] = me.mark(subjects[rand.IntN(len(subjects))])
			}
		})
	}
	group.Wait()
	err := errors.Join(errs...)
	for _, subject := range subjects {
		err = errors.Join(err, l.check(h, subject))
	}
	return err
}

// mark adds a mark to a subject, if it gets the lock.
func (h *holder) mark(subject string) error {
	t, err := h.Lock(h.ctx, subject, h.TTL, nil)
	if t == 0 || err != nil {
		h.Sleep(h.TTL / 100)
		return err
	}
	h.locks++
	c := orchestrator.Change[Value]{Lock: t}
	if c.Prev, err = h.Read(h.ctx, subject, nil); err != nil {
		return err
	}
	mark, at := fmt.Sprintf("%d/%d", h.number, h.locks), int64(1)
	if c.Next.Text = mark; c.Prev != nil {
		c.Next.Text, at = c.Prev.Value.Text+" "+mark, c.Prev.Version+1
	}
	if h.locks == h.number+1 { // each at another time
		h.Sleep(h.TTL * 3 / 2)
	}
	err = h.Write(h.ctx, subject, c, nil)
	switch {
	case err == nil:
		h.written++
	case errors.Is(err, orchestrator.ErrFenced), errors.Is(err, orchestrator.ErrConflict):
		at, err = 0, nil
	}
	h.enter(mark, place{subject, at})
	_, failed := h.Unlock(h.ctx, subject, t, nil)
	return errors.Join(err, failed)
}

func (l *ledger) enter(mark string, p place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrote[mark] = p
}

// check fails unless the state of a subject has each mark that was written, once and in its place,
// and no other.
func (l *ledger) check(h handle, subject string) error {
	s, err := h.Read(h.ctx, subject, nil)
	if err != nil {
		return err
	}
	if s == nil {
		s = &orchestrator.State[Value]{}
	}
	marks := strings.Fields(s.Value.Text)
	if s.Version != int64(len(marks)) {
		return fmt.Errorf("version %d of %q has %d marks", s.Version, subject, len(marks))
	}
	for i, mark := range marks {
		if want := (place{subject, int64(i) + 1}); l.wrote[mark] != want {
			return fmt.Errorf("write %d of %q is %s, of which its writer was told %v", i+1, subject,
				mark, l.wrote[mark])
		}
	}
	for mark, at := range l.wrote {
		if at.at > 0 && at.subject == subject && !slices.Contains(marks, mark) {
			return fmt.Errorf("the write %s of %q is lost: the state has %s", mark, subject,
				s.Value.Text)
		}
	}
	return nil
}
