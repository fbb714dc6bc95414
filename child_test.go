package perdure_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// A tale is what is done to a world, whatever crashes, and what must come of it.
type tale struct {
	workflows []perdure.Definition
	// begin asks for what is to be done. It is called again until it gives nil.
	begin func(w *world) error
	// over says whether nothing more is to happen.
	over  func(w *world) bool
	check func(t *testing.T, w *world, crashes int)
	// crashed is called before the engine that follows a crash; nil for nothing.
	crashed func(w *world)
}

// overCrashes tells a tale with a crash after its first commit, then anew with one
// after its second, and so on to its last, in both modes.
func overCrashes(t *testing.T, least int, make func() tale) {
	t.Helper()
	for name, linger := range lingers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := 0
			for reached := true; reached && !t.Failed(); n++ {
				synctest.Test(t, func(t *testing.T) { reached = tell(t, make(), linger, n+1) })
			}
			if n-1 < least {
				t.Errorf("it crashed after %d commits, which is less than %d", n-1, least)
			}
		})
	}
}

func tell(t *testing.T, a tale, linger time.Duration, commit int) (reached bool) {
	t.Helper()
	var faulty *storetest.Faulty
	w := &world{t: t, db: memory.New(), workflows: a.workflows}
	w.opts.Build, w.opts.Linger = "test", linger
	w.wrap = func(below store.Store) store.Store {
		faulty = storetest.NewFaulty(below, storetest.Plan{Method: storetest.Commit, Call: commit, Fault: storetest.CrashAfter})
		return faulty
	}
	w.begin()
	defer func() { w.end() }()
	first, crashes, begun := faulty, 0, false
	w.wrap = nil
	for i := 0; !begun || !a.over(w); i++ {
		if crashes == 0 && len(first.Injected()) > 0 {
			crashes++
			if a.crashed != nil {
				a.crashed(w)
			}
			w.crash()
		}
		begun = begun || a.begin(w) == nil
		time.Sleep(time.Duration(1+min(i/20, 9)) * time.Second)
		if i == 10_000 {
			t.Fatalf("crash after commit %d: it does not end", commit)
		}
	}
	if crashes == 0 && len(first.Injected()) > 0 {
		crashes++
		w.crash()
	}
	a.check(t, w, crashes)
	if t.Failed() {
		t.Logf("crash after commit %d", commit)
	}
	return crashes > 0
}

// statusOf gives how a run stands, and 0 where it cannot be read.
func (w *world) statusOf(id string) journal.Status {
	all, err := w.eng.Statuses(context.Background(), id)
	if err != nil {
		return 0
	}
	return all[0].Head.Status
}

// childrenOf gives the heads of a run's children, the oldest first.
func (w *world) childrenOf(id string) []journal.Head {
	w.t.Helper()
	run, err := w.eng.Get(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	heads, _, err := w.eng.Find(context.Background(), perdure.Query{Parent: run.RunID(), Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(heads)
	return heads
}

// A told is an outcome as a parent puts it.
type told struct {
	Status journal.Status
	Output int
	Code   journal.Code
	Err    string
	Odd    bool
}

func toldOf(o perdure.Outcome[int], err error) (told, error) {
	out := told{Status: o.Status, Output: o.Output, Odd: errors.Is(o.Err, errOdd)}
	if o.Err != nil {
		out.Code, out.Err = journal.CodeOf(o.Err), o.Err.Error()
	}
	return out, err
}

// ender is a workflow that ends as it is told to.
func ender() *perdure.Workflow[string, int] {
	return perdure.Define("ender", func(ctx context.Context, how string) (int, error) {
		if _, err := perdure.Step(ctx, "s", work("s", time.Second, nil)); err != nil {
			return 0, err
		}
		switch how {
		case "fails":
			return 1, fmt.Errorf("wrapped: %w", errOdd)
		case "cancels":
			return 1, perdure.Cancel(ctx, "no more")
		case "confirmed":
			return 1, perdure.End(ctx, journal.Confirmed, 8, nil)
		case "compensated":
			return 1, perdure.End(ctx, journal.Compensated, 9, errOdd)
		case "canceled":
			return 1, perdure.End(ctx, journal.Canceled, 0, errOdd)
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
		{"cancels", told{Status: journal.Cancelled, Code: journal.CodeCancelled, Err: "workflow cancelled: no more"}},
		{"is cancelled", told{Status: journal.Cancelled, Code: journal.CodeCancelled, Err: "workflow cancelled: by hand"}},
		{"lasts", told{Status: journal.TimedOut, Code: journal.CodeTimedOut, Err: "workflow timed out"}},
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
			inBothModes(t, func(t *testing.T, w *world) {
				run, err := parent.Start(context.Background(), w.eng, c.how)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				if c.how == "is cancelled" {
					id := string(w.childrenOf(run.ID())[0].ID)
					if err := w.eng.Cancel(context.Background(), id, "by hand"); err != nil {
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
				for _, h := range w.childrenOf(run.ID()) {
					if h.Status != c.want.Status {
						t.Errorf("the child is %v", h.Status)
					}
					w.history(string(h.ID))
				}
				w.history(run.ID())
			}, parent, child)
		})
	}
}

// family is a parent that starts children in a loop, with keys, in a scope and in
// branches, and adds up what they give.
func family(l *ledger) (parent *perdure.Workflow[int, int], child *perdure.Workflow[int, int]) {
	child = perdure.Define("child", func(ctx context.Context, n int) (int, error) {
		if _, err := perdure.Step(ctx, "effect", l.effect(fmt.Sprint("child ", n), time.Second)); err != nil {
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
	overCrashes(t, 10, func() tale {
		l := newLedger()
		parent, child := family(l)
		return tale{
			workflows: []perdure.Definition{parent, child},
			begin: func(w *world) error {
				_, err := parent.Start(context.Background(), w.eng, 0, perdure.ID("p"))
				return err
			},
			over: func(w *world) bool { return w.statusOf("p").IsTerminal() },
			check: func(t *testing.T, w *world, crashes int) {
				run, err := parent.Get(context.Background(), w.eng, "p")
				if err != nil {
					t.Fatal(err)
				}
				if out, err := run.Result(context.Background()); out != 21 || err != nil {
					t.Error(out, err)
				}
				all, _, err := w.eng.Find(context.Background(), perdure.Query{Workflow: "child"})
				if err != nil || len(all) != 7 || len(w.childrenOf("p")) != 7 {
					t.Errorf("%d runs of the child, %d children, %v", len(all), len(w.childrenOf("p")), err)
				}
				for _, h := range all {
					if h.Status != journal.Completed {
						t.Errorf("child %s is %v", h.ID, h.Status)
					}
					w.history(string(h.ID))
				}
				heard := map[journal.RunID]int{}
				for _, e := range w.history("p") {
					if e.Kind == journal.ChildCompleted {
						heard[e.Detail.Other]++
					}
				}
				if len(heard) != 7 {
					t.Errorf("the parent has heard of %d ends: %v", len(heard), heard)
				}
				if len(l.order()) != 7 {
					t.Errorf("effects: %v", l.order())
				}
				for key, n := range l.calls() {
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
			inBothModes(t, func(t *testing.T, w *world) {
				began = 0
				holder := other
				if same {
					holder = lasting
				}
				held, err := holder.Start(context.Background(), w.eng, 0, perdure.ID("mine"))
				if err != nil {
					t.Fatal(err)
				}
				run, got, err := result(w, parent, same)
				if err != nil || got.Status != journal.Failed || got.Code != journal.CodeConflict {
					t.Errorf("%+v %v", got, err)
				}
				if n := len(w.childrenOf(run.ID())); n != 0 || began != 0 {
					t.Errorf("%d children, of which %d began", n, began)
				}
				if s := w.statusOf("mine"); s.IsTerminal() {
					t.Errorf("who has the ID is %v", s)
				}
				w.history(run.ID())
				if _, err := held.Result(context.Background()); err != nil || same {
					return
				}
				_, got, err = result(w, parent, false) // it is free now
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
	parent := perdure.Define("parent", func(ctx context.Context, _ int) ([]journal.RunID, error) {
		own, given := child.Child(ctx, "returns"), child.Child(ctx, "returns", perdure.ID("given"), perdure.Dedup(time.Minute))
		_, e1 := own.Await(ctx)
		_, e2 := given.Await(ctx)
		return []journal.RunID{own.RunID(), given.RunID()}, errors.Join(e1, e2)
	})
	inBothModes(t, func(t *testing.T, w *world) {
		run, ids, err := result(w, parent, 0)
		if err != nil {
			t.Fatal(err)
		}
		heads := w.childrenOf(run.ID())
		if len(heads) != 2 || heads[0].ID != ids[0] || heads[1].ID != ids[1] {
			t.Fatalf("%v, %v", heads, ids)
		}
		if heads[0].WorkflowID != string(ids[0]) || heads[1].WorkflowID != "given" || heads[1].Keep != time.Minute {
			t.Errorf("workflow IDs %s, %s, kept %v", heads[0].WorkflowID, heads[1].WorkflowID, heads[1].Keep)
		}
	}, parent, child)
}

// spec: R-23, B-1
func TestChildIsKnownByItsKeyAndItsOldName(t *testing.T) {
	inBothModes(t, func(t *testing.T, w *world) {
		slow := func(ctx context.Context, n int) (int, error) { return n, perdure.Sleep(ctx, time.Hour) }
		old, renamed := perdure.Define("old", slow), perdure.Define("renamed", slow)
		both := func(child *perdure.Workflow[int, int], keys []string, opts ...perdure.ChildOption) *perdure.Workflow[int, []int] {
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
		w.deploy("one", both(old, []string{"a", "b"}), old)
		run, err := w.eng.Start(context.Background(), "parent", []byte("0"), perdure.ID("p"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		w.deploy("two", both(renamed, []string{"b", "a", "c"}, perdure.RenamedFrom("old")), old, renamed)
		run, err = w.eng.Get(context.Background(), run.ID())
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); string(out) != "[2,1,3]" || err != nil {
			t.Error(string(out), err)
		}
		var started []string
		for _, h := range w.childrenOf("p") {
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
			return 0, errOdd
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
	inBothModes(t, func(t *testing.T, w *world) {
		run, got, err := result(w, parent, 0)
		if err != nil || got != [2]int{n, n / 10} {
			t.Error(got, err)
		}
		w.history(run.ID())
	}, parent, child)
}

// spec: R-23
func TestChildOfAnUnknownWorkflowWaitsUntilItIsKnown(t *testing.T) {
	child := ender()
	parent := perdure.Define("parent", func(ctx context.Context, _ int) (int, error) {
		return child.Child(ctx, "returns").Await(ctx)
	})
	inBothModes(t, func(t *testing.T, w *world) {
		run, err := parent.Start(context.Background(), w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		id := string(w.childrenOf(run.ID())[0].ID)
		d, err := w.eng.Describe(context.Background(), id)
		if err != nil || d.Head.Status != journal.Pending || d.Why != "no engine here knows workflow ender" {
			t.Errorf("%v %q %v", d.Head.Status, d.Why, err)
		}
		if d, _ := w.eng.Describe(context.Background(), run.ID()); d.Head.Status != journal.Waiting || d.Why != "it waits for child ender, run "+id {
			t.Errorf("the parent is %v: %q", d.Head.Status, d.Why)
		}
		if err := w.eng.Register(child); err != nil {
			t.Fatal(err)
		}
		w.workflows = append(w.workflows, child)
		if out, err := run.Result(context.Background()); out != 7 || err != nil {
			t.Error(out, err)
		}
	}, parent)
}
