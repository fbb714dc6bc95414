package operators

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// Hands have steps that record their success, and that fail while they are broken.
type hands struct {
	mu     sync.Mutex
	done   []string          // the names of the steps that succeeded, in order
	keys   map[string]string // of the last execution of each
	broken map[string]bool
}

func newHands(broken ...string) *hands {
	s := &hands{keys: map[string]string{}}
	s.breaks(broken...)
	return s
}

// breaks makes those steps fail, and no others.
func (s *hands) breaks(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = map[string]bool{}
	for _, n := range names {
		s.broken[n] = true
	}
}

func (s *hands) step(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keys[name] = perdure.IdempotencyKey(ctx)
		if s.broken[name] {
			return "", fmt.Errorf("%s is broken", name)
		}
		s.done = append(s.done, name)
		return name, nil
	}
}

// did returns the steps that succeeded since its last call.
func (s *hands) did() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := s.done
	s.done = nil
	return done
}

// order is a workflow that executes those steps in a row.
func (s *hands) order(opts ...perdure.WorkflowOption) *perdure.Workflow[int, string] {
	return perdure.Define("order", func(ctx context.Context, n int) (string, error) {
		out := fmt.Sprint(n)
		for _, name := range []string{"reserve", "charge", "ship"} {
			text, err := perdure.Step(ctx, name, s.step(name))
			if err != nil {
				return "", fmt.Errorf("order: %w", err)
			}
			out += " " + text
		}
		return out, nil
	}, append(opts, perdure.NoRetry)...)
}

// ends waits for a run to end with an error that has a text, or without one.
func ends[O any](t testing.TB, run *perdure.Run[O], text string) O {
	t.Helper()
	// otherwise a test of a run that hangs goes on for ever, in virtual time
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Hour)
	defer cancel()
	out, err := run.Result(ctx)
	if text == "" && err != nil ||
		text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
		t.Fatalf("it ended with %v, want %q", err, text)
	}
	return out
}

// retry retries a run and returns the new one, typed.
func retry[I, O any](w *world.World, wf *perdure.Workflow[I, O], id string) *perdure.Run[O] {
	w.T.Helper()
	raw, err := w.Engine.Retry(w.T.Context(), id)
	if err != nil {
		w.T.Fatal(err)
	}
	run, err := wf.Get(w.T.Context(), w.Engine, raw.RunID())
	if err != nil {
		w.T.Fatal(err)
	}
	return run
}

// spec: P-4
func TestRetryGoesOnFromTheFailedStep(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHands("charge")
				order := s.order()
				w := world.New(t, order)
				defer func() { w.End() }()
				old := world.Start(w, order, 7, perdure.ID("ord-1"), perdure.Headers{"trace": "1"},
					perdure.Attributes{"tier": "gold"})
				ends(t, old, "charge is broken")
				key := s.keys["charge"]
				s.breaks("ship")
				s.did()
				time.Sleep(time.Second)
				again := retry(w, order, "ord-1")
				if crash {
					synctest.Wait()
					w.Crash()
					s.breaks("ship")
					again, _ = order.Get(t.Context(), w.Engine, again.RunID())
				}
				ends(t, again, "ship is broken")
				if did := s.did(); !slices.Equal(did, []string{"charge"}) ||
					s.keys["charge"] != key {
					t.Errorf("the retried run did %v, charge with key %s, want charge with %s", did,
						s.keys["charge"], key)
				}
				s.breaks()
				last := retry(w, order, "ord-1")
				if out := ends(t, last, ""); out != "7 reserve charge ship" {
					t.Errorf("its output is %q", out)
				}
				if did := s.did(); !slices.Equal(did, []string{"ship"}) ||
					s.keys["ship"] != old.RunID()+"/ship" {
					t.Errorf("the run that was retried twice did %v, with key %s", did,
						s.keys["ship"])
				}
				d, err := w.Engine.Describe(t.Context(), last.RunID())
				if err != nil || string(d.State.Origin.Run) != again.RunID() ||
					d.Head.WorkflowID != "ord-1" ||
					!d.State.Started.Equal(d.Head.Created) || d.State.Headers["trace"] != "1" ||
					d.State.Attributes["tier"] != "gold" {
					t.Errorf("it is %+v, %v", d, err)
				}
				w.History(last.RunID())
				found, _, err := w.Engine.List(t.Context(),
					perdure.Query{Attributes: map[string]string{"tier": "gold"}})
				if err != nil || len(found) != 3 {
					t.Errorf("by its attribute are found %v, %v", found, err)
				}
				if differs := w.Seen(observe.ReplayDiffered); len(differs) > 0 {
					t.Errorf("observers are told that it differs: %v", differs)
				}
			})
		})
	}
}

// spec: P-4
func TestRetryIsForRunsThatEndedBadly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order()
		other := perdure.Define("other", func(ctx context.Context, d time.Duration) (int, error) {
			return 1, perdure.Sleep(ctx, d)
		})
		w := world.New(t, order, other)
		defer w.End()
		state := func(id string, want journal.Code) {
			t.Helper()
			_, err := w.Engine.Retry(t.Context(), id)
			world.CodeIs(t, err, want)
		}
		state("nobody", journal.CodeNotFound)
		state("no name", journal.CodeInvalid)
		open := world.Start(w, other, time.Hour, perdure.ID("open"))
		state("open", journal.CodeWrongState)
		ends(t, open, "")
		state("open", journal.CodeWrongState)

		old := world.Start(w, order, 1, perdure.ID("ord-1"))
		ends(t, old, "broken")
		id := old.RunID()
		held := world.Start(w, other, time.Hour, perdure.ID("ord-1"))
		state(id, journal.CodeConflict) // another workflow's run has the ID
		ends(t, held, "")
		state(id, journal.CodeWrongState)

		ends(t, world.Start(w, order, 1, perdure.ID("ord-2")), "broken")
		synctest.Wait()
		time.Sleep(time.Second)
		first, err := w.Engine.Get(t.Context(), "ord-2")
		if err != nil {
			t.Fatal(err)
		}
		s.breaks()
		later := world.Start(w, order, 1, perdure.ID("ord-2"), perdure.Dedup(0))
		ends(t, later, "")
		// a later run of its own workflow has ended
		state(first.RunID(), journal.CodeWrongState)
	})
}

// spec: P-4
func TestARunIsRetriedByOneRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order()
		w := world.New(t, order)
		defer w.End()
		old := world.Start(w, order, 1, perdure.ID("ord-1"))
		ends(t, old, "broken")
		var wg sync.WaitGroup
		var mu sync.Mutex
		runs, made := map[string]int{}, 0
		for range 8 {
			wg.Go(func() {
				run, err := w.Engine.Retry(t.Context(), old.RunID())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if runs[run.RunID()]++; run.New() {
					made++
				}
			})
		}
		wg.Wait()
		if len(runs) != 1 || made != 1 {
			t.Errorf("eight retries made %d runs: %v", made, runs)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		second, err := w.Engine.Get(t.Context(), "ord-1") // which has failed as well
		if err != nil {
			t.Fatal(err)
		}
		third := retry(w, order, second.RunID())
		ends(t, third, "broken")
		for old, want := range map[string]string{
			old.RunID():    second.RunID(),
			second.RunID(): third.RunID(),
		} {
			got, err := w.Engine.Retry(t.Context(), string(old))
			if err != nil || got.RunID() != string(want) || got.New() {
				t.Errorf("another retry of %s gives %v, %v; want %s", old, got, err, want)
			}
		}
	})
}

// An intruder is a store in which something else happens after a run was found, or after its
// journal was read.
type intruder struct {
	store.Store
	found, read func()
}

func (m *intruder) Find(ctx context.Context, f store.Filter) ([]journal.Head, journal.Cursor,
	error) {
	heads, next, err := m.Store.Find(ctx, f)
	if do := m.found; do != nil && f.Newest {
		m.found = nil
		do()
	}
	return heads, next, err
}

func (m *intruder) Load(ctx context.Context, run journal.Number, r store.Range) ([]journal.Entry,
	error) {
	entries, err := m.Store.Load(ctx, run, r)
	if do := m.read; do != nil {
		m.read = nil
		do()
	}
	return entries, err
}

// Two retries that have both seen the failed run as the last one make one run, also if that has
// ended by then, or ends at the same time, and the dead letter counts one retry.
//
// spec: P-4
func TestRetriesThatMeetMakeOneRun(t *testing.T) {
	for _, later := range []time.Duration{0, time.Minute} {
		t.Run(later.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHands("charge")
				order := s.order(deadletter.Automatic(true))
				w := world.New(t, order)
				defer w.End()
				old := world.Start(w, order, 1, perdure.ID("ord-1"))
				ends(t, old, "broken")
				time.Sleep(later)
				var first *perdure.Run[json.RawMessage]
				m := &intruder{Store: w.DB}
				c, err := perdure.NewClient(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				id := old.RunID()
				m.found = func() {
					if first, err = w.Engine.Retry(t.Context(), id); err != nil {
						t.Error(err)
					}
					synctest.Wait()
					time.Sleep(later)
				}
				second, err := c.Retry(t.Context(), id)
				if err != nil || second.RunID() != first.RunID() || second.New() {
					t.Errorf("the second gives %v, %v; the first has made %s", second, err,
						first.RunID())
				}
				if l := letter(w); l.Retries != 1 {
					t.Errorf("the letter is %+v", l)
				}
			})
		})
	}
}

// A run that is removed while it is retried is not found any more.
//
// spec: P-3, P-4
func TestRetryOfARunThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		order := newHands("charge").order(perdure.Retention{Period: time.Hour})
		w := world.New(t, order)
		defer w.End()
		ends(t, world.Start(w, order, 1, perdure.ID("ord-1"), perdure.Dedup(0)), "broken")
		time.Sleep(59 * time.Minute)
		m := &intruder{Store: w.DB, read: func() { time.Sleep(2 * time.Minute) }}
		c, err := perdure.NewClient(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Retry(t.Context(), "ord-1")
		world.CodeIs(t, err, journal.CodeNotFound)
		if left := w.Chain("ord-1"); len(left) != 0 {
			t.Errorf("there are %v", left)
		}
	})
}

// A run of a chain is retried: the information on its predecessor stays, and the chain goes on.
//
// spec: P-4, R-25
func TestRetryWithinAChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands()
		loop := perdure.Define("loop", func(ctx context.Context, n int) (string, error) {
			info, err := perdure.InfoOf(ctx)
			if err != nil {
				return "", err
			}
			if _, err := perdure.Step(ctx, "work", s.step(fmt.Sprint("work", n)),
				perdure.NoRetry); err != nil {
				return "", err
			}
			if n < 3 {
				return "", perdure.ContinueAsNew(ctx, n+1)
			}
			return string(info.Predecessor), nil
		})
		w := world.New(t, loop)
		defer w.End()
		s.breaks("work2")
		first := world.Start(w, loop, 1, perdure.ID("loop"))
		ends(t, first, "work2 is broken")
		failed, err := w.Engine.Get(t.Context(), "loop")
		if err != nil {
			t.Fatal(err)
		}
		s.breaks()
		again := retry(w, loop, "loop")
		ends(t, again, "")
		if got := s.did(); !slices.Equal(got, []string{"work1", "work2", "work3"}) {
			t.Errorf("it did %v", got)
		}
		if s.keys["work2"] != failed.RunID()+"/work" || s.keys["work3"] == s.keys["work2"] {
			t.Errorf("the keys are %v", s.keys)
		}
		d, err := w.Engine.Describe(t.Context(), again.RunID())
		if err != nil || string(d.State.Predecessor) != first.RunID() ||
			string(d.State.Origin.Run) != failed.RunID() ||
			d.Head.Chain != w.Describe(first.RunID()).Head.Chain {
			t.Errorf("the retried run is %+v, %v", d, err)
		}
		if got, err := w.Engine.Retry(t.Context(), failed.RunID()); err != nil ||
			got.RunID() != again.RunID() {
			t.Errorf("another retry gives %v, %v; want %s, which has gone on", got, err,
				again.RunID())
		}
		if out := ends(t, again, ""); out != again.RunID() {
			t.Errorf("the last run follows %s, want %s", out, again.RunID())
		}
	})
}

// Everything that a journal may have recorded before the failed step is replayed in the retried
// run: the code gets the same as before, and nothing of it happens again.
//
// spec: P-4, R-16
func TestRetryReplaysWhatEndedWell(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprintf("crash=%v", crash), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHands("last")
				child := perdure.Define("child", func(ctx context.Context, n int) (int, error) {
					return n + 1, nil
				})
				paid, more := perdure.NewSignal[int]("paid"), perdure.NewSignal[string]("more")
				var said []string
				wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
					var out []string
					tell := func(format string, args ...any) {
						out = append(out, fmt.Sprintf(format, args...))
					}
					now, _ := perdure.Now(ctx)
					tell("now %v", now)
					n, err := paid.Wait(ctx)
					tell("paid %d %v", n, err)
					_, err = more.Wait(ctx, perdure.Within(time.Minute))
					tell("late %v", err)
					inbox, err := perdure.Inbox(ctx, "more")
					tell("inbox %d %v", len(inbox), err)
					reminder := perdure.Timer(ctx, "reminder", time.Hour)
					_, err = reminder.Await(ctx) // cancelled from outside
					tell("reminder %v", err)
					tell("slept %v", perdure.Sleep(ctx, time.Minute))
					if inbox, err = perdure.Inbox(ctx, "more"); err == nil && len(inbox) > 0 {
						taken, err := perdure.Take(ctx, inbox[0].Number)
						tell("took %v %v", taken, err)
					}
					c := child.Child(ctx, 4)
					o, err := c.Await(ctx)
					tell("child %d %v", o, err)
					child.Child(ctx, 9, perdure.ChildDetached, perdure.Key("d"))
					d, err := perdure.Park(ctx, "ok", "may it go on?", "yes", "no")
					tell("decided %+v %v", d, err)
					err = perdure.SetVariable(ctx, "v", 3)
					v, ok, err2 := perdure.Variable[int](ctx, "v")
					tell("variable %d %v %v %v", v, ok, err, err2)
					isNew, err := pattern.AddKey(ctx, "k")
					tell("key %v %v", isNew, err)
					version, err := perdure.Version(ctx, "change", 2)
					tell("version %d %v", version, err)
					tell("shown %v %v %v", perdure.SetPayload(ctx, "p"),
						perdure.Publish(ctx, "x", 1), perdure.SetAttribute(ctx, "tier", "gold"))
					b := perdure.Go(ctx, "branch", func(ctx context.Context) (string, error) {
						return perdure.Step(ctx, "in", s.step("in"))
					})
					text, err := b.Await(ctx)
					tell("branch %s %v", text, err)
					lost := perdure.Async(ctx, "lost", world.Work("lost", time.Hour, nil))
					_, err = lost.Cancel(ctx, "lost")
					_, err2 = lost.Await(ctx)
					tell("lost %v %v", err, err2)
					_ = perdure.Finally(ctx, "clean", func(ctx context.Context) error {
						_, err := perdure.Step(ctx, "clean", s.step("clean"))
						return err
					})
					said = out
					if _, err := perdure.Step(ctx, "last", s.step("last"),
						perdure.NoRetry); err != nil {
						return "", err
					}
					return strings.Join(out, "\n"), nil
				})
				w := world.New(t, wf, child)
				defer func() { w.End() }()
				old := world.Start(w, wf, 1, perdure.ID("w"))
				ctx := t.Context()
				paid.Send(ctx, w.Engine, "w", 12)
				time.Sleep(2 * time.Minute)
				more.Send(ctx, w.Engine, "w", "x")
				w.Engine.CancelTimer(ctx, "w", "reminder", "enough")
				time.Sleep(2 * time.Minute)
				if err := w.Engine.Decide(ctx, "w", "ok",
					perdure.Decision{Choice: "yes", Reason: "why not"}); err != nil {
					t.Fatal(err)
				}
				ends(t, old, "last is broken")
				before := said
				if did := s.did(); !slices.Equal(did, []string{"in", "clean"}) {
					t.Fatalf("before it did %v: %q", did, before)
				}
				s.breaks()
				time.Sleep(time.Hour)
				again := retry(w, wf, "w")
				if crash {
					w.Crash()
					again, _ = wf.Get(ctx, w.Engine, again.RunID())
				}
				if out := ends(t, again, ""); out != strings.Join(before, "\n") {
					t.Errorf("the retried run learns\n%s\nand before it was\n%s", out,
						strings.Join(before, "\n"))
				}
				// last may be done again after the crash
				if did := slices.Compact(s.did()); !slices.Equal(did, []string{"last", "clean"}) {
					t.Errorf("the retried run did %v", did)
				}
				w.History(again.RunID())
				if heads, _, err := w.Engine.List(ctx, perdure.Query{
					Workflow: "child",
				}); err != nil ||
					len(heads) != 2 {
					t.Errorf("there are %d children, %v", len(heads), err)
				}
				if heads, _, err := w.Engine.List(ctx,
					perdure.Query{Attributes: map[string]string{"tier": "gold"}}); err != nil ||
					len(heads) != 2 {
					t.Errorf("the attribute is of %d runs, %v", len(heads), err)
				}
			})
		})
	}
}

// spec: P-4
func TestRetryOfACancelledRunBeginsItsWaitsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands()
		paid := perdure.NewSignal[int]("paid")
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if _, err := perdure.Step(ctx, "a", s.step("a")); err != nil {
				return 0, err
			}
			beside := perdure.Async(ctx, "beside", world.Work("beside", time.Minute, nil))
			n, err := paid.Wait(ctx)
			if err != nil {
				return 0, err
			}
			_, err = beside.Await(ctx)
			return n, err
		}, perdure.Timeout(time.Hour))
		w := world.New(t, wf)
		defer w.End()
		old := world.Start(w, wf, 1, perdure.ID("w"))
		time.Sleep(time.Second)
		if err := w.Engine.Cancel(t.Context(), "w", "enough"); err != nil {
			t.Fatal(err)
		}
		ends(t, old, "cancelled")
		again := retry(w, wf, "w")
		ends(t, again, "timed out") // an hour after it was started
		third := retry(w, wf, "w")
		synctest.Wait()
		if _, err := paid.Send(t.Context(), w.Engine, "w", 5); err != nil {
			t.Fatal(err)
		}
		if n := ends(t, third, ""); n != 5 {
			t.Errorf("it gives %d", n)
		}
		if did := s.did(); !slices.Equal(did, []string{"a"}) {
			t.Errorf("it did %v", did)
		}
	})
}

// Steps that were undone are done again, under new keys: the outside world knows the old ones as
// undone. All other steps keep their keys: a failed step may have taken effect all the same.
//
// spec: P-4
func TestRetryOfWhatWasUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		wf := perdure.Define("saga", func(ctx context.Context, _ int) (int, error) {
			for _, name := range []string{"reserve", "mail"} {
				if _, err := perdure.Step(ctx, name, s.step(name)); err != nil {
					return 0, err
				}
			}
			_, err := perdure.Step(ctx, "charge", s.step("charge"), perdure.NoRetry)
			if err != nil {
				if _, err := perdure.Step(ctx, "reserve", s.step("undo"),
					perdure.PhaseUndo); err != nil {
					return 0, err
				}
				_ = pattern.Record(ctx, pattern.Fact{
					Kind: journal.StepCompensated, Name: "reserve",
				})
			}
			return 0, err
		})
		w := world.New(t, wf)
		defer w.End()
		old := world.Start(w, wf, 1, perdure.ID("w"))
		ends(t, old, "broken")
		runs := []*perdure.Run[int]{retry(w, wf, "w")}
		ends(t, runs[0], "broken")
		if key := s.keys["undo"]; key != runs[0].RunID()+"/undo:reserve" {
			t.Errorf("what was done anew is undone with the key %s", key)
		}
		s.breaks("undo", "charge")
		runs = append(runs, retry(w, wf, "w"))
		ends(t, runs[1], "broken")
		reserved := s.keys["reserve"]
		if reserved != runs[1].RunID()+"/reserve" {
			t.Errorf("it is reserved with the key %s, which was undone", reserved)
		}
		s.breaks()
		s.did()
		runs = append(runs, retry(w, wf, "w")) // of one where nothing was undone
		ends(t, runs[2], "")
		if did := s.did(); !slices.Equal(did, []string{"charge"}) {
			t.Errorf("it did %v", did)
		}
		for name, want := range map[string]string{
			"reserve": reserved,
			"mail":    old.RunID() + "/mail",
			"charge":  old.RunID() + "/charge",
		} {
			if s.keys[name] != want {
				t.Errorf("the key of %s is %s, want %s", name, s.keys[name], want)
			}
		}
	})
}

// Large payloads are shared by both runs, and stay when the old one goes.
//
// spec: P-4, R-14
func TestRetrySharesLargePayloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := bytes.Repeat([]byte("x"), 300_000)
		broken := true
		wf := perdure.Define("w", func(ctx context.Context, in []byte) (int, error) {
			out, err := perdure.Step(ctx, "large", func(context.Context) ([]byte, error) {
				return append([]byte("y"), in...), nil
			})
			if err != nil {
				return 0, err
			}
			return perdure.Step(ctx, "count", func(context.Context) (int, error) {
				if broken {
					return 0, world.ErrOdd
				}
				return len(in) + len(out), nil
			}, perdure.NoRetry)
		}, perdure.Retention{Period: time.Hour})
		w := world.New(t, wf)
		defer w.End()
		old := world.Start(w, wf, large, perdure.ID("w"), perdure.Dedup(0))
		ends(t, old, "odd")
		time.Sleep(30 * time.Minute)
		ends(t, retry(w, wf, "w"), "odd")
		time.Sleep(45 * time.Minute)
		if _, _, err := w.Engine.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := w.Engine.Retry(t.Context(), old.RunID())
		world.CodeIs(t, err, journal.CodeNotFound)
		broken = false
		if n := ends(t, retry(w, wf, "w"), ""); n != 2*len(large)+1 {
			t.Errorf("it counts %d", n)
		}
	})
}

// A client of its own can retry, too; the run waits for an engine.
//
// spec: P-4
func TestAClientRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		order := s.order()
		w := world.New(t, order)
		old := world.Start(w, order, 1, perdure.ID("ord-1"))
		ends(t, old, "broken")
		w.Kill()
		c, err := perdure.NewClient(t.Context(), w.DB)
		if err != nil {
			t.Fatal(err)
		}
		run, err := c.Retry(t.Context(), "ord-1")
		if err != nil || !run.New() {
			t.Fatal(run, err)
		}
		d, err := c.Describe(t.Context(), run.RunID())
		if err != nil || d.Head.Status != journal.Pending || d.State.Status != journal.Pending ||
			len(d.State.Steps) != 1 {
			t.Errorf("it is %+v, %v", d, err)
		}
		s.breaks()
		w.Begin()
		defer w.End()
		if out := ends(t, run, ""); string(out) != `"1 reserve charge ship"` {
			t.Errorf("its output is %s", out)
		}
		if did := s.did(); !slices.Equal(did, []string{"reserve", "charge", "ship"}) {
			t.Errorf("it did %v", did)
		}
	})
}

// Random programs of branches, scopes, async and sequential steps fail at a step, are retried, fail
// at another, until nothing is broken. In the end, each has the same result as without failures,
// and no step that had succeeded was executed again, except those that began after the failure.
//
// spec: P-4
func TestRandomProgramsAreRetried(t *testing.T) {
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			p := randomSteps(rng, 3)
			whole := run(t, newHands(), p)
			s := newHands()
			wf := p.workflow(s)
			w := world.New(t, wf)
			defer func() { w.End() }()
			names := p.names("")
			s.breaks(names[rng.IntN(len(names))], names[rng.IntN(len(names))])
			r := world.Start(w, wf, 0, perdure.ID("p"))
			for range 20 {
				out, err := r.Result(t.Context())
				if err == nil {
					if !reflect.DeepEqual(out, whole) {
						t.Fatalf("seed %d: retried it gives %v, and else %v", seed, out, whole)
					}
					return
				}
				w.History(r.RunID())
				if rng.IntN(2) == 0 {
					w.Crash()
				}
				if s.breaks(); rng.IntN(3) == 0 {
					s.breaks(names[rng.IntN(len(names))])
				}
				s.did()
				kept := map[string]bool{}
				r = retry(w, wf, "p")
				entries, err := w.Engine.History(t.Context(), r.RunID(), 1, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if e.Kind == journal.RunClaimed {
						break
					}
					if e.Kind == journal.StepCompleted {
						kept[string(e.Data)] = true
					}
				}
				synctest.Wait()
				for _, name := range s.did() {
					if kept[fmt.Sprintf("%q", name)] {
						t.Fatalf("seed %d: %s was executed again", seed, name)
					}
				}
			}
			t.Fatalf("seed %d: it does not come to an end", seed)
		})
	}
}

// run returns the result of a plan without failures.
func run(t *testing.T, s *hands, p plan) []string {
	t.Helper()
	wf := p.workflow(s)
	w := world.New(t, wf)
	defer w.End()
	return ends(t, world.Start(w, wf, 0), "")
}

// A plan is a list of operations done one after the other, each of a kind: a step, or an async one
// that is awaited at the end of the list; a branch or a scope of others.
type plan []piece

type piece struct {
	kind int // 0: step; 1: async; 2: branch; 3: scope
	in   plan
}

func randomSteps(rng *rand.Rand, depth int) plan {
	var p plan
	for range 1 + rng.IntN(4) {
		x := piece{kind: rng.IntN(4)}
		if x.kind > 1 && depth == 0 {
			x.kind = 0
		}
		if x.kind > 1 {
			x.in = randomSteps(rng, depth-1)
		}
		p = append(p, x)
	}
	if depth == 3 {
		p = append(p, piece{})
	}
	return p
}

// names returns the names of all steps.
func (p plan) names(in string) []string {
	var out []string
	for i, x := range p {
		name := fmt.Sprint(in, "s", i)
		if x.kind < 2 {
			out = append(out, name)
		}
		out = append(out, x.in.names(name+".")...)
	}
	return out
}

func (p plan) workflow(s *hands) *perdure.Workflow[int, []string] {
	return perdure.Define("plan", func(ctx context.Context, _ int) ([]string, error) {
		return p.do(ctx, s, "")
	}, perdure.NoRetry)
}

func (p plan) do(ctx context.Context, s *hands, in string) ([]string, error) {
	var out []string
	var beside []*perdure.Future[string]
	var branches []*perdure.Future[[]string]
	for i, x := range p {
		name := fmt.Sprint(in, "s", i)
		switch x.kind {
		case 0:
			text, err := perdure.Step(ctx, name, s.step(name))
			if err != nil {
				return nil, err
			}
			out = append(out, text)
		case 1:
			beside = append(beside, perdure.Async(ctx, name, s.step(name)))
		case 2:
			branches = append(branches, perdure.Go(ctx, name, func(ctx context.Context) ([]string,
				error) {
				return x.in.do(ctx, s, name+".")
			}))
		case 3:
			scope, err := perdure.Scope(ctx, name)
			if err != nil {
				return nil, err
			}
			texts, err := x.in.do(scope, s, name+".")
			if err != nil {
				return nil, err
			}
			out = append(out, texts...)
		}
	}
	var failed error
	for _, f := range beside {
		text, err := f.Await(ctx)
		out, failed = append(out, text), errors.Join(failed, err)
	}
	for _, f := range branches {
		texts, err := f.Await(ctx)
		out, failed = append(out, texts...), errors.Join(failed, err)
	}
	return out, failed
}

// What a branch does after another one has failed, and that completes before the run fails, is not
// done again by a retry. A signal that it took is not waited for again, and its variables hold.
// What the code that awaited the failure did after it is done again, except a step in a
// transaction.
//
// spec: F-18, P-4
func TestRetryKeepsWhatBeganBesideTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHands("charge")
		books := &world.Till{}
		paid := perdure.NewSignal[int]("paid")
		var w *world.Shop
		inTx := func(ctx context.Context, name string, cents int) error {
			_, err := perdure.StepTx(ctx, name, books, func(ctx context.Context, tx *sql.Tx) (int,
				error) {
				return world.Book(ctx, tx, cents)
			})
			return err
		}
		wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
			beside := perdure.Go(ctx, "beside", func(ctx context.Context) (string, error) {
				if err := perdure.Sleep(ctx, time.Second); err != nil {
					return "", err
				}
				n, err := paid.Wait(ctx, perdure.Within(time.Hour))
				if err != nil {
					return "", err
				}
				if err := perdure.SetVariable(ctx, "paid", n); err != nil {
					return "", err
				}
				inner, err := perdure.Scope(ctx, "inner")
				if err != nil {
					return "", err
				}
				if err := inTx(inner, "book", n); err != nil {
					return "", err
				}
				text, err := perdure.Async(inner, "pack", s.step("pack")).Await(inner)
				if err != nil {
					return "", err
				}
				last, err := perdure.Step(ctx, "label", s.step("label"))
				return text + " " + last, err
			})
			_, charged := perdure.Step(ctx, "charge", s.step("charge"), perdure.NoRetry)
			packed, err := beside.Await(ctx)
			if charged != nil {
				if _, err := perdure.Step(ctx, "sorry", s.step("sorry")); err != nil {
					return "", err
				}
				return "", errors.Join(charged, inTx(ctx, "write-off", 1))
			}
			n, _, _ := perdure.Variable[int](ctx, "paid")
			return fmt.Sprint(packed, " ", n), err
		})
		w = world.NewShop(t, perdure.Options{}, wf)
		books.Transactions = sqlite.Transactions(w.DB)
		run := world.Must[*perdure.Run[string]](t)(
			wf.Start(t.Context(), w.Engine, 1, perdure.ID("x")))
		time.Sleep(time.Minute)
		if _, err := paid.Send(t.Context(), w.Engine, "x", 5); err != nil {
			t.Fatal(err)
		}
		for i, want := range []struct{ broken, did string }{
			{"charge", "pack label sorry"},
			{"charge", "sorry"},
			{"", "charge"},
		} {
			s.breaks(want.broken)
			if i > 0 {
				time.Sleep(time.Second)
				again := world.Must[*perdure.Run[json.RawMessage]](t)(
					w.Engine.Retry(t.Context(), "x"))
				run = world.Must[*perdure.Run[string]](t)(
					wf.Get(t.Context(), w.Engine, again.RunID()))
			}
			out, err := run.Result(t.Context())
			if want.broken != "" && err == nil || want.broken == "" && (err != nil ||
				out != "pack label 5") {
				t.Fatalf("run %d gives %q, %v", i, out, err)
			}
			if did := strings.Join(s.did(), " "); did != want.did {
				t.Errorf("run %d did %s, want %s", i, did, want.did)
			}
		}
		if cents := w.Booked(); !slices.Equal(cents, []int{1, 5}) {
			t.Errorf("booked is %v, want each once", cents)
		}
	})
}

// A branch that has heard of a failure beside it repeats what it did since, and one that has heard
// of something else before does not.
//
// spec: F-18, P-4
func TestARetryRedoesWhatABranchDidThatHasHeard(t *testing.T) {
	const name = "charged"
	read := func(ctx context.Context) (string, error) {
		v, _, err := perdure.Variable[string](ctx, name)
		return fmt.Sprint(v != "no"), err
	}
	for how, tell := range map[string]func(ctx context.Context,
		charge *perdure.Future[string]) (string, error){
		"awaits": func(ctx context.Context, charge *perdure.Future[string]) (string, error) {
			_, err := charge.Await(ctx)
			return fmt.Sprint(err == nil), nil
		},
		"within": func(ctx context.Context, charge *perdure.Future[string]) (string, error) {
			return perdure.Go(ctx, "inner", func(ctx context.Context) (string, error) {
				_, err := charge.Await(ctx)
				return fmt.Sprint(err == nil), nil
			}).Await(ctx)
		},
		"all": func(ctx context.Context, charge *perdure.Future[string]) (string, error) {
			charged, err := perdure.All(ctx, func(string) bool { return true }, charge)
			return fmt.Sprint(charged && err == nil), nil
		},
		"reads": func(ctx context.Context, _ *perdure.Future[string]) (string, error) {
			return read(ctx)
		},
		"reads in a step": func(ctx context.Context, _ *perdure.Future[string]) (string, error) {
			return perdure.Step(ctx, "look", read, pattern.Announced)
		},
		"is told": func(ctx context.Context, _ *perdure.Future[string]) (string, error) {
			info, err := perdure.InfoOf(ctx)
			return fmt.Sprint(info.Attributes[name] != "no"), err
		},
		"": func(context.Context, *perdure.Future[string]) (string, error) { return "true", nil },
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHands("charge")
				wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
					before := perdure.Async(ctx, "before", s.step("before"))
					charge := perdure.Async(ctx, "charge", func(ctx context.Context) (string,
						error) {
						time.Sleep(time.Second)
						return s.step("charge")(ctx)
					}, perdure.NoRetry)
					beside := perdure.Go(ctx, "beside", func(ctx context.Context) (string, error) {
						if _, err := before.Await(ctx); err != nil {
							return "", err
						}
						if _, err := perdure.Step(ctx, "first", s.step("first")); err != nil {
							return "", err
						}
						if err := perdure.Sleep(ctx, time.Minute); err != nil {
							return "", err
						}
						charged, err := tell(ctx, charge)
						if err != nil {
							return "", err
						}
						return perdure.Step(ctx, "mail", func(ctx context.Context) (string, error) {
							_, err := s.step("mail")(ctx)
							return charged, err
						})
					})
					_, charged := charge.Await(ctx)
					if charged != nil {
						if err := errors.Join(perdure.SetVariable(ctx, name, "no"),
							perdure.SetAttribute(ctx, name, "no")); err != nil {
							return "", err
						}
					}
					text, err := beside.Await(ctx)
					return text, errors.Join(charged, err)
				})
				w := world.New(t, wf)
				defer w.End()
				ends(t, world.Start(w, wf, 1, perdure.ID("x")), "charge is broken")
				s.breaks()
				s.did()
				time.Sleep(time.Second)
				if out := ends(t, retry(w, wf, "x"), ""); out != "true" {
					t.Errorf("the branch takes it for charged: %s", out)
				}
				want := "charge mail"
				if how == "" {
					want = "charge"
				}
				did := s.did()
				slices.Sort(did)
				if did := strings.Join(did, " "); did != want {
					t.Errorf("the retry did %s, want %s", did, want)
				}
			})
		})
	}
}
