package ends

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
)

// A told is an outcome in the form in which a parent returns it.
type told struct {
	Status journal.Status
	Output int
	Code   journal.Code
	Err    string
	Odd    bool
}

func toldOf(o perdure.Outcome[int], err error) (told, error) {
	out := told{Status: o.Status, Output: o.Output, Odd: errors.Is(o.Err, world.ErrOdd)}
	if o.Err != nil {
		out.Code, out.Err = journal.CodeOf(o.Err), o.Err.Error()
	}
	return out, err
}

// ender is a workflow that ends in the way that its input names.
func ender() *perdure.Workflow[string, int] {
	return perdure.Define("ender", func(ctx context.Context, how string) (int, error) {
		if _, err := perdure.Step(ctx, "s", world.Work("s", time.Second, nil)); err != nil {
			return 0, err
		}
		switch how {
		case "fails":
			return 1, fmt.Errorf("wrapped: %w", world.ErrOdd)
		case "cancels":
			return 1, perdure.Cancel(ctx, "no more")
		case "confirmed":
			return 1, pattern.End(ctx, journal.Confirmed, 8, nil)
		case "compensated":
			return 1, pattern.End(ctx, journal.Compensated, 9, world.ErrOdd)
		case "canceled":
			return 1, pattern.End(ctx, journal.Canceled, 0, world.ErrOdd)
		case "lasts":
			return 1, perdure.Sleep(ctx, 100*time.Hour)
		case "is cancelled":
			_, err := perdure.NewSignal[int]("never").Wait(ctx)
			return 1, err
		}
		return 7, nil
	}, perdure.Timeout(time.Hour))
}

// spec: R-23
func TestOutcomeOfAChildIsAValue(t *testing.T) {
	cases := []struct {
		how  string
		want told
	}{
		{"returns", told{Status: journal.Completed, Output: 7}},
		{"fails", told{Status: journal.Failed, Code: "", Err: "wrapped: odd", Odd: true}},
		{
			"cancels",
			told{
				Status: journal.Cancelled, Code: journal.CodeCancelled,
				Err: "workflow cancelled: no more",
			},
		},
		{
			"is cancelled",
			told{
				Status: journal.Cancelled, Code: journal.CodeCancelled,
				Err: "workflow cancelled: by hand",
			},
		},
		{
			"lasts",
			told{Status: journal.TimedOut, Code: journal.CodeTimedOut, Err: "workflow timed out"},
		},
		{"confirmed", told{Status: journal.Confirmed, Output: 8}},
		{"compensated", told{Status: journal.Compensated, Err: "odd", Odd: true}},
		{"canceled", told{Status: journal.Canceled, Err: "odd", Odd: true}},
	}
	child := ender()
	parent := perdure.Define("parent", func(ctx context.Context, how string) ([2]told, error) {
		c := child.Child(ctx, how)
		first, err := toldOf(c.Outcome(ctx))
		if err != nil {
			return [2]told{}, err
		}
		_, await := c.Await(ctx)
		if (await == nil) != (first.Err == "") || await != nil && await.Error() != first.Err {
			return [2]told{}, fmt.Errorf("Await gives %w", await)
		}
		if err := perdure.Sleep(ctx, time.Hour); err != nil { // then it is replayed
			return [2]told{}, err
		}
		again, err := toldOf(c.Outcome(ctx))
		return [2]told{first, again}, err
	})
	for _, c := range cases {
		t.Run(c.how, func(t *testing.T) {
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				run, err := parent.Start(context.Background(), w.Engine, c.how)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if c.how == "is cancelled" {
					id := string(w.Children(run.ID())[0].ID)
					if err := w.Engine.Cancel(context.Background(), id, "by hand"); err != nil {
						t.Fatal(err)
					}
				}
				got, err := run.Result(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				for i := range got {
					if c.want.Code == "" {
						got[i].Code = ""
					}
					if got[i] != c.want {
						t.Errorf("outcome %d: %+v, want %+v", i, got[i], c.want)
					}
				}
				for _, h := range w.Children(run.ID()) {
					if h.Status != c.want.Status {
						t.Errorf("the child is %v", h.Status)
					}
					w.History(string(h.ID))
				}
				w.History(run.ID())
			}, parent, child)
		})
	}
}

// family is a parent that starts children in a loop, with keys, in a scope and in branches, and
// adds up their results.
func family(
	l *world.Ledger,
) (parent *perdure.Workflow[int, int], child *perdure.Workflow[int, int]) {
	child = perdure.Define("child", func(ctx context.Context, n int) (int, error) {
		if _, err := perdure.Step(ctx, "effect",
			l.Effect(fmt.Sprint("child ", n), time.Second)); err != nil {
			return 0, err
		}
		if err := perdure.Sleep(ctx, time.Duration(10-n)*time.Second); err != nil {
			return 0, err
		}
		return n, nil
	})
	parent = perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
		var all []*perdure.Future[int]
		for i := range 2 {
			all = append(all, child.Child(ctx, i).Future)
		}
		for i := 2; i < 4; i++ {
			all = append(all, child.Child(ctx, i, perdure.Key(fmt.Sprint(i))).Future)
		}
		in, err := perdure.Scope(ctx, "helper")
		if err != nil {
			return 0, err
		}
		all = append(all, child.Child(in, 4).Future)
		for i := 5; i < 7; i++ {
			all = append(all, perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
				return child.Child(ctx, i).Await(ctx)
			}))
		}
		sum := 0
		for f, err := range perdure.AsCompleted(ctx, all...) {
			if err != nil {
				return 0, err
			}
			n, err := f.Await(ctx)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	})
	return parent, child
}

// spec: R-23
func TestSameOperationNeverStartsTwoChildren(t *testing.T) {
	world.OverCrashes(t, 10, func() world.Scenario {
		l := world.NewLedger()
		parent, child := family(l)
		return world.Scenario{
			Workflows: []perdure.Definition{parent, child},
			Begin: func(w *world.World) error {
				_, err := parent.Start(context.Background(), w.Engine, 0, perdure.ID("p"))
				return err
			},
			Over: func(w *world.World) bool { return w.Status("p").IsTerminal() },
			Check: func(t *testing.T, w *world.World, crashes int) {
				run, err := parent.Get(context.Background(), w.Engine, "p")
				if err != nil {
					t.Fatal(err)
				}
				if out, err := run.Result(context.Background()); out != 21 || err != nil {
					t.Error(out, err)
				}
				all, _, err := w.Engine.List(context.Background(), perdure.Query{Workflow: "child"})
				if err != nil || len(all) != 7 || len(w.Children("p")) != 7 {
					t.Errorf("%d runs of the child, %d children, %v", len(all),
						len(w.Children("p")), err)
				}
				for _, h := range all {
					if h.Status != journal.Completed {
						t.Errorf("child %s is %v", h.ID, h.Status)
					}
					w.History(string(h.ID))
				}
				heard := map[journal.RunID]int{}
				for _, e := range w.History("p") {
					if e.Kind == journal.ChildCompleted {
						heard[e.Detail.Other]++
					}
				}
				if len(heard) != 7 {
					t.Errorf("the parent has heard of %d ends: %v", len(heard), heard)
				}
				if len(l.Order()) != 7 {
					t.Errorf("effects: %v", l.Order())
				}
				for key, n := range l.Calls() {
					if n > 1+crashes {
						t.Errorf("%s was made %d times", key, n)
					}
				}
			},
		}
	})
}

// spec: R-23
func TestChildWhoseIDIsTakenFailsBeforeItBegins(t *testing.T) {
	began := 0
	child := perdure.Define("child", func(ctx context.Context, _ int) (int, error) {
		began++
		return 1, nil
	})
	other := perdure.Define("other", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Sleep(ctx, time.Hour)
	})
	lasting := perdure.Define("lasting", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Sleep(ctx, time.Hour)
	})
	parent := perdure.Define("parent", func(ctx context.Context, same bool) (told, error) {
		if same {
			return toldOf(lasting.Child(ctx, 0, perdure.ID("mine")).Outcome(ctx))
		}
		return toldOf(child.Child(ctx, 0, perdure.ID("mine")).Outcome(ctx))
	})
	for _, same := range []bool{false, true} {
		t.Run(fmt.Sprint("same workflow ", same), func(t *testing.T) {
			world.InBothModes(t, func(t *testing.T, w *world.World) {
				began = 0
				holder := other
				if same {
					holder = lasting
				}
				held, err := holder.Start(context.Background(), w.Engine, 0, perdure.ID("mine"))
				if err != nil {
					t.Fatal(err)
				}
				run, got, err := world.Result(w, parent, same)
				if err != nil || got.Status != journal.Failed || got.Code != journal.CodeConflict {
					t.Errorf("%+v %v", got, err)
				}
				if n := len(w.Children(run.ID())); n != 0 || began != 0 {
					t.Errorf("%d children, of which %d began", n, began)
				}
				if s := w.Status("mine"); s.IsTerminal() {
					t.Errorf("who has the ID is %v", s)
				}
				w.History(run.ID())
				if _, err := held.Result(context.Background()); err != nil || same {
					return
				}
				_, got, err = world.Result(w, parent, false) // it is free now
				if err != nil || got.Status != journal.Completed || got.Output != 1 {
					t.Errorf("with a free ID: %+v %v", got, err)
				}
			}, parent, child, other, lasting)
		})
	}
}

// spec: R-23
func TestChildHasAnIDOfItsOwnOrTheOneThatItIsGiven(t *testing.T) {
	child := ender()
	parent := perdure.Define("parent", func(ctx context.Context, _ int) ([]string, error) {
		own, given := child.Child(ctx, "returns"), child.Child(ctx, "returns", perdure.ID("given"),
			perdure.Dedup(time.Minute))
		_, e1 := own.Await(ctx)
		_, e2 := given.Await(ctx)
		return []string{own.RunID(), given.RunID()}, errors.Join(e1, e2)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run, ids, err := world.Result(w, parent, 0)
		if err != nil {
			t.Fatal(err)
		}
		heads := w.Children(run.ID())
		if len(heads) != 2 || string(heads[0].ID) != ids[0] || string(heads[1].ID) != ids[1] {
			t.Fatalf("%v, %v", heads, ids)
		}
		if heads[0].WorkflowID != string(ids[0]) || heads[1].WorkflowID != "given" ||
			heads[1].Keep != time.Minute {
			t.Errorf("workflow IDs %s, %s, kept %v", heads[0].WorkflowID, heads[1].WorkflowID,
				heads[1].Keep)
		}
	}, parent, child)
}

// spec: R-23, B-1
func TestChildIsKnownByItsKeyAndItsOldName(t *testing.T) {
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		slow := func(ctx context.Context, n int) (int, error) {
			return n, perdure.Sleep(ctx, time.Hour)
		}
		old, renamed := perdure.Define("old", slow), perdure.Define("renamed", slow)
		both := func(child *perdure.Workflow[int, int], keys []string,
			opts ...perdure.ChildOption) *perdure.Workflow[int, []int] {
			return perdure.Define("parent", func(ctx context.Context, _ int) ([]int, error) {
				var out []int
				var all []*perdure.Child[int]
				for _, k := range keys {
					n := map[string]int{"a": 1, "b": 2, "c": 3}[k]
					all = append(all, child.Child(ctx, n, append(opts, perdure.Key(k))...))
				}
				for _, c := range all {
					n, err := c.Await(ctx)
					if err != nil {
						return nil, err
					}
					out = append(out, n)
				}
				return out, nil
			})
		}
		w.Deploy("one", both(old, []string{"a", "b"}), old)
		run, err := w.Engine.Start(context.Background(), "parent", []byte("0"), perdure.ID("p"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.Deploy("two", both(renamed, []string{"b", "a", "c"}, perdure.RenamedFrom("old")), old,
			renamed)
		run, err = w.Engine.Get(context.Background(), run.ID())
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); string(out) != "[2,1,3]" || err != nil {
			t.Error(string(out), err)
		}
		var started []string
		for _, h := range w.Children("p") {
			started = append(started, h.Workflow)
		}
		if !slices.Equal(started, []string{"old", "old", "renamed"}) {
			t.Error(started)
		}
	})
}

// spec: R-23
func TestFanOutWaitsForAllInTheOrderInWhichTheyEnd(t *testing.T) {
	const n = 100
	child := perdure.Define("child", func(ctx context.Context, i int) (int, error) {
		if err := perdure.Sleep(ctx, time.Duration(1+(i*7)%n)*time.Second); err != nil {
			return 0, err
		}
		if i%10 == 0 {
			return 0, world.ErrOdd
		}
		return i, nil
	})
	parent := perdure.Define("parent", func(ctx context.Context, _ int) ([2]int, error) {
		var all []*perdure.Future[int]
		for i := range n {
			all = append(all, child.Child(ctx, i).Future)
		}
		at, failed := 0, 0
		for f, err := range perdure.AsCompleted(ctx, all...) {
			if err != nil {
				return [2]int{}, err
			}
			if i := slices.Index(all, f); (i*7)%n != at {
				return [2]int{}, fmt.Errorf("end %d is that of child %d", at, i)
			}
			if _, _, err := f.State(); err != nil {
				failed++
			}
			at++
		}
		return [2]int{at, failed}, nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run, got, err := world.Result(w, parent, 0)
		if err != nil || got != [2]int{n, n / 10} {
			t.Error(got, err)
		}
		w.History(run.ID())
	}, parent, child)
}

// spec: R-23
func TestChildOfAnUnknownWorkflowWaitsUntilItIsKnown(t *testing.T) {
	child := ender()
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
		return child.Child(ctx, "returns").Await(ctx)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		run, err := parent.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		id := string(w.Children(run.ID())[0].ID)
		d, err := w.Engine.Describe(context.Background(), id)
		if err != nil || d.Head.Status != journal.Pending ||
			!strings.HasPrefix(d.Why, "no engine has workflow ender: engine 1 (process ") ||
			!strings.HasSuffix(d.Why, " has parent") {
			t.Errorf("%v %q %v", d.Head.Status, d.Why, err)
		}
		if d, _ := w.Engine.Describe(context.Background(),
			run.ID()); d.Head.Status != journal.Waiting ||
			d.Why != "it waits for child ender, run "+id {
			t.Errorf("the parent is %v: %q", d.Head.Status, d.Why)
		}
		if err := w.Engine.Register(child); err != nil {
			t.Fatal(err)
		}
		w.Workflows = append(w.Workflows, child)
		if out, err := run.Result(context.Background()); out != 7 || err != nil {
			t.Error(out, err)
		}
	}, parent)
}
