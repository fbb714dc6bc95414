package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
)

var onward = perdure.NewSignal[int]("onward")

// A doer does one operation of a name and records that it was performed.
type doer struct {
	do    func(ctx context.Context, l *list, name string, was perdure.RenamedFrom, added bool) error
	plain bool // it has no options that declare a change
}

// changed returns the options that declare a change.
func changed[O any](was perdure.RenamedFrom, added bool, renamed func(perdure.RenamedFrom) O,
	isAdded O) []O {
	var opts []O
	if was != "" {
		opts = append(opts, renamed(was))
	}
	if added {
		opts = append(opts, isAdded)
	}
	return opts
}

func asStep(w perdure.RenamedFrom) perdure.StepOption     { return w }
func asBranch(w perdure.RenamedFrom) perdure.BranchOption { return w }
func asChild(w perdure.RenamedFrom) perdure.ChildOption   { return w }

var doers = map[string]doer{
	"step": {do: func(ctx context.Context, l *list, name string, was perdure.RenamedFrom,
		added bool) error {
		_, err := perdure.Step(ctx, name, func(context.Context) (int, error) {
			l.add(name)
			return 0, nil
		}, changed(was, added, asStep, perdure.StepOption(perdure.Added))...)
		return err
	}},
	"async step": {do: func(ctx context.Context, l *list, name string, was perdure.RenamedFrom,
		added bool) error {
		_, err := perdure.Async(ctx, name, func(context.Context) (int, error) {
			l.add(name)
			return 0, nil
		}, changed(was, added, asStep, perdure.StepOption(perdure.Added))...).Await(ctx)
		return err
	}},
	"branch": {do: func(ctx context.Context, l *list, name string, was perdure.RenamedFrom,
		added bool) error {
		_, err := perdure.Go(ctx, name, func(ctx context.Context) (int, error) {
			return perdure.Step(ctx, "within", func(context.Context) (int, error) {
				l.add(name)
				return 0, nil
			})
		}, changed(was, added, asBranch, perdure.BranchOption(perdure.Added))...).Await(ctx)
		return err
	}},
	"scope": {do: func(ctx context.Context, l *list, name string, was perdure.RenamedFrom,
		added bool) error {
		in, err := perdure.Scope(ctx, name,
			changed(was, added, asBranch, perdure.BranchOption(perdure.Added))...)
		if err != nil {
			return err
		}
		_, err = perdure.Step(in, "within", func(context.Context) (int, error) {
			l.add(name)
			return 0, nil
		})
		return err
	}},
	"timer": {do: func(ctx context.Context, l *list, name string, was perdure.RenamedFrom,
		added bool) error {
		_, err := perdure.Timer(ctx, name, time.Second,
			changed(was, added, asBranch, perdure.BranchOption(perdure.Added))...).Await(ctx)
		return err
	}},
	"clean-up": {do: func(ctx context.Context, l *list, name string, was perdure.RenamedFrom,
		added bool) error {
		return perdure.OnCancel(ctx, name, func(context.Context) error { return nil },
			changed(was, added, asBranch, perdure.BranchOption(perdure.Added))...)
	}},
	"child": {do: func(ctx context.Context, l *list, name string, was perdure.RenamedFrom,
		added bool) error {
		_, err := perdure.Define(name, func(ctx context.Context, n int) (int, error) {
			l.add(name)
			return n, nil
		}).
			Child(ctx, 1, changed(was, added, asChild, perdure.ChildOption(perdure.Added))...).
			Await(ctx)
		return err
	}},
	"wait": {do: func(ctx context.Context, l *list, name string, was perdure.RenamedFrom,
		added bool) error {
		var opts []perdure.WaitOption
		if was != "" {
			opts = append(opts, was)
		}
		if added {
			opts = append(opts, perdure.Added)
		}
		_, err := perdure.NewSignal[int](name).
			Wait(ctx, append(opts, perdure.Within(time.Second))...)
		if journal.CodeOf(err) == journal.CodeTimedOut {
			err = nil
		}
		return err
	}},
	"value": {plain: true, do: func(ctx context.Context, l *list, name string,
		_ perdure.RenamedFrom, _ bool) error {
		_, err := perdure.SideEffect(ctx, name, func() (int, error) { l.add(name); return 0, nil })
		return err
	}},
}

// renaming is a workflow whose code does some of these operations, each with its former name behind
// "<", or "+" if it was added. At "." it waits to be sent onward.
func renaming(l *list, d doer, ops []string, opts ...perdure.WorkflowOption) perdure.Definition {
	return perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		for _, op := range ops {
			if op == "." {
				if _, err := onward.Wait(ctx); err != nil {
					return "", err
				}
				continue
			}
			op, added := strings.CutPrefix(op, "+")
			name, was, _ := strings.Cut(op, "<")
			if err := d.do(ctx, l, name, perdure.RenamedFrom(was), added); err != nil {
				return "", err
			}
		}
		return "done", nil
	}, opts...)
}

// onwards sends run x onward.
func onwards(w *world.World) {
	w.T.Helper()
	if _, err := onward.Send(context.Background(), w.Engine, "x", 1); err != nil {
		w.T.Fatal(err)
	}
	time.Sleep(time.Hour)
}

// spec: B-1, L-2
func TestOperationThatIsNewBeforeRecordedOnesIsDecided(t *testing.T) {
	old, children := []string{"a", "old", ".", "."}, []perdure.Definition{}
	for _, name := range []string{"a", "old", "new"} {
		children = append(children,
			perdure.Define(name, func(ctx context.Context, n int) (int, error) { return n, nil }))
	}
	for _, c := range []struct {
		name      string
		now       []string
		opts      []perdure.WorkflowOption
		suspends  bool
		performed bool // the new operation
	}{
		{"renamed", []string{"a", "new", ".", "."}, nil, true, true},
		{"added", []string{"a", "new", "old", ".", "."}, nil, true, true},
		{"said to be renamed", []string{"a", "new<old", ".", "."}, nil, false, false},
		{"said to be added", []string{"a", "+new", "old", ".", "."}, nil, false, true},
		{
			"by name",
			[]string{"a", "new", ".", "."},
			[]perdure.WorkflowOption{perdure.ByName},
			false,
			true,
		},
		{"added at the end", []string{"a", "old", ".", "new", "."}, nil, false, true},
		{"one less, and added at the end", []string{"old", ".", "new", "."}, nil, false, true},
	} {
		for kind, d := range doers {
			if said := strings.HasPrefix(c.name, "said"); said && d.plain ||
				said && kind == "child" && c.now[1] != "+new" {
				continue
			}
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var before, after list
					w := world.New(t, append(children, renaming(&before, d, old))...)
					defer func() { w.End() }()
					if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
						perdure.ID("x")); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour)
					w.Deploy("second", append(children, renaming(&after, d, c.now, c.opts...))...)
					onwards(w)
					if now := w.Status("x"); (now == journal.Suspended) != c.suspends {
						t.Fatalf("the run is %v", now)
					}
					if c.suspends {
						why, err := w.Engine.Describe(context.Background(), "x")
						if err != nil || !strings.Contains(why.Why, `"new"`) ||
							!strings.Contains(why.Why, `"old"`) ||
							!strings.Contains(why.Why, "resume") {
							t.Error(why.Why, err)
						}
						if n := w.Seen(observe.ReplayDiffered); len(after.names) > 0 ||
							len(n) != 1 ||
							n[0].Step != "new" {
							t.Errorf("before it is decided: %q was done, and told %+v", after.names,
								n)
						}
						w.Crash()
						time.Sleep(time.Hour)
						if err := w.Engine.Resume(context.Background(), "x"); err != nil {
							t.Fatal(err)
						}
						time.Sleep(time.Hour)
					}
					w.Crash() // what was decided stands
					onwards(w)
					if d, err := w.Engine.Describe(context.Background(),
						"x"); d.Head.Status != journal.Completed || err != nil {
						t.Fatal(d.Head.Status, d.Why, err)
					}
					want := []string(nil)
					if c.performed && len(before.names) > 0 {
						want = []string{"new"}
					}
					if !slices.Equal(after.names, want) {
						t.Errorf("the new build did %q, want %q", after.names, want)
					}
					w.History("x")
				})
			})
		}
	}
}

// An operation that was added late has no place in the order of the code, so that later ones are
// seen as well. A resume decides for the build that the run has then.
//
// spec: B-1
func TestResumeDecidesForABuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var before, after list
		w := world.New(t, renaming(&before, doers["step"], []string{"a", "b", ".", "."}))
		defer func() { w.End() }()
		if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
			perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		third := []string{"a", "v", "x", "y", "z", "b", ".", "."}
		for i, name := range []string{"y", "v"} {
			now := append([]string{"a", "+x", "y", "z", "b"}, ".", ".")
			if i == 1 {
				now = third
			}
			w.Deploy(name, renaming(&after, doers["step"], now))
			onwards(w)
			w.Crash()
			time.Sleep(time.Minute)
			if d, err := w.Engine.Describe(context.Background(),
				"x"); d.Head.Status != journal.Suspended ||
				!strings.Contains(d.Why, fmt.Sprintf("step %q", name)) || err != nil {
				t.Fatal(i, d.Head.Status, d.Why, err)
			}
			if err := w.Engine.Resume(context.Background(), "x"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(time.Minute)
		if now := w.Status("x"); now != journal.Completed ||
			!slices.Equal(after.names, []string{"x", "y", "z", "v"}) {
			t.Errorf("it is %v, and did %q", now, after.names)
		}
		added := 0
		for _, e := range w.History("x") {
			if e.Kind == journal.OperationAdded {
				added++
			}
		}
		if added != 4 {
			t.Errorf("%d operations are recorded as added", added)
		}
	})
}

// An operation without an effect outside the run may be added anywhere.
//
// spec: B-1
func TestWhatIsOnlyShownMayBeAddedAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code := func(shows bool) perdure.Definition {
			return perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				if shows {
					if err := perdure.SetAttribute(ctx, "region", "eu"); err != nil {
						return 0, err
					}
					if err := perdure.SetVariable(ctx, "v", 1); err != nil {
						return 0, err
					}
				}
				if _, err := perdure.Step(ctx, "a", world.Work("a", 0, nil)); err != nil {
					return 0, err
				}
				return onward.Wait(ctx)
			})
		}
		w := world.New(t, code(false))
		defer func() { w.End() }()
		if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
			perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.Deploy("second", code(true))
		onwards(w)
		d, err := w.Engine.Describe(context.Background(), "x")
		if d.Head.Status != journal.Completed || d.State.Attributes["region"] != "eu" ||
			err != nil {
			t.Error(d.Head.Status, d.Why, d.State.Attributes, err)
		}
	})
}

// spec: B-1, L-9
func TestDescribeListsWhatABuildDoesNotUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l list
		waits := slices.Repeat([]string{"."}, 10)
		w := world.New(t, renaming(&l, doers["branch"], append([]string{"a", "b", "c"}, waits...)))
		defer func() { w.End() }()
		if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
			perdure.ID("x")); err != nil {
			t.Fatal(err)
		}
		unused := func(want ...string) {
			t.Helper()
			for range 2 {
				onwards(w)
				if d, err := w.Engine.Describe(context.Background(), "x"); err != nil ||
					!slices.Equal(d.State.Unused, want) {
					t.Errorf("unused are %q, want %q, %v", d.State.Unused, want, err)
				}
				w.Crash()
			}
		}
		unused()
		w.Deploy("second", renaming(&l, doers["branch"], append([]string{"c"}, waits...)))
		unused("a", "b")
		w.Deploy("third", renaming(&l, doers["branch"], append([]string{"b", "c"}, waits...)))
		unused("a")
		w.Deploy("fourth", renaming(&l, doers["branch"], append([]string{"a", "b", "c"}, waits...)))
		unused()
	})
}
