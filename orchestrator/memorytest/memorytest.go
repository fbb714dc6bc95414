// Package memorytest proves that a memory keeps the contract of [orchestrator.Memory]:
//
//	func TestMine(t *testing.T) {
//		memorytest.Run(t, func(t *testing.T) memorytest.World {
//			db := open(t)
//			return memorytest.World{
//				Open: func() orchestrator.Memory[memorytest.Value] { return New(db) },
//			}
//		})
//	}
//
// The check of an application's memory lasts about twenty seconds, since locks have to pass.
// [RunOrder] checks an orchestrator over it, whose process dies at each of its calls.
package memorytest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure/orchestrator"
)

// A Value is the state of the instances.
type Value struct {
	Text  string
	Count int
	Tags  map[string]string
}

// A World is a new place where a memory keeps what it has.
type World struct {
	// Open returns a memory of that place, each time as another process would have it.
	Open func() orchestrator.Memory[Value]
	// TTL is a time to live that this memory allows. Zero means a second.
	TTL time.Duration
	// Sleep lets time pass. Nil means time.Sleep.
	Sleep func(time.Duration)
	// Seed makes the random calls those of an error that has named it. Zero means others each time.
	Seed uint64
}

// A Case is a clause of the contract.
type Case struct {
	Name string
	// Check returns an error that says how the memory breaks the clause. On a machine that is so
	// slow that locks pass meanwhile, it may be wrong; [Run] knows.
	Check func(ctx context.Context, w World) error
	sure  bool // Check is never wrong
}

// Run checks each clause in a world of its own. If a clause fails, and the calls have taken so long
// that locks may have passed, it is checked again in another world, with longer locks if the world
// has no TTL.
func Run(t *testing.T, begin func(t *testing.T) World) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.judge(t.Context(), t.Logf, func() World { return begin(t) }); err != nil {
				t.Error(err)
			}
		})
	}
}

// judge checks a clause, and again as long as nobody knows.
func (c Case) judge(ctx context.Context, logf func(string, ...any), begin func() World) error {
	const tries = 5
	for n := range tries {
		w := begin()
		free := w.TTL == 0
		if w = w.whole(); free {
			w.TTL <<= n
		}
		var slept atomic.Int64
		sleep := w.Sleep
		w.Sleep = func(d time.Duration) {
			slept.Add(int64(d))
			sleep(d)
		}
		began := time.Now()
		err := c.Check(ctx, w)
		took := time.Since(began) - time.Duration(slept.Load())
		if err == nil || c.sure || took < w.TTL/4 || n == tries-1 {
			return err
		}
		logf("the calls took %v, so it is checked again: %v", took, err)
	}
	return nil
}

// whole returns the world with what it has left out.
func (w World) whole() World {
	if w.TTL == 0 {
		w.TTL = time.Second
	}
	if w.Sleep == nil {
		w.Sleep = time.Sleep
	}
	return w
}

// Cases returns the clauses of the contract.
func Cases() []Case {
	return []Case{
		{"a subject that nobody has written has no state", readsNothing, false},
		{"what was written is read, with its version", readsBack, false},
		{"subjects are apart, whatever their names", apart, false},
		{"a write compares with the state before", compares, false},
		{"a lock has one holder", excludes, false},
		{"a lock passes", passes, false},
		{"a holder whose lock has passed writes nothing", fences, false},
		{"a write without the lock is refused", needsLock, false},
		{"a token that was given up frees no other lock", freesItsOwn, false},
		{"many holders lose no change", loses, true},
		{"random calls have the answers of one memory", histories, true},
		{"metadata may be anything", metadata, false},
		{"a call whose context has ended fails", ends, false},
		{"a memory that is a family finds the children of a parent", finds, false},
	}
}

// A handle is a memory in a check. After an error it does nothing more.
type handle struct {
	World
	orchestrator.Memory[Value]
	ctx context.Context
}

func (w World) handle(ctx context.Context) handle {
	w = w.whole()
	return handle{w, w.Open(), ctx}
}

// beside returns a handle as of another process.
func (h handle) beside() handle { return h.handle(h.ctx) }

// lock takes a lock that must be free.
func (h handle) lock(subject string) (orchestrator.Token, error) {
	t, err := h.Lock(h.ctx, subject, h.TTL, nil)
	if err == nil && t == 0 {
		err = fmt.Errorf("the lock of %q is held, and should be free", subject)
	}
	return t, err
}

// is fails unless the state of a subject has that text and version.
func (h handle) is(subject, text string, version int64) error {
	s, err := h.Read(h.ctx, subject, nil)
	switch {
	case err != nil:
		return err
	case s == nil && version == 0:
		return nil
	case s == nil:
		return fmt.Errorf("%q has no state, and should have %q", subject, text)
	case s.Value.Text != text || s.Version != version:
		return fmt.Errorf("%q has %q, version %d, and should have %q, version %d", subject,
			s.Value.Text, s.Version, text, version)
	}
	return nil
}

// write reads, and writes a text, under a token.
func (h handle) write(subject, text string, t orchestrator.Token) error {
	prev, err := h.Read(h.ctx, subject, nil)
	if err != nil {
		return err
	}
	return h.Write(h.ctx, subject, orchestrator.Change[Value]{
		Next: Value{Text: text}, Prev: prev, Lock: t,
	}, nil)
}

// refuses fails unless err is the other error.
func refuses(err, want error, what string) error {
	switch {
	case errors.Is(err, want):
		return nil
	case err == nil:
		return fmt.Errorf("%s is allowed, and should be refused: %w", what, want)
	}
	return fmt.Errorf("%s: the error is %w, and should be: %s", what, err, want.Error())
}

// all returns the first error of steps that are done one after the other.
func all(steps ...func() error) error {
	for _, s := range steps {
		if err := s(); err != nil {
			return err
		}
	}
	return nil
}

func readsNothing(ctx context.Context, w World) error {
	h := w.handle(ctx)
	_, err := h.lock("a") // a lock is no state
	return errors.Join(err, h.is("a", "", 0))
}

func readsBack(ctx context.Context, w World) error {
	h := w.handle(ctx)
	t, err := h.lock("a")
	if err != nil {
		return err
	}
	large := strings.Repeat("é\x01", 500_000)
	wild := Value{"\"'\\ \u2028 世界 \t", math.MinInt / 2, map[string]string{"": "x", "k": ""}}
	return all(
		func() error { return h.write("a", "first", t) },
		func() error { return h.beside().is("a", "first", 1) },
		func() error { return h.write("a", large, t) },
		func() error { return h.beside().is("a", large, 2) },
		func() error { return h.write("a", "", t) },
		func() error { return h.beside().is("a", "", 3) },
		func() error {
			return h.Write(ctx, "a", orchestrator.Change[Value]{
				Next: wild, Prev: &orchestrator.State[Value]{Version: 3}, Lock: t,
			}, nil)
		},
		func() error {
			s, err := h.beside().Read(ctx, "a", nil)
			if err == nil && (s == nil || fmt.Sprint(s.Value) != fmt.Sprint(wild)) {
				err = fmt.Errorf("%v was written, and %v is read", wild, s)
			}
			return err
		},
	)
}

func apart(ctx context.Context, w World) error {
	h := w.handle(ctx)
	names := []string{
		"a", "A", "a/b", "a:b", "a*b", "a.b", "a>b", " a", "{a}", "世界", "%41", "a\n",
		strings.Repeat("long", 60),
	}
	for _, n := range names {
		t, err := h.lock(n)
		if err == nil {
			err = h.write(n, "of "+n, t)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", n, err)
		}
	}
	for _, n := range names {
		if err := h.beside().is(n, "of "+n, 1); err != nil {
			return err
		}
	}
	return nil
}

func compares(ctx context.Context, w World) error {
	h := w.handle(ctx)
	t, err := h.lock("a")
	if err != nil {
		return err
	}
	write := func(text string, version int64) error {
		c := orchestrator.Change[Value]{Next: Value{Text: text}, Lock: t}
		if version > 0 {
			c.Prev = &orchestrator.State[Value]{Version: version}
		}
		return h.Write(ctx, "a", c, nil)
	}
	return all(
		func() error {
			return refuses(write("x", 1), orchestrator.ErrConflict, "a second state alone")
		},
		func() error { return write("one", 0) },
		func() error {
			return refuses(write("x", 0), orchestrator.ErrConflict, "a first state beside another")
		},
		func() error { return write("two", 1) },
		func() error {
			return refuses(write("x", 1), orchestrator.ErrConflict, "a write after an old state")
		},
		func() error {
			return refuses(write("x", 3), orchestrator.ErrConflict, "a write after a later state")
		},
		func() error { return h.beside().is("a", "two", 2) },
	)
}

func excludes(ctx context.Context, w World) error {
	h := w.handle(ctx)
	first, err := h.lock("a")
	if err != nil {
		return err
	}
	for _, other := range []handle{h, h.beside()} {
		if t, err := other.Lock(ctx, "a", h.TTL, nil); err != nil || t != 0 {
			return fmt.Errorf("a lock that is held is taken: token %d, %w", t, err)
		}
	}
	if ok, err := h.Unlock(ctx, "a", first, nil); err != nil || !ok {
		return fmt.Errorf("the lock is not freed: %v, %w", ok, err)
	}
	second, err := h.beside().lock("a")
	if err == nil && second <= first {
		err = fmt.Errorf("token %d follows token %d", second, first)
	}
	return err
}

func passes(ctx context.Context, w World) error {
	h := w.handle(ctx)
	first, err := h.lock("a")
	if err != nil {
		return err
	}
	h.Sleep(h.TTL / 2)
	if t, err := h.beside().Lock(ctx, "a", h.TTL, nil); err != nil || t != 0 {
		return fmt.Errorf("the lock has passed too early: token %d, %w", t, err)
	}
	h.Sleep(h.TTL)
	second, err := h.beside().lock("a")
	if err == nil && second <= first {
		err = fmt.Errorf("token %d follows token %d", second, first)
	}
	return err
}

func fences(ctx context.Context, w World) error {
	h := w.handle(ctx)
	old, err := h.lock("a")
	if err == nil {
		err = h.write("a", "one", old)
	}
	if err != nil {
		return err
	}
	h.Sleep(h.TTL + h.TTL/2)
	late := refuses(h.write("a", "x", old), orchestrator.ErrFenced, "a late write")
	other := h.beside()
	t, err := other.lock("a")
	return errors.Join(late, err, all(
		func() error { return other.write("a", "two", t) },
		func() error {
			return refuses(h.write("a", "x", old), orchestrator.ErrFenced, "another lock")
		},
		func() error { return other.write("a", "three", t) },
		func() error { return h.is("a", "three", 3) },
	))
}

func needsLock(ctx context.Context, w World) error {
	h := w.handle(ctx)
	none := refuses(h.write("a", "x", 0), orchestrator.ErrFenced, "a write without a lock")
	t, err := h.lock("a")
	if err != nil {
		return err
	}
	return errors.Join(none, all(
		func() error {
			return refuses(h.write("a", "x", 0), orchestrator.ErrFenced, "no token")
		},
		func() error {
			return refuses(h.write("a", "x", t+1), orchestrator.ErrFenced, "a later token")
		},
		func() error {
			if ok, err := h.Unlock(ctx, "a", t, nil); err != nil || !ok {
				return fmt.Errorf("the lock is not freed: %v, %w", ok, err)
			}
			return refuses(h.write("a", "x", t), orchestrator.ErrFenced, "a write after the unlock")
		},
		func() error { return h.is("a", "", 0) },
	))
}

func freesItsOwn(ctx context.Context, w World) error {
	h := w.handle(ctx)
	old, err := h.lock("a")
	if err != nil {
		return err
	}
	h.Sleep(h.TTL + h.TTL/2)
	other := h.beside()
	if _, err := other.lock("a"); err != nil {
		return err
	}
	for _, t := range []orchestrator.Token{old, 0} {
		if ok, err := h.Unlock(ctx, "a", t, nil); err != nil || ok {
			return fmt.Errorf("the unlock of token %d gives %v, %w", t, ok, err)
		}
	}
	if t, err := h.Lock(ctx, "a", h.TTL, nil); err != nil || t != 0 {
		return fmt.Errorf("the lock of another holder is taken: token %d, %w", t, err)
	}
	if ok, err := h.Unlock(ctx, "never locked", 1, nil); err != nil || ok {
		return fmt.Errorf("the unlock of a subject without a lock gives %v, %w", ok, err)
	}
	return nil
}

func metadata(ctx context.Context, w World) error {
	h := w.handle(ctx)
	for i, m := range []*orchestrator.Metadata{
		{}, {Parent: orchestrator.None, Initiator: orchestrator.To("i\x00"), Source: "s"},
		{Subject: "a", Parent: orchestrator.To("p"), Initiator: orchestrator.Pending},
	} {
		t, err := h.Lock(ctx, "a", h.TTL, m)
		if err != nil || t == 0 {
			return fmt.Errorf("metadata %d: token %d, %w", i, t, err)
		}
		prev, err := h.Read(ctx, "a", m)
		if err == nil {
			err = h.Write(ctx, "a", orchestrator.Change[Value]{Prev: prev, Lock: t}, m)
		}
		if ok, e := h.Unlock(ctx, "a", t, m); err != nil || e != nil || !ok {
			return fmt.Errorf("metadata %d: %w", i, errors.Join(err, e))
		}
	}
	return h.is("a", "", 3)
}

func ends(ctx context.Context, w World) error {
	h := w.handle(ctx)
	t, err := h.lock("a")
	if err != nil {
		return err
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, e1 := h.Read(over, "a", nil)
	e2 := h.Write(over, "a", orchestrator.Change[Value]{Lock: t}, nil)
	_, e3 := h.Lock(over, "b", h.TTL, nil)
	_, e4 := h.Unlock(over, "a", t, nil)
	for i, err := range []error{e1, e2, e3, e4} {
		if err == nil {
			return fmt.Errorf("call %d works after the end of its context", i+1)
		}
	}
	return h.is("a", "", 0)
}

// finds checks a memory that is a Family.
func finds(ctx context.Context, w World) error {
	h := w.handle(ctx)
	if _, is := h.Memory.(orchestrator.Family); !is {
		return nil
	}
	parents := map[string]string{ // by subject
		"c": "a", "b": "a", "b/c": "a", "{a}*": "b", "a.x": "", "a": "",
	}
	for subject, parent := range parents {
		m := &orchestrator.Metadata{Subject: subject, Parent: orchestrator.To(parent)}
		t, err := h.Lock(ctx, subject, h.TTL, m)
		if err != nil || t == 0 {
			return fmt.Errorf("lock of %q: token %d, %w", subject, t, err)
		}
		for version := range int64(2) {
			c := orchestrator.Change[Value]{Lock: t}
			if version > 0 {
				c.Prev = &orchestrator.State[Value]{Version: version}
			}
			if err := h.Write(ctx, subject, c, m); err != nil {
				return err
			}
		}
	}
	m := &orchestrator.Metadata{Parent: orchestrator.To("a")}
	if _, err := h.Lock(ctx, "locked only", h.TTL, m); err != nil {
		return err
	}
	other, _ := h.beside().Memory.(orchestrator.Family)
	for parent, want := range map[string]string{
		"a": "[b b/c c]", "b": "[{a}*]", "c": "[]", "": "[]", "*": "[]",
	} {
		got, err := other.Children(ctx, parent)
		if err == nil && fmt.Sprint(got) != want {
			err = fmt.Errorf("the children of %q are %v, and should be %s", parent, got, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
