package effect_test

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
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/effect"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
)

// order is a workflow of three steps that can be undone: one in the workflow, one in a branch, one
// in a loop. Then it does what is left to do.
func order(d *shelf, then func(context.Context) error, opts ...perdure.StepOption,
) *perdure.Workflow[int, string] {
	step := func(ctx context.Context, name, id string) error {
		_, err := perdure.Step(ctx, name, func(ctx context.Context) (string, error) {
			d.apply(ctx, id)
			return id, nil
		}, perdure.NoRetry, effect.Undo(d.undo, opts...))
		return err
	}
	return perdure.Define("order", func(ctx context.Context, _ int) (string, error) {
		if err := step(ctx, "pack", "undoable 1"); err != nil {
			return "", err
		}
		f := perdure.Go(ctx, "branch", func(ctx context.Context) (int, error) {
			return 0, step(ctx, "pack", "undoable 2")
		})
		if _, err := f.Await(ctx); err != nil {
			return "", err
		}
		if err := step(ctx, "pack", "undoable 3"); err != nil {
			return "", err
		}
		return "done", then(ctx)
	})
}

var paths = []string{"pack", "branch/pack", "pack#2"}

// choose checks how the only parked run stands, and decides about it.
func choose(env *perduretest.Env, id, left, choice string, mend func()) {
	env.Helper()
	var parked []admin.Parked
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		parked, _, err = admin.New(eng).Parked(env.Context(), journal.Cursor{}, 0)
		return err
	}); err != nil || len(parked) != 1 || len(parked[0].Decisions) != 1 ||
		parked[0].Head.Status != journal.CompensationFailed ||
		!strings.HasPrefix(parked[0].Why, "rollback incomplete: "+left+" not yet undone: ") {
		env.Fatalf("parked are %+v, %v", parked, err)
	}
	mend()
	if err := env.Do(func(eng *perdure.Engine) error {
		return eng.Decide(env.Context(), id, parked[0].Decisions[0].Path,
			perdure.Decision{Choice: choice})
	}); err != nil {
		env.Error(err)
	}
}

// A rollback that stalls at any position goes on from there.
//
// spec: B-25, F-31, R-9
func TestARollbackThatStallsWaitsForAnOperator(t *testing.T) {
	for at := range paths {
		for _, choice := range []string{"retry", "skip", "handled"} {
			t.Run(paths[at]+" "+choice, func(t *testing.T) {
				d := newShelf()
				def := order(d, func(context.Context) error { return errBad }, effect.Parks)
				bad := fmt.Sprint("undoable ", at+1)
				perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
					d.reset()
					d.broken[bad] = true
					run := perduretest.Start(env, def, 0)
					env.Sleep(time.Hour)
					cancelled(env, run.ID()) // has no effect
					choose(env, run.ID(), fmt.Sprint(at+1), choice, func() {
						if choice == "retry" {
							delete(d.broken, bad)
						}
					})
					run.Fails(errBad)
					r := run.Report()
					var got []string
					for _, u := range r.Undo.Steps {
						got = append(got, u.ID)
						if u.Undone == (u.ID == paths[at] && choice == "skip") {
							env.Errorf("%s: undone is %v", u.ID, u.Undone)
						}
					}
					want := slices.Clone(paths)
					slices.Reverse(want)
					left := choice != "retry"
					if !slices.Equal(got, want) || r.Status != perdure.StatusFailed ||
						slices.Contains(d.there, bad) != left || len(d.there) > 1 {
						env.Errorf("%v: %q, left %q", r.Status, got, d.there)
					}
					return nil
				}, def)
			})
		}
	}
}

// spec: B-25, F-30
func TestACompensationThatFailsIsPassedOver(t *testing.T) {
	d := newShelf()
	def := order(d, func(context.Context) error { return errBad })
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		d.reset()
		d.broken["undoable 2"] = true
		run := perduretest.Start(env, def, 0)
		run.Fails(errBad)
		r := run.Report()
		if !slices.Equal(d.there, []string{"undoable 2"}) || r.Undo.All ||
			len(r.Undo.Steps) != 3 || !errors.Is(r.Undo.Steps[1].Err, errBad) {
			env.Errorf("left are %q, %+v", d.there, r.Undo)
		}
		return nil
	}, def)
}

// spec: B-25, R-10
func TestACompletedRunIsRolledBackOnDemand(t *testing.T) {
	for _, broken := range []bool{false, true} {
		d := newShelf()
		def := order(d, func(context.Context) error { return nil })
		perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
			d.reset()
			if d.broken["undoable 2"] = broken; !broken {
				delete(d.broken, "undoable 2")
			}
			run := perduretest.Start(env, def, 0)
			run.Returns("done")
			back := rollBack(env, run.RunID())
			if again := rollBack(env, run.RunID()); again != back {
				env.Errorf("asked twice, it is rolled back by %s and %s", back, again)
			}
			env.Settle()
			if broken {
				choose(env, back, "2", "retry", func() { delete(d.broken, "undoable 2") })
				env.Settle()
			}
			var r, was report.Run
			if err := env.Do(func(eng *perdure.Engine) (err error) {
				if r, err = eng.Report(env.Context(), back); err == nil {
					was, err = eng.Report(env.Context(), run.RunID())
				}
				return err
			}); err != nil {
				env.Fatal(err)
			}
			if r.Status != perdure.StatusCompensated || was.Status != perdure.StatusCompleted ||
				len(d.there) > 0 || len(d.wrong) > 0 || len(r.Undo.Steps) != 3 {
				env.Errorf("%v after %v: left %q, wrong %q, %+v", r.Status, was.Status, d.there,
					d.wrong, r.Undo)
			}
			return nil
		}, def)
	}
}

func rollBack(env *perduretest.Env, id string) string {
	env.Helper()
	var done admin.Acted
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		done, err = admin.New(eng).Act(env.Context(), id, admin.Order{
			Action: journal.ActionCompensate,
		})
		return err
	}); err != nil {
		env.Fatal(err)
	}
	return done.RunID
}

// A retry does what was undone again, under new keys, and keeps what was not undone.
//
// spec: B-25, R-15
func TestARetryDoesAgainWhatWasUndone(t *testing.T) {
	d, bad := newShelf(), true
	var keys []string
	def := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		for _, name := range []string{"kept", "undone"} {
			if _, err := perdure.Step(ctx, name, func(ctx context.Context) (string, error) {
				keys = append(keys, name+" "+perdure.IdempotencyKey(ctx))
				d.apply(ctx, "undoable "+name)
				return "undoable " + name, nil
			}, effect.Undo(d.undo)); err != nil {
				return "", err
			}
		}
		return perdure.Step(ctx, "last", func(context.Context) (string, error) {
			if bad {
				return "", errBad
			}
			return "done", nil
		}, perdure.NoRetry)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		d.broken["undoable kept"] = true
		run := perduretest.Start(env, def, 0)
		run.Fails(errBad)
		if !slices.Equal(d.there, []string{"undoable kept"}) {
			env.Errorf("left are %q", d.there)
		}
		bad = false
		if err := env.Do(func(eng *perdure.Engine) error {
			_, err := eng.Retry(env.Context(), run.ID())
			return err
		}); err != nil {
			env.Fatal(err)
		}
		perduretest.Get(env, def, run.ID()).Returns("done")
		if len(keys) != 3 || !strings.HasPrefix(keys[2], "undone ") || keys[1] == keys[2] ||
			!slices.Equal(d.there, []string{"undoable kept", "undoable undone"}) {
			env.Errorf("keys %q, there %q", keys, d.there)
		}
	}, def)
}

// spec: B-25, F-28
func TestACompensationHasItsOwnPolicyTimeoutAndKey(t *testing.T) {
	type try struct {
		key   string
		phase perdure.Phase
		after time.Duration
	}
	for name, c := range map[string]struct {
		opts []perdure.StepOption
		want []time.Duration // when attempts began, after the failure
		ends time.Duration
	}{
		"default": {nil, []time.Duration{0}, 5 * time.Minute},
		"own": {
			[]perdure.StepOption{
				perdure.Timeout(time.Minute),
				perdure.Retry{Attempts: 3, First: time.Second, Factor: 1},
			},
			[]time.Duration{0, time.Minute + time.Second, 2*time.Minute + 2*time.Second},
			3*time.Minute + 2*time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var tries []try
			forward := ""
			var failed time.Time
			def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				if err := perdure.Do(ctx, "s", func(ctx context.Context) error {
					forward = perdure.IdempotencyKey(ctx)
					return nil
				}, effect.Undo(func(ctx context.Context, _ struct{}) error {
					info, _ := perdure.StepOf(ctx)
					tries = append(tries, try{
						perdure.IdempotencyKey(ctx), info.Phase, time.Since(failed),
					})
					<-ctx.Done()
					return ctx.Err()
				}, c.opts...)); err != nil {
					return 0, err
				}
				if failed.IsZero() {
					failed = time.Now()
				}
				return 0, errBad
			})
			perduretest.Test(t, func(env *perduretest.Env) {
				run := perduretest.Start(env, def, 0)
				env.Sleep(time.Second)
				run.Is(journal.Compensating)
				run.Fails(errBad)
				if took := run.Report().Ended.Sub(failed); took != c.ends {
					env.Errorf("it took %v, not %v", took, c.ends)
				}
				var after []time.Duration
				for _, t := range tries {
					after = append(after, t.after)
					if t.key == forward || t.key != tries[0].key ||
						t.phase != perdure.PhaseUndo {
						env.Errorf("%+v; the step has the key %s", t, forward)
					}
				}
				if !slices.Equal(after, c.want) {
					env.Errorf("attempts after %v, not %v", after, c.want)
				}
			}, def)
		})
	}
}

// A step that can be undone costs a run nothing as long as nothing fails.
//
// spec: B-25
func TestARunThatSucceedsRecordsNothingOfItsUndo(t *testing.T) {
	var kinds [2][]string
	for i := range kinds {
		def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			for _, name := range []string{"a", "b"} {
				opts := []perdure.StepOption{perdure.NoRetry}
				if i == 1 {
					opts = append(opts, effect.Undo(func(context.Context, struct{}) error {
						return nil
					}))
				}
				if err := perdure.Do(ctx, name, func(context.Context) error { return nil },
					opts...); err != nil {
					return 0, err
				}
			}
			return 0, nil
		})
		perduretest.Test(t, func(env *perduretest.Env) {
			run := perduretest.Start(env, def, 0)
			run.Returns(0)
			entries, err := env.Engine().History(env.Context(), run.ID(), 0, 100)
			if err != nil {
				env.Fatal(err)
			}
			for _, e := range entries {
				kinds[i] = append(kinds[i], fmt.Sprint(e.Kind, e.Op))
			}
		}, def)
	}
	if !slices.Equal(kinds[0], kinds[1]) || len(kinds[0]) < 4 {
		t.Errorf("with an Undo: %q, without: %q", kinds[1], kinds[0])
	}
}

// The rollback comes where the first step with an Undo has planned it, among the clean-ups.
//
// spec: B-25
func TestARollbackIsOneOfTheCleanUps(t *testing.T) {
	var did []string
	say := func(what string) func(context.Context) error {
		return func(ctx context.Context) error {
			did = append(did, what)
			return nil
		}
	}
	def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		if err := perdure.Finally(ctx, "first", say("first")); err != nil {
			return 0, err
		}
		if err := perdure.Do(ctx, "s", func(context.Context) error { return nil },
			effect.Undo(func(ctx context.Context, _ struct{}) error {
				did = append(did, "undo")
				return nil
			})); err != nil {
			return 0, err
		}
		if err := perdure.Finally(ctx, "last", say("last")); err != nil {
			return 0, err
		}
		return 0, perdure.Cancel(ctx, "enough")
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, def, 0)
		run.Fails(&perdure.Error{Code: journal.CodeCancelled})
		if want := []string{"last", "undo", "first"}; !slices.Equal(did, want) {
			env.Errorf("it did %q, not %q", did, want)
		}
	}, def)
}

// What ends a run without its clean-ups undoes nothing.
//
// spec: B-25
func TestNothingIsUndoneWhenARunContinuesOrIsTerminated(t *testing.T) {
	d := newShelf()
	def := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
		if _, err := perdure.Step(ctx, "s", func(ctx context.Context) (string, error) {
			id := fmt.Sprint("undoable ", n)
			d.apply(ctx, id)
			return id, nil
		}, effect.Undo(d.undo)); err != nil {
			return 0, err
		}
		if n < 2 {
			return 0, perdure.ContinueAsNew(ctx, n+1)
		}
		return 0, perdure.Sleep(ctx, time.Hour)
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, def, 1)
		env.Sleep(time.Minute)
		if err := env.Do(func(eng *perdure.Engine) error {
			_, err := admin.New(eng).Act(env.Context(), run.ID(), admin.Order{
				Action: journal.ActionTerminate,
			})
			return err
		}); err != nil {
			env.Error(err)
		}
		env.Settle()
		if len(d.there) != 2 {
			env.Errorf("there are %q", d.there)
		}
	}, def)
}

// spec: B-25
func TestTheItemsOfAListAreUndone(t *testing.T) {
	d := newShelf()
	def := perdure.Define("w", func(ctx context.Context, items []string) (int, error) {
		_, err := backpressure.ForEach(ctx, "item", items, backpressure.Each[string]{
			Policy: backpressure.Limit(2), Failures: 1,
		}, func(ctx context.Context, item string) (string, error) {
			if item == "bad" {
				return "", errBad
			}
			d.apply(ctx, item)
			return item, nil
		}, perdure.NoRetry, effect.Undo(d.undo))
		if err == nil {
			err = errBad
		}
		return 0, err
	})
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		d.reset()
		run := perduretest.Start(env, def, []string{"one", "bad", "two", "three"})
		run.Fails(errBad)
		if r := run.Report(); len(d.there) > 0 || len(r.Undo.Steps) != 3 || !r.Undo.All {
			env.Errorf("left are %q, %+v", d.there, r.Undo)
		}
		return nil
	}, def)
}

// spec: B-25
func TestAnotherBuildGoesOnWithARollback(t *testing.T) {
	d := newShelf()
	def := order(d, func(context.Context) error { return errBad },
		perdure.Retry{Attempts: 2, First: time.Hour})
	next := order(d, func(context.Context) error { return errBad })
	perduretest.Test(t, func(env *perduretest.Env) {
		d.broken["undoable 2"] = true
		run := perduretest.Start(env, def, 0)
		env.Sleep(time.Minute)
		run.Is(journal.Compensating)
		delete(d.broken, "undoable 2")
		env.Deploy(next)
		env.Sleep(2 * time.Hour)
		var entries []journal.Entry
		if err := env.Do(func(eng *perdure.Engine) (err error) {
			entries, err = eng.History(env.Context(), run.ID(), 0, 100)
			return err
		}); err != nil {
			env.Fatal(err)
		}
		for _, e := range entries {
			if e.Kind == journal.OperationUnused {
				env.Errorf("%v is recorded as unused", e.Op)
			}
		}
		if last := entries[len(entries)-1]; last.Status != journal.Failed || len(d.there) > 0 {
			env.Errorf("it is %v, left are %q", last.Status, d.there)
		}
	}, def)
}

// spec: B-25
func TestWhereAnUndoMeansNothingItIsRefused(t *testing.T) {
	undo := effect.Undo(func(context.Context, string) error { return nil })
	text := func(context.Context) (string, error) { return "", nil }
	for name, c := range map[string]struct {
		do   func(context.Context) error
		want string
	}{
		"the type does not fit": {
			func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "s", func(context.Context) (int, error) {
					return 0, nil
				}, undo)
				return err
			},
			"step s: its result is a int, and its Undo takes a string",
		},
		"the type of Do": {
			func(ctx context.Context) error {
				return perdure.Do(ctx, "s", func(context.Context) error { return nil }, undo)
			},
			"step s: its result is a struct {}, and its Undo takes a string",
		},
		"of a list": {
			func(ctx context.Context) error {
				_, err := backpressure.ForEach(ctx, "s", []int{1}, backpressure.Each[int]{},
					func(context.Context, int) (int, error) { return 0, nil }, undo)
				return err
			},
			"step s: its result is a int, and its Undo takes a string",
		},
		"in a transaction": {
			func(ctx context.Context) error {
				_, err := perdure.StepTx(ctx, "s", noDatabase{},
					func(context.Context, int) (int, error) { return 0, nil }, undo)
				return err
			},
			"step s: its result is a int, and its Undo takes a string",
		},
		"a phase": {
			func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "s", text, perdure.PhaseTry, undo)
				return err
			},
			"a step with a Phase cannot have an Undo",
		},
		"no function": {
			func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "s", text, effect.Undo[string](nil))
				return err
			},
			"an Undo needs a function",
		},
		"an option of steps": {
			func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "s", text, effect.Undo(
					func(context.Context, string) error { return nil }, perdure.Key("k")))
				return err
			},
			"perdure.Key is not an option of an Undo",
		},
		"a nil option": {
			func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "s", text, effect.Undo(
					func(context.Context, string) error { return nil }, nil))
				return err
			},
			"is not an option of an Undo",
		},
		"a policy that is not valid": {
			func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "s", text, effect.Undo(
					func(context.Context, string) error { return nil },
					perdure.Retry{Attempts: -1}))
				return err
			},
			"undo: retry: Attempts -1 is not valid",
		},
		"a timeout that is not valid": {
			func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "s", text, effect.Undo(
					func(context.Context, string) error { return nil }, perdure.Timeout(-1)))
				return err
			},
			"is not valid",
		},
		"parks without an undo": {
			func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "s", text, effect.Parks)
				return err
			},
			"effect.Parks is an option of effect.Undo",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, inside := range []bool{false, true} {
				var got error
				def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
					if !inside {
						got = c.do(ctx)
						return 0, nil
					}
					return 0, perdure.Finally(ctx, "end", func(ctx context.Context) error {
						got = c.do(ctx)
						return nil
					})
				})
				perduretest.Test(t, func(env *perduretest.Env) {
					perduretest.Start(env, def, 0).Returns(0)
				}, def)
				if !errors.Is(got, &perdure.Error{Code: journal.CodeInvalid}) ||
					!strings.Contains(got.Error(), c.want) {
					t.Errorf("it is %v", got)
				}
			}
		})
	}
	t.Run("in a clean-up", func(t *testing.T) {
		var got []error
		def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return 0, perdure.Finally(ctx, "end", func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "s", text, undo)
				got = append(got, err)
				_, err = perdure.Go(ctx, "branch", func(ctx context.Context) (string, error) {
					return perdure.Async(ctx, "s", text, undo).Await(ctx)
				}).Await(ctx)
				got = append(got, err)
				return nil
			})
		})
		perduretest.Test(t, func(env *perduretest.Env) {
			perduretest.Start(env, def, 0).Returns(0)
		}, def)
		for _, err := range got {
			if !errors.Is(err, &perdure.Error{Code: journal.CodeInvalid}) ||
				!strings.Contains(err.Error(), "a step of a clean-up cannot have an Undo") {
				t.Errorf("it is %v", err)
			}
		}
	})
}

// A step that has completed while the code computed, and then failed, is undone too.
//
// spec: B-25
func TestAStepThatNobodyHasHeardOfIsUndone(t *testing.T) {
	for name, end := range map[string]func(context.Context) error{
		"returns": func(context.Context) error { return errBad },
		"fails":   func(ctx context.Context) error { return perdure.Fail(ctx, errBad) },
		"cancels": func(ctx context.Context) error { return perdure.Cancel(ctx, "enough") },
	} {
		t.Run(name, func(t *testing.T) {
			d := newShelf()
			def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
				for i := range 3 {
					perdure.Async(ctx, "s", func(ctx context.Context) (string, error) {
						id := fmt.Sprint("undoable ", i)
						err := pause(ctx, time.Duration(3-i)*time.Millisecond)
						d.apply(ctx, id)
						return id, err
					}, effect.Undo(d.undo))
				}
				if err := perdure.Sleep(ctx, 2500*time.Microsecond); err != nil {
					return 0, err
				}
				time.Sleep(5 * time.Millisecond) // the code computes
				return 0, end(ctx)
			})
			perduretest.Setup{
				Workflows: []perdure.Definition{def},
				Options:   perdure.Options{IdleTimeout: time.Hour},
			}.CrashEverywhere(t, func(env *perduretest.Env) any {
				d.reset()
				run := perduretest.Start(env, def, 0)
				if _, err := run.Result(); err == nil {
					env.Error("it has succeeded")
				}
				r := run.Report()
				if r.Undo == nil || len(r.Undo.Steps) == 0 || len(d.wrong) > 0 {
					env.Errorf("undone are %+v, wrong %q", r.Undo, d.wrong)
				}
				for _, s := range r.Completed() {
					env.Errorf("%s is done", s.ID)
				}
				return nil
			})
			d.reset()
			d.strict = true
			perduretest.Setup{
				Workflows: []perdure.Definition{def},
				Options:   perdure.Options{IdleTimeout: time.Hour},
			}.Test(t, func(env *perduretest.Env) {
				run := perduretest.Start(env, def, 0)
				_, _ = run.Result()
				if r := run.Report(); len(r.Undo.Steps) != 3 || len(d.there)+len(d.wrong) > 0 {
					env.Errorf("undone are %+v, there %q, wrong %q", r.Undo, d.there, d.wrong)
				}
			})
		})
	}
}
