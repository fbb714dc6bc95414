package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/patterntest"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/saga"
)

// A stuck saga has three effects. The second cannot be undone. The saga is undone from the third
// on.
func stuck(w *world, timeout time.Duration, mended *bool) *saga.Saga[string] {
	def := saga.New[string]("stuck", perdure.Timeout(timeout)).ParkOnUndoError()
	var last saga.Dependency
	for _, id := range []string{"one", "two", "three"} {
		step := saga.Add(def, id, func(ctx context.Context, _ string) (string, error) {
			w.begin(ctx, id)
			w.apply(ctx, id, func() { w.there[id] = true })
			return id, nil
		}).Undo(func(ctx context.Context, _, _ string) error {
			w.begin(ctx, "undo "+id)
			if id == "two" && !*mended {
				return errBroken
			}
			w.apply(ctx, "undo "+id, func() { delete(w.there, id) })
			return nil
		})
		if last != nil {
			step.After(last)
		}
		last = step
	}
	saga.Add(def, "bad", func(ctx context.Context, how string) (string, error) {
		if how == "wait" {
			return "", sleep(ctx, time.Minute)
		}
		return "", errBroken
	}).After(last)
	return def
}

// parked returns the only run that is parked.
func parked(env *perduretest.Env) admin.Parked {
	env.Helper()
	var out []admin.Parked
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		out, _, err = admin.New(eng).Parked(env.Context(), journal.Cursor{}, 0)
		return err
	}); err != nil || len(out) != 1 {
		env.Fatalf("%d runs are parked, %v", len(out), err)
	}
	return out[0]
}

// spec: F-31, R-9, F-29
func TestASagaThatCannotBeUndoneWaitsForAnOperator(t *testing.T) {
	for choice, want := range map[string]string{
		"retry": "one COMPENSATED, two COMPENSATED, three COMPENSATED, bad FAILED; left []",
		"skip": "one COMPENSATED, two COMPENSATION_FAILED, three COMPENSATED, bad FAILED; " +
			"left [two]",
		"handled": "one COMPENSATED, two COMPENSATED, three COMPENSATED, bad FAILED; left [two]",
	} {
		t.Run(choice, func(t *testing.T) {
			w, mended := &world{}, false
			def := stuck(w, time.Minute, &mended)
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				mended = false
				w.reset()
				run := perduretest.Start(env, def.Workflow, "")
				env.Sleep(time.Hour) // the timeout has no effect any more
				p := parked(env)
				if p.Head.Status != journal.CompensationFailed ||
					!strings.Contains(p.Why, "2 not yet undone") || len(p.Decisions) != 1 {
					env.Errorf("it is %v: %s, %v", p.Head.Status, p.Why, p.Decisions)
				}
				if !cancel(env, run.ID()) {
					env.Error("it could be cancelled")
				}
				run.Is(journal.CompensationFailed)
				mended = true
				name := "undo:two"
				if choice == "skip" && len(p.Decisions) == 1 {
					name = p.Decisions[0].Path // as it is shown: undo:two#2
				}
				if err := env.Do(func(eng *perdure.Engine) error {
					return eng.Decide(env.Context(), run.ID(), name,
						perdure.Decision{Choice: choice, Reason: "by hand"})
				}); err != nil {
					env.Error(err)
				}
				_, _ = run.Result()
				r, _, letters := w.look(env, def, run.ID())
				w.mu.Lock()
				defer w.mu.Unlock()
				left := []string{}
				for id := range w.there {
					left = append(left, id)
				}
				if got := fmt.Sprintf("%s; left %s", statuses(r), left); got != want ||
					r.Status != perdure.StatusFailed || blame(r.Err) != "step bad" {
					env.Errorf("it is %v, %v: %s, want %s", r.Status, r.Err, got, want)
				}
				if !slices.Equal(letters, []string{"bad"}) || len(w.wrong) > 0 {
					env.Errorf("dead letters %q, %q", letters, w.wrong)
				}
				if i := slices.IndexFunc(r.Undo.Steps, func(u report.Undone) bool {
					return u.ID == "two"
				}); i != 1 || (r.Undo.Steps[1].Err == nil) != (choice == "retry") {
					env.Errorf("the report has %+v", r.Undo.Steps)
				}
				return statuses(r)
			}, def)
		})
	}
}

// spec: F-31, F-29
func TestASagaThatIsCancelledAndCannotBeUndoneWaitsForAnOperator(t *testing.T) {
	w, mended := &world{}, false
	def := stuck(w, time.Hour, &mended)
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		mended = false
		w.reset()
		run := perduretest.Start(env, def.Workflow, "wait")
		env.Sleep(30 * time.Second)
		cancel(env, run.ID())
		env.Sleep(time.Hour)
		if p := parked(env); p.Head.Status != journal.CompensationFailed ||
			!strings.Contains(p.Why, "2 not yet undone") {
			env.Errorf("it is %v: %s", p.Head.Status, p.Why)
		}
		mended = true
		if err := env.Do(func(eng *perdure.Engine) error {
			return eng.Decide(env.Context(), run.ID(), "undo:two", perdure.Decision{
				Choice: "retry",
			})
		}); err != nil {
			env.Error(err)
		}
		run.Fails(&perdure.Error{Code: perdure.CodeCancelled})
		r, _, letters := w.look(env, def, run.ID())
		if got := statuses(r); len(w.there) > 0 || len(letters) > 0 ||
			r.Status != perdure.StatusCancelled ||
			got != "one COMPENSATED, two COMPENSATED, three COMPENSATED, bad CANCELLED" {
			env.Errorf("it is %v: %s, left are %v, dead letters %q", r.Status, got, w.there,
				letters)
		}
		return nil
	}, def)
}

// While a member of a composition is undone and waits for an operator, the composition is
// COMPENSATING and COMPENSATION_FAILED: neither its timeout nor a cancel ends it. When an optional
// member is undone, the composition continues.
//
// spec: F-31, F-35
func TestACompositionIsNotStoppedWhileAMemberIsUndone(t *testing.T) {
	for _, optional := range []bool{false, true} {
		pay := saga.New[int]("pay").ParkOnUndoError()
		a := saga.Add(pay, "a", nothing).Undo(func(context.Context, int, int) error {
			return errBroken
		})
		saga.Add(pay, "b", func(context.Context, int) (int, error) { return 0, errBroken }).After(a)
		ship := saga.New[int]("ship")
		saga.Add(ship, "c", nothing)
		buy := saga.Compose[int]("buy", perdure.Timeout(time.Minute))
		m := saga.Include(buy, "m", pay)
		if optional {
			m.Optional()
		}
		saga.Include(buy, "ship", ship).After(m)
		perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
			run := perduretest.Start(env, buy.Workflow, 1)
			env.Sleep(time.Hour)
			run.Is(journal.CompensationFailed)
			err := env.Do(func(eng *perdure.Engine) error {
				return eng.Cancel(env.Context(), run.ID(), "enough")
			})
			if !errors.Is(err, &perdure.Error{Code: journal.CodeWrongState}) {
				env.Errorf("it can be cancelled: %v", err)
			}
			if err := env.Do(func(eng *perdure.Engine) error {
				return eng.Decide(env.Context(), run.ID(), "undo:m.a",
					perdure.Decision{Choice: "handled"})
			}); err != nil {
				env.Error(err)
			}
			_, _ = run.Result()
			if optional {
				run.Is(journal.TimedOut) // its time has passed meanwhile
			} else {
				run.Is(journal.Failed)
				patterntest.Letters(env, 1)
			}
			return nil
		}, buy)
	}
}
