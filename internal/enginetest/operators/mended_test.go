package operators

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// act does something with a run, whatever crashes, and returns the result.
func act(env *perduretest.Env, id string, do admin.Order) (out admin.Acted) {
	env.Helper()
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		out, err = admin.New(eng).Act(env.Context(), id, do)
		return err
	}); err != nil {
		env.Fatal(err)
	}
	return out
}

// hasBy reports whether the journal of a run has an action of an operator, with the reason.
func hasBy(env *perduretest.Env, id, by, reason string) bool {
	env.Helper()
	var all []journal.Entry
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		all, err = eng.History(env.Context(), id, 0, 0)
		return err
	}); err != nil {
		env.Fatal(err)
	}
	return slices.ContainsFunc(all, func(e journal.Entry) bool {
		return e.Detail != nil && e.Detail.By == by && e.Detail.Reason == reason
	})
}

// refused demands that an order is refused with that code.
func refused(env *perduretest.Env, id string, do admin.Order, code journal.Code) {
	env.Helper()
	err := env.Do(func(eng *perdure.Engine) error {
		_, err := admin.New(eng).Act(env.Context(), id, do)
		return err
	})
	if journal.CodeOf(err) != code {
		env.Errorf("%s of %s: %v, want %s", do.Action, id, err, code)
	}
}

// becomes waits until the run has that status, and returns its description.
func becomes(env *perduretest.Env, id string, s journal.Status) (d perdure.Description) {
	env.Helper()
	for range 200 {
		if err := env.Do(func(eng *perdure.Engine) (err error) {
			d, err = eng.Describe(env.Context(), id)
			return err
		}); err != nil {
			env.Fatal(err)
		}
		if d.Head.Status == s {
			return d
		}
		env.Sleep(time.Second)
	}
	env.Fatalf("run %s is %v, want %v: %s, %v", id, d.Head.Status, s, d.Why, d.State.Failure)
	return d
}

// A declared has the steps a, b and c, one after the other. In a pattern, each has a compensation.
type declared struct {
	of    perdure.Definition
	begin func(*perduretest.Env) string // returns the run ID
	path  string                        // of the scope of its steps
	undo  bool
}

func from[I, O any](w *perdure.Workflow[I, O], in I) func(*perduretest.Env) string {
	return func(env *perduretest.Env) string {
		return perduretest.Start(env, w, in, perdure.ID("x")).RunID()
	}
}

func declarations(l *patterntest.Ledger) map[string]declared {
	did := func(what string) func(context.Context, none) (string, error) {
		return func(ctx context.Context, _ none) (string, error) {
			return what, l.Book(ctx, what)
		}
	}
	undo := func(what string) func(context.Context, none, string) error {
		return func(ctx context.Context, _ none, _ string) error {
			return l.Book(ctx, "undo "+what)
		}
	}
	code := perdure.Define("code", func(ctx context.Context, _ int) (string, error) {
		for _, what := range []string{"a", "b", "c"} {
			if _, err := perdure.Step(ctx, what, func(ctx context.Context) (string, error) {
				return did(what)(ctx, none{})
			}, perdure.NoRetry); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	graph := dag.New[int]("graph", perdure.NoRetry)
	a := dag.Add(graph, "a", did("a")).Undo(undo("a"))
	b := dag.Add(graph, "b", did("b")).Undo(undo("b")).After(a)
	dag.Add(graph, "c", did("c")).Undo(undo("c")).After(b)
	steps := saga.New[int]("saga")
	first := saga.Add(steps, "a", did("a")).Undo(undo("a"))
	second := saga.Add(steps, "b", did("b")).Undo(undo("b")).After(first)
	saga.Add(steps, "c", did("c")).Undo(undo("c")).After(second)
	whole := saga.Compose[int]("whole")
	saga.Include(whole, "part", steps)
	return map[string]declared{
		"code":        {code, from(code, 1), "", false},
		"graph":       {graph, from(graph.Workflow, 1), "", true},
		"saga":        {steps, from(steps.Workflow, 1), "", true},
		"composition": {whole, from(whole.Workflow, 1), "part/", true},
	}
}

type none struct{}

// A failed step is skipped: the run goes on with the given output, and what was undone is done
// again, under a new key. A skipped step is not undone. A second call returns the same run.
//
// spec: R-40, B-8
func TestAFailedStepIsSkipped(t *testing.T) {
	var l patterntest.Ledger
	for name, d := range declarations(&l) {
		t.Run(name, func(t *testing.T) {
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				l.Reset("b")
				id := d.begin(env)
				becomes(env, id, journal.Failed)
				l.Break()
				do := admin.Order{
					Action: journal.ActionSkip, Step: d.path + "b", Output: []byte(`"by hand"`),
					By: "ada", Reason: "paid",
				}
				refused(env, id, admin.Order{
					Action: journal.ActionSkip, Step: d.path + "a",
				}, journal.CodeWrongState)
				acted := act(env, id, do)
				after := becomes(env, acted.RunID, journal.Completed)
				want := "a 1, c 1"
				if d.undo {
					want = "a 2, c 1, undo a 1"
				}
				if got := l.String(); got != want {
					env.Errorf("took effect: %s, want %s", got, want)
				}
				if o := after.State.Origin; string(o.Run) != id || o.Action != do.Action ||
					o.Step != do.Step || o.By != "ada" || o.Reason != "paid" {
					env.Errorf("its origin is %+v", o)
				}
				if again := act(env, id, do); again.RunID != acted.RunID || again.New {
					env.Errorf("a second call made %+v", again)
				}
				if before := becomes(env, id, journal.Failed); before.GoesOnAs != acted.RunID ||
					before.GoesOnBy != "skip" {
					env.Errorf("the failed run goes on as %s by %s", before.GoesOnAs,
						before.GoesOnBy)
				}
				if d.undo {
					back := act(env, acted.RunID, admin.Order{Action: journal.ActionCompensate})
					becomes(env, back.RunID, journal.Compensated)
					if got := l.String(); got != "a 2, c 1, undo a 2, undo c 1" {
						env.Errorf("after the rollback: %s", got)
					}
				}
				return nil
			}, d.of)
		})
	}
}

// A completed run is forked from a step: that step and what follows run again, under new keys, and
// what came before does not. The fork inherits the undo stack, so the source is not undone.
//
// spec: B-8, L-1, R-15
func TestACompletedRunIsForkedFromAStep(t *testing.T) {
	var l patterntest.Ledger
	for name, d := range declarations(&l) {
		t.Run(name, func(t *testing.T) {
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				l.Reset()
				id := d.begin(env)
				becomes(env, id, journal.Completed)
				l.Break()
				do := admin.Order{Action: journal.ActionFork, Step: d.path + "b", By: "ada"}
				p, err := admin.New(env.Engine()).Preview(env.Context(), id, do)
				inherited := []string{d.path + "a"}
				if !d.undo {
					inherited = nil
				}
				if err != nil && journal.CodeOf(err) != journal.CodeWrongState ||
					err == nil && (!slices.Equal(p.Kept, []string{d.path + "a"}) ||
						!slices.Equal(p.Again, []string{d.path + "b", d.path + "c"}) ||
						!slices.Equal(p.Inherited, inherited)) {
					env.Errorf("the preview is %+v, %v", p, err)
				}
				acted := act(env, id, do)
				becomes(env, acted.RunID, journal.Completed)
				if got := l.String(); got != "a 1, b 2, c 2" {
					env.Errorf("took effect: %s", got)
				}
				if ran := l.Ran(); strings.Contains(ran, "a") || !strings.Contains(ran, "c") {
					env.Errorf("the fork ran %s, want b and c", ran)
				}
				refused(env, id, admin.Order{Action: journal.ActionCompensate},
					journal.CodeWrongState)
				if d.undo {
					back := act(env, acted.RunID, admin.Order{Action: journal.ActionCompensate})
					becomes(env, back.RunID, journal.Compensated)
					if got := l.String(); got !=
						"a 1, b 2, c 2, undo a 1, undo b 1, undo c 1" {
						env.Errorf("after the rollback: %s", got)
					}
				}
				return nil
			}, d.of)
		})
	}
}

// A fork that fails and is retried keeps its own keys, and a rollback of it undoes the step that it
// has kept under the keys of the source. A fork of a retry has keys of its own.
//
// spec: R-15, B-8
func TestAForkThatIsRetriedKeepsItsKeys(t *testing.T) {
	var l patterntest.Ledger
	for name, d := range declarations(&l) {
		t.Run(name, func(t *testing.T) {
			perduretest.Test(t, func(env *perduretest.Env) {
				l.Reset()
				id := d.begin(env)
				becomes(env, id, journal.Completed)
				l.Break("c")
				fork := act(env, id, admin.Order{Action: journal.ActionFork, Step: d.path + "b"})
				after, later := "a 1, b 2, c 1", "a 1, b 2, c 2"
				if d.undo {
					after = "a 1, b 2, c 1, undo a 1, undo b 1"
					later = "a 2, b 3, c 2, undo a 1, undo b 1"
				}
				becomes(env, fork.RunID, journal.Failed)
				if got := l.String(); got != after {
					env.Errorf("after the fork: %s, want %s", got, after)
				}
				l.Break()
				again := act(env, fork.RunID, admin.Order{Action: journal.ActionRetry})
				becomes(env, again.RunID, journal.Completed)
				if got := l.String(); got != later {
					env.Errorf("after that: %s, want %s", got, later)
				}
				last := act(env, again.RunID,
					admin.Order{Action: journal.ActionFork, Step: d.path + "c"})
				becomes(env, last.RunID, journal.Completed)
				if got := l.String(); !strings.Contains(got, "c 3") {
					env.Errorf("after a fork of the retry: %s, want c 3", got)
				}
			}, d.of)
		})
	}
}

// A fork of a failed run from a step before the one that has failed does all again from there.
//
// spec: B-8
func TestAFailedRunIsForkedFromAnEarlierStep(t *testing.T) {
	var l patterntest.Ledger
	d := declarations(&l)["code"]
	perduretest.Test(t, func(env *perduretest.Env) {
		l.Reset("c")
		id := d.begin(env)
		becomes(env, id, journal.Failed)
		do := admin.Order{Action: journal.ActionFork, Step: "a"}
		p, err := admin.New(env.Engine()).Preview(env.Context(), id, do)
		if want := []string{"a", "b", "c"}; err != nil || !slices.Equal(p.Again, want) {
			env.Errorf("again %v, %v", p.Again, err)
		}
		l.Break()
		fork := act(env, id, do)
		becomes(env, fork.RunID, journal.Completed)
		if ran := l.Ran(); ran != "a, b, c" {
			env.Errorf("ran %s", ran)
		}
	}, d.of)
}

// An output that the code cannot read fails the run. Then the run is forked from the step.
//
// spec: R-40
func TestASkipWithAnOutputOfAnotherTypeIsMendedByAFork(t *testing.T) {
	var l patterntest.Ledger
	d := declarations(&l)["code"]
	perduretest.Test(t, func(env *perduretest.Env) {
		l.Reset("b")
		id := d.begin(env)
		becomes(env, id, journal.Failed)
		do := admin.Order{Action: journal.ActionSkip, Step: "b", Output: []byte(`{"x":1}`)}
		skipped := act(env, id, do)
		becomes(env, skipped.RunID, journal.Failed)
		_, err := admin.New(env.Engine()).Act(env.Context(), skipped.RunID, do)
		if journal.CodeOf(err) != journal.CodeWrongState ||
			!strings.Contains(err.Error(), "fork the run from it") {
			env.Errorf("a second skip: %v", err)
		}
		l.Break()
		fork := act(env, skipped.RunID, admin.Order{Action: journal.ActionFork, Step: "b"})
		becomes(env, fork.RunID, journal.Completed)
		if got := l.String(); got != "a 1, b 1, c 1" {
			env.Errorf("took effect: %s", got)
		}
	}, d.of)
}

// A completed run is undone on demand, once, in a run of its own: the last step first. A failing
// compensation stops it as COMPENSATION_FAILED; resumed, it goes on from there. The completed run
// stays so. A run after the rollback does its steps again under new keys.
//
// spec, L-1
func TestACompletedRunIsUndoneOnDemand(t *testing.T) {
	var l patterntest.Ledger
	for name, d := range declarations(&l) {
		t.Run(name, func(t *testing.T) {
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				l.Reset("undo b")
				id := d.begin(env)
				becomes(env, id, journal.Completed)
				do := admin.Order{Action: journal.ActionCompensate, By: "ada", Reason: "returned"}
				if !d.undo {
					refused(env, id, do, journal.CodeWrongState)
					return nil
				}
				acted := act(env, id, do)
				stalled := becomes(env, acted.RunID, journal.CompensationFailed)
				if !strings.Contains(stalled.Why, "2 not yet undone") {
					env.Errorf("it is stalled: %s", stalled.Why)
				}
				if got := l.String(); got != "a 1, b 1, c 1, undo c 1" {
					env.Errorf("stalled: %s", got)
				}
				refused(env, id, admin.Order{Action: journal.ActionFork, Step: d.path + "a"},
					journal.CodeConflict)
				l.Break()
				if err := env.Do(func(eng *perdure.Engine) error {
					_, err := admin.New(eng).Act(env.Context(), acted.RunID,
						admin.Order{Action: journal.ActionResume, By: "bob", Reason: "mended"})
					if journal.CodeOf(err) == journal.CodeWrongState {
						return nil // a crash has hidden that it was resumed
					}
					return err
				}); err != nil {
					env.Fatal(err)
				}
				becomes(env, acted.RunID, journal.Compensated)
				if !hasBy(env, acted.RunID, "bob", "mended") {
					env.Error("the journal does not have who has resumed the rollback")
				}
				if ran := l.Ran(); strings.Contains(ran, "undo c") {
					env.Errorf("resumed, it ran %s", ran)
				}
				want := "a 1, b 1, c 1, undo a 1, undo b 1, undo c 1"
				if got := l.String(); got != want {
					env.Errorf("took effect: %s, want %s", got, want)
				}
				if again := act(env, id, do); again.RunID != acted.RunID || again.New {
					env.Errorf("a second rollback is %+v", again)
				}
				err := env.Do(func(eng *perdure.Engine) error {
					_, err := admin.New(eng).Preview(env.Context(), id, do)
					return err
				})
				if journal.CodeOf(err) != journal.CodeWrongState ||
					!strings.Contains(err.Error(), acted.RunID+" goes on from it already") {
					env.Errorf("the preview of a second rollback: %v", err)
				}
				becomes(env, id, journal.Completed)
				fork := act(env, acted.RunID, admin.Order{
					Action: journal.ActionFork, Step: d.path + "a",
				})
				becomes(env, fork.RunID, journal.Completed)
				if got := l.String(); got != "a 2, b 2, c 2, undo a 1, undo b 1, undo c 1" {
					env.Errorf("forked after the rollback: %s", got)
				}
				return nil
			}, d.of)
		})
	}
}

// A run is terminated at once: nothing is undone, and what is not undone is listed.
//
// spec: R-40, L-10
func TestATerminatedRunUndoesNothing(t *testing.T) {
	var l patterntest.Ledger
	s := saga.New[int]("saga")
	a := saga.Add(s, "a", func(ctx context.Context, _ none) (string, error) {
		return "a", l.Book(ctx, "a")
	}).Undo(func(ctx context.Context, _ none, _ string) error { return l.Book(ctx, "undo a") })
	saga.Add(s, "b", func(ctx context.Context, _ none) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}).After(a).Timeout(time.Minute)
	for name, before := range map[string]*admin.Order{
		"while it runs":      nil,
		"while it is parked": {Action: journal.ActionSuspend},
	} {
		t.Run(name, func(t *testing.T) {
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				l.Reset()
				id := perduretest.Start(env, s.Workflow, 1, perdure.ID("x")).RunID()
				env.Sleep(time.Second)
				if before != nil {
					act(env, id, *before)
				}
				do := admin.Order{Action: journal.ActionTerminate, By: "ada", Reason: "enough"}
				act(env, id, do)
				d := becomes(env, id, journal.Cancelled)
				if got := l.String(); got != "a 1" {
					env.Errorf("took effect: %s, want a 1", got)
				}
				if left := d.State.Undoable(); !slices.Equal(left, []string{"a"}) {
					env.Errorf("not undone: %v, want a", left)
				}
				if d.State.By != "ada" || d.State.Mode != journal.ActionTerminate ||
					d.State.Reason != "enough" {
					env.Errorf("it was ended by %q, %q: %s", d.State.By, d.State.Mode,
						d.State.Reason)
				}
				act(env, id, do) // once more changes nothing
				return nil
			}, s)
		})
	}
}

// A TCC that has decided carries out its decision: it is not terminated.
//
// spec: F-38, R-40
func TestATCCThatHasDecidedIsNotTerminated(t *testing.T) {
	c := tcc.New[int]("tcc").Park()
	tcc.Add(c, "a", func(context.Context, none) (string, error) { return "", nil }).
		Confirm(func(context.Context, none, string) error {
			return perdure.Permanent(errors.New("closed"))
		}).
		Cancel(func(context.Context, none, string) error { return nil })
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		id := perduretest.Start(env, c.Workflow, 1, perdure.ID("x")).RunID()
		becomes(env, id, journal.Suspended)
		refused(env, id, admin.Order{Action: journal.ActionTerminate}, journal.CodeWrongState)
		return nil
	}, c)
}

// An order that is not valid is refused, and says what is allowed.
//
// spec: R-40
func TestOrdersThatAreNotValid(t *testing.T) {
	for name, c := range map[string]struct {
		do   admin.Order
		want string
	}{
		"no action":   {admin.Order{}, "allowed are retry, skip"},
		"unknown":     {admin.Order{Action: "mend"}, `action "mend" is not valid`},
		"no step":     {admin.Order{Action: journal.ActionFork}, "needs a step"},
		"odd step":    {admin.Order{Action: journal.ActionRetry, Step: "a"}, "step does not go"},
		"odd output":  {admin.Order{Action: "retry", Output: []byte("1")}, "output does"},
		"odd input":   {admin.Order{Action: "resume", Input: []byte("1")}, "input does"},
		"no JSON":     {admin.Order{Action: "skip", Output: []byte("{")}, "not JSON"},
		"long name":   {admin.Order{Action: "retry", By: strings.Repeat("x", 256)}, "255"},
		"not in UTF8": {admin.Order{Action: journal.ActionRetry, By: "\xff"}, "UTF-8"},
	} {
		if err := c.do.Validate(); journal.CodeOf(err) != journal.CodeInvalid ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// Two operators mend a run at the same time: one run is made, and the other operator is told of it,
// or of the action that came first.
//
// spec: L-1, R-40
func TestTwoOperatorsMakeOneRun(t *testing.T) {
	for name, first := range map[string]journal.Action{
		"the same action": journal.ActionRetry, "another action": journal.ActionSkip,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHands("charge")
				order := s.order()
				w := world.New(t, order)
				defer w.End()
				old := world.Start(w, order, 1, perdure.ID("ord-1"))
				ends(t, old, "broken")
				m := &intruder{Store: w.DB}
				c, err := perdure.NewClient(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				var made admin.Acted
				m.found = func() {
					made, err = admin.New(w.Engine).Act(t.Context(), old.RunID(),
						admin.Order{Action: first, By: "ada"})
					if err != nil {
						t.Error(err)
					}
					synctest.Wait()
				}
				second, err := admin.New(c).Act(t.Context(), old.RunID(),
					admin.Order{Action: journal.ActionRetry, By: "bob"})
				switch {
				case first == journal.ActionRetry && (err != nil || second.RunID != made.RunID ||
					second.New):
					t.Errorf("the second is told %+v, %v, the first %+v", second, err, made)
				case first == journal.ActionSkip && journal.CodeOf(err) != journal.CodeWrongState &&
					journal.CodeOf(err) != journal.CodeConflict:
					t.Errorf("the second is told %+v, %v", second, err)
				}
				if n := len(w.Chain("ord-1")); n != 2 {
					t.Errorf("there are %d runs, want 2", n)
				}
			})
		})
	}
}
