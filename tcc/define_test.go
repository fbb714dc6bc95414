package tcc_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tcc"
)

type order struct {
	City string `json:"city"`
}

func tries(context.Context, order) (string, error) { return "hold", nil }
func then(context.Context, order, string) error    { return nil }
func complete(t *tcc.TCC[order], id string) *tcc.Participant[order, string] {
	return tcc.Add(t, id, tries).Confirm(then).Cancel(then)
}

// register returns the issues of definitions, each on its own line.
func register(t *testing.T, strict bool, defs ...perdure.Definition) string {
	t.Helper()
	eng, err := perdure.New(memory.New(), perdure.Options{Build: "test", FailOnWarning: strict})
	if err != nil {
		t.Fatal(err)
	}
	var wrong *definition.Error
	if err := eng.Register(defs...); errors.As(err, &wrong) {
		var lines []string
		for _, i := range wrong.Issues {
			lines = append(lines, i.String())
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	} else if err != nil {
		return err.Error()
	}
	return ""
}

// Mistakes are found without an engine too.
//
// spec: F-8
func TestADefinitionIsCheckedWithoutRegistering(t *testing.T) {
	d := tcc.New[order]("pay")
	tcc.Add(d, "a", tries).Confirm(then)
	whole := tcc.Compose[order]("whole")
	for _, def := range []perdure.Definition{d, whole} {
		var lines []string
		for _, i := range perdure.Check(def) {
			lines = append(lines, i.String())
		}
		slices.Sort(lines)
		if refused := register(t, false, def); len(lines) == 0 ||
			refused != strings.Join(lines, "\n") {
			t.Errorf("checked: %v, registered: %v", lines, refused)
		}
	}
}

// spec: F-4, F-8, F-39
func TestWhatIsWrongWithADefinition(t *testing.T) {
	long := strings.Repeat("x", 248)
	cases := map[string]struct {
		define func(*tcc.TCC[order])
		want   []string // the start of each issue
	}{
		"nothing": {
			func(d *tcc.TCC[order]) { complete(d, "a"); complete(d, "b").Order(-1) },
			nil,
		},
		"no participant": {func(*tcc.TCC[order]) {}, []string{"ERROR: there are no steps"}},
		"no confirm": {
			func(d *tcc.TCC[order]) { tcc.Add(d, "a", tries).Cancel(then) },
			[]string{"ERROR: a.confirm: the phase has no function"},
		},
		"no cancel": {
			func(d *tcc.TCC[order]) { tcc.Add(d, "a", tries).Confirm(then) },
			[]string{"ERROR: a.cancel: the phase has no function"},
		},
		"nil functions": {func(d *tcc.TCC[order]) {
			p := tcc.Add[order, order, string](d, "a", nil).Confirm(nil)
			tcc.CancelWith[order, string, order, int](p, nil)
		}, []string{
			"ERROR: a.cancel: the phase", "ERROR: a.confirm: the phase", "ERROR: a.try: the phase",
		}},
		"two functions": {
			func(d *tcc.TCC[order]) { complete(d, "a").Cancel(then) },
			[]string{"ERROR: a.CANCEL: two functions"},
		},
		"duplicates": {
			func(d *tcc.TCC[order]) { complete(d, "a"); complete(d, "b"); complete(d, "a") },
			[]string{"ERROR: a: two steps have this name"},
		},
		"an odd ID": {
			func(d *tcc.TCC[order]) { complete(d, "a b") },
			[]string{`ERROR: a b: ID "a b" is not valid: allowed are 1 to 247`},
		},
		"no ID": {
			func(d *tcc.TCC[order]) { complete(d, "") },
			[]string{`ERROR: ID "" is not valid`, "ERROR: a step has no name"},
		},
		"a long ID": {
			func(d *tcc.TCC[order]) { complete(d, long) },
			[]string{"ERROR: " + long + `: ID "xx`},
		},
		"the longest ID": {func(d *tcc.TCC[order]) { complete(d, long[1:]) }, nil},
		"retries": {func(d *tcc.TCC[order]) {
			d.Retry(perdure.Retry{Attempts: -1})
			complete(d, "a").Retry(perdure.Retry{Factor: math.NaN()}, perdure.PhaseTry).
				Retry(perdure.Retry{First: 25 * time.Hour})
		}, []string{
			"ERROR: a.retry: ", "ERROR: retry: Attempts -1 is not valid",
			"WARNING: a.retry: a delay of 25h0m0s",
		}},
		"timeouts": {func(d *tcc.TCC[order]) {
			d.AttemptTimeout(-time.Second)
			complete(d, "a").Timeout(25*time.Hour, perdure.PhaseCancel)
		}, []string{
			"ERROR: timeout: a timeout of -1s is not valid",
			"WARNING: a.timeout: a timeout of 25h0m0s",
		}},
		"tries of nobody": {func(d *tcc.TCC[order]) {
			p := complete(d, "b")
			q := tcc.Add(d, "a", func(context.Context, struct {
				B string `perdure:"try=b"` // b tries later
			}) (string, error) {
				return "", nil
			}).Order(-1)
			tcc.ConfirmWith(q, func(context.Context, struct {
				B string `perdure:"try=b"`
				A string `perdure:"try=a"`
				C string `perdure:"try=c"`
			}) (int, error) {
				return 0, nil
			})
			tcc.CancelWith(q, func(context.Context, struct {
				B int `perdure:"try=b"`
			}) (int, error) {
				return 0, nil
			})
			_ = p
		}, []string{
			"ERROR: a.cancel.B: it is of type int", "ERROR: a.confirm.C: there is no try of " +
				"participant", "ERROR: a.try.B: there is no try of participant",
		}},
		"events": {func(d *tcc.TCC[order]) {
			complete(d, "a").Event(pattern.StepEvent{Type: "order placed"})
		}, []string{`ERROR: a.event: event type "order placed" is not valid`}},
		"callbacks": {func(d *tcc.TCC[order]) {
			complete(d, "a")
			d.On(pattern.Callback{Steps: []string{"z"}, Step: func(context.Context, string) error {
				return nil
			}})
		}, []string{"ERROR: callbacks.0: there is no step"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := tcc.New[order]("d")
			c.define(d)
			got := strings.Split(register(t, true, d), "\n")
			if len(got) == 1 && got[0] == "" {
				got = nil
			}
			if len(got) != len(c.want) {
				t.Fatalf("issues:\n%s", strings.Join(got, "\n"))
			}
			for i, w := range c.want {
				if !strings.HasPrefix(got[i], w) {
					t.Errorf("issue %q, want %q", got[i], w)
				}
			}
			warnings := !slices.ContainsFunc(c.want, func(w string) bool {
				return strings.HasPrefix(w, "ERROR")
			})
			d = tcc.New[order]("d")
			c.define(d)
			if issues := register(t, false, d); (issues == "") != warnings {
				t.Errorf("not strict: %s", issues)
			}
		})
	}
}

// spec: F-8, F-42
func TestWhatIsWrongWithAComposition(t *testing.T) {
	good := func() *tcc.TCC[order] { d := tcc.New[order]("good"); complete(d, "a"); return d }
	as := func(in order) (order, error) { return in, nil }
	cases := map[string]struct {
		define func(*tcc.Composition[order])
		want   []string
	}{
		"nothing":   {func(c *tcc.Composition[order]) { tcc.Include(c, "m", good(), as) }, nil},
		"no member": {func(*tcc.Composition[order]) {}, []string{"ERROR: there are no steps"}},
		"a nil one": {
			func(c *tcc.Composition[order]) { tcc.Include[order, order, order](c, "m", nil, as) },
			[]string{"ERROR: m: a member needs a TCC"},
		},
		"no input": {
			func(c *tcc.Composition[order]) { tcc.Include[order, order](c, "m", good(), nil) },
			[]string{"ERROR: m: a member needs what makes its input"},
		},
		"an alias": {
			func(c *tcc.Composition[order]) { tcc.Include(c, "m/m", good(), as) },
			[]string{
				`ERROR: m/m: alias "m/m" is not valid`, "ERROR: m/m: the alias and the ID of a are",
			},
		},
		"duplicates": {
			func(c *tcc.Composition[order]) {
				tcc.Include(c, "m", good(), as)
				tcc.Include(c, "m", good(), as)
			},
			[]string{"ERROR: m: two steps have this name"},
		},
		"a circle": {func(c *tcc.Composition[order]) {
			a := tcc.Include(c, "a", good(), as)
			a.After(tcc.Include(c, "b", good(), as).After(a))
		}, []string{"ERROR: a: a circle"}},
		"a member of another": {func(c *tcc.Composition[order]) {
			tcc.Include(c, "a", good(), as).After(tcc.Include(tcc.Compose[order]("other"), "b",
				good(), as))
		}, []string{`ERROR: a: member b is one of another composition`}},
		"a wrong TCC": {func(c *tcc.Composition[order]) {
			tcc.Include(c, "m", tcc.New[order]("empty"), as)
		}, []string{"ERROR: m: there are no steps"}},
		"tries of nobody": {func(c *tcc.Composition[order]) {
			a := tcc.Include(c, "a", good(), as)
			tcc.Include(c, "b", good(), as)
			tcc.Include(c, "c", good(), func(struct {
				Before string `perdure:"try=a/a"`
				Beside string `perdure:"try=b/a"`
				None   string `perdure:"try=a/z"`
				Odd    int    `perdure:"try=a/a"`
			}) (order, error) {
				return order{}, nil
			}).After(a)
			tcc.Include[order, struct {
				City int `perdure:"input=city"`
			}, order](c, "d", nil, func(struct {
				City int `perdure:"input=city"`
			}) (order, error) {
				return order{}, nil
			})
		}, []string{
			"ERROR: c.input.Beside: there is no", "ERROR: c.input.None: there is no",
			"ERROR: c.input.Odd: it is of type int", "ERROR: d.input.City: it is of type int",
			"ERROR: d: a member needs a TCC",
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := tcc.Compose[order]("c")
			c.define(d)
			got := strings.Split(register(t, true, d), "\n")
			if len(got) == 1 && got[0] == "" {
				got = nil
			}
			if len(got) != len(c.want) {
				t.Fatalf("issues:\n%s", strings.Join(got, "\n"))
			}
			for i, w := range c.want {
				if !strings.HasPrefix(got[i], w) {
					t.Errorf("issue %q, want %q", got[i], w)
				}
			}
		})
	}
}

// spec: F-5, F-39
func TestPoliciesOfPhasesParticipantsAndTCCs(t *testing.T) {
	of := func(n int) perdure.Retry {
		return perdure.Retry{Attempts: n, First: time.Duration(n) * time.Second, Factor: 1}
	}
	cases := map[string]struct {
		tcc, part, phase *perdure.Retry
		attempts         map[string]int
		delay            time.Duration // before the second attempt of a try
	}{
		"nothing": {
			nil,
			nil,
			nil,
			map[string]int{"try": 4, "confirm": 4, "cancel": 4},
			time.Second,
		},
		"TCC": {
			ptr(of(2)),
			nil,
			nil,
			map[string]int{"try": 2, "confirm": 2, "cancel": 2},
			2 * time.Second,
		},
		"none at all": {
			ptr(perdure.NoRetry),
			nil,
			nil,
			map[string]int{"try": 1, "confirm": 1, "cancel": 1},
			0,
		},
		"participant": {
			ptr(of(2)),
			ptr(of(3)),
			nil,
			map[string]int{"try": 3, "confirm": 3, "cancel": 3},
			3 * time.Second,
		},
		"phase": {
			ptr(of(2)),
			ptr(of(3)),
			ptr(of(5)),
			map[string]int{"try": 3, "confirm": 5, "cancel": 5},
			3 * time.Second,
		},
		"phase, TCC": {
			ptr(perdure.NoRetry),
			nil,
			ptr(of(5)),
			map[string]int{"try": 1, "confirm": 5, "cancel": 5},
			0,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, fails := range []string{"try", "confirm", "cancel"} {
				var mu sync.Mutex
				began := map[string][]time.Time{}
				fail := func(phase string) error {
					mu.Lock()
					defer mu.Unlock()
					began[phase] = append(began[phase], time.Now())
					if phase == fails || phase == "confirm" && fails == "cancel" {
						return errOdd
					}
					return nil
				}
				d := tcc.New[order]("d", perdure.Timeout(time.Hour))
				if c.tcc != nil {
					d.Retry(*c.tcc)
				}
				p := tcc.Add(d, "a", func(context.Context, order) (string, error) {
					return "", fail("try")
				}).
					Confirm(func(context.Context, order, string) error { return fail("confirm") }).
					Cancel(func(context.Context, order, string) error { return fail("cancel") })
				if c.phase != nil {
					p.Retry(*c.phase, perdure.PhaseConfirm, perdure.PhaseCancel)
				}
				if c.part != nil {
					p.Retry(*c.part)
				}
				perduretest.Test(t, func(env *perduretest.Env) {
					_, _ = perduretest.Start(env, d.Workflow, order{}).Result()
					if len(began[fails]) != c.attempts[fails] {
						env.Errorf("%s was attempted %d times, want %d", fails, len(began[fails]),
							c.attempts[fails])
					}
					if times := began["try"]; len(times) > 1 && times[1].Sub(times[0]) != c.delay {
						env.Errorf("the second try began after %v, want %v", times[1].Sub(times[0]),
							c.delay)
					}
				}, d)
			}
		})
	}
}

func ptr[T any](v T) *T { return &v }

// spec: F-6, F-39
func TestTimeoutsOfPhasesParticipantsAndTCCs(t *testing.T) {
	cases := map[string]struct {
		tcc, part, confirm time.Duration
		try, confirms      time.Duration // limits of an attempt; 0 for none
	}{
		"none":        {0, 0, 0, 0, 0},
		"TCC":         {time.Minute, 0, 0, time.Minute, time.Minute},
		"participant": {time.Minute, 2 * time.Minute, 0, 2 * time.Minute, 2 * time.Minute},
		"phase": {
			time.Minute, 2 * time.Minute, 3 * time.Minute, 2 * time.Minute, 3 * time.Minute,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, slow := range []string{"try", "confirm"} {
				gaveUp := time.Duration(0)
				wait := func(ctx context.Context, phase string) error {
					if phase != slow {
						return nil
					}
					began := time.Now()
					select {
					case <-ctx.Done():
						gaveUp = time.Since(began)
						return ctx.Err()
					case <-time.After(time.Hour):
						return nil
					}
				}
				d := tcc.New[order]("d", perdure.Timeout(100*time.Hour)).Retry(perdure.NoRetry).
					AttemptTimeout(c.tcc)
				p := tcc.Add(d, "a", func(ctx context.Context, _ order) (string, error) {
					return "", wait(ctx, "try")
				}).
					Confirm(func(ctx context.Context, _ order, _ string) error {
						return wait(ctx, "confirm")
					}).Cancel(then)
				if c.confirm > 0 {
					p.Timeout(c.confirm, perdure.PhaseConfirm)
				}
				if c.part > 0 {
					p.Timeout(c.part)
				}
				want := map[string]time.Duration{"try": c.try, "confirm": c.confirms}[slow]
				perduretest.Test(t, func(env *perduretest.Env) {
					_, err := perduretest.Start(env, d.Workflow, order{}).Result()
					env.Settle() // the body learns of it when it is recorded
					if gaveUp != want || (err != nil) != (want > 0) {
						env.Errorf("%s was given up after %v, want %v: %v", slow, gaveUp, want, err)
					}
				}, d)
			}
		})
	}
}

// The TCC ends as it must even if a participant's code panics or its result cannot be encoded.
//
// spec: F-13, F-38
func TestBodiesThatPanicOrGiveWhatCannotBeKept(t *testing.T) {
	for _, odd := range []string{"panic", "goexit", "result", "permanent"} {
		for _, phase := range []string{"try", "confirm", "cancel"} {
			t.Run(odd+" in "+phase, func(t *testing.T) {
				act := func(now string) (any, error) {
					if now != phase && (phase != "cancel" || now != "confirm") {
						return "fine", nil
					}
					switch odd {
					case "panic":
						panic("odd")
					case "result":
						if now == "confirm" && phase == "cancel" {
							return nil, errOdd
						}
						return func() {}, nil
					case "permanent":
						return nil, perdure.Permanent(errOdd)
					}
					runtime.Goexit()
					return nil, nil
				}
				d := tcc.New[order]("d", perdure.Timeout(time.Hour))
				complete(d, "first")
				p := tcc.Add(d, "odd", func(context.Context, order) (any, error) {
					return act("try")
				})
				tcc.ConfirmWith(p, func(context.Context, struct{}) (any, error) {
					return act("confirm")
				})
				tcc.CancelWith(p, func(context.Context, struct{}) (any, error) {
					return act("cancel")
				})
				want := map[string]journal.Status{
					"try":     journal.Canceled,
					"confirm": journal.Canceled,
					"cancel":  journal.Failed,
				}[phase]
				perduretest.Test(t, func(env *perduretest.Env) {
					r, err := d.Execute(env.Context(), env.Engine(), order{})
					if err != nil || r.Status != want {
						env.Errorf("%v %v %v", r.Status, r.Err, err)
					}
					if at, by := r.Failed(); !strings.EqualFold(string(at), phase) || by != "odd" {
						env.Errorf("failed: %s of %q", at, by)
					}
					var of *pattern.PhaseError
					if !errors.As(r.Err, &of) {
						env.Errorf("%v", r.Err)
					}
					if first, _ := r.Step("first"); first.Status != journal.StepIsCanceled {
						env.Errorf("first: %v", first.Status)
					}
				}, d)
			})
		}
	}
}

// spec: F-4, F-41
func TestArgumentsByTags(t *testing.T) {
	type hold struct{ Of string }
	var got []string
	d := tcc.New[order]("d")
	a := tcc.Add(d, "a", func(_ context.Context, in struct {
		City   string `perdure:"input=city"`
		Tenant string `perdure:"header=tenant"`
	}) (hold, error) {
		return hold{in.City + in.Tenant}, nil
	})
	a.Confirm(func(_ context.Context, in struct {
		City   string `perdure:"input=city"`
		Tenant string `perdure:"header=tenant"`
	}, tried hold) error {
		got = append(got, "confirm a: "+in.City+" "+tried.Of)
		return nil
	})
	a.Cancel(nil)
	tcc.CancelWith(a, func(context.Context, struct{}) (int, error) { return 0, nil })
	b := tcc.Add(d, "b", func(_ context.Context, in struct {
		A     hold `perdure:"try=a,required"`
		Input order
	}) (hold, error) {
		return hold{"b after " + in.A.Of + " in " + in.Input.City}, nil
	}).Order(1)
	b.Cancel(func(context.Context, struct {
		A     hold `perdure:"try=a,required"`
		Input order
	}, hold) error {
		return nil
	})
	tcc.ConfirmWith(b, func(_ context.Context, in struct {
		Own   hold `perdure:"try=b,required"`
		Other hold `perdure:"try=a"`
	}) (int, error) {
		got = append(got, "confirm b: "+in.Own.Of+", "+in.Other.Of)
		return 1, nil
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		r, err := d.Execute(env.Context(), env.Engine(), order{"Ulm"},
			perdure.Headers{"tenant": "X"})
		if err != nil || !r.IsConfirmed() {
			env.Fatal(r.Status, r.Err, err)
		}
		slices.Sort(got)
		if want := []string{
			"confirm a: Ulm UlmX", "confirm b: b after UlmX in Ulm, UlmX",
		}; !slices.Equal(got, want) {
			env.Errorf("%q", got)
		}
		if tried, found, err := b.Of(r); tried.Of != "b after UlmX in Ulm" || !found || err != nil {
			env.Errorf("%v %v %v", tried, found, err)
		}
	}, d)
}

// A declaration is complete when it is registered.
//
// spec: F-8
func TestWhatIsAddedLaterDoesNotCount(t *testing.T) {
	var wrong []string
	d := tcc.New[order]("d")
	p := complete(d, "a")
	perduretest.Test(t, func(env *perduretest.Env) {
		tcc.Add(d, "later", func(context.Context, order) (string, error) {
			wrong = append(wrong, "it tried")
			return "", errOdd
		}).
			Confirm(then).Cancel(then)
		d.On(pattern.Callback{
			Step: func(context.Context, string) error {
				wrong = append(wrong, "it was called")
				return nil
			},
		})
		p.Confirm(func(context.Context, order, string) error {
			wrong = append(wrong, "it confirmed")
			return errOdd
		})
		d.Park()
		r, err := d.Execute(env.Context(), env.Engine(), order{})
		if err != nil || !r.IsConfirmed() || len(wrong) > 0 {
			env.Errorf("%v %v %v %v", r.Status, r.Err, err, wrong)
		}
	}, d)
}

// spec: F-10, F-40
func TestEventsTellOfConfirms(t *testing.T) {
	for _, crashes := range []bool{false, true} {
		t.Run(fmt.Sprint(crashes), func(t *testing.T) {
			var mu sync.Mutex
			told := map[string]string{}
			d := tcc.New[order]("d").Retry(perdure.NoRetry).Park()
			type hold struct{ Number string }
			try := func(context.Context, order) (hold, error) { return hold{"4711"}, nil }
			then := func(context.Context, order, hold) error { return nil }
			tcc.Add(d, "plain", try).Confirm(then).Cancel(then).
				Event(pattern.StepEvent{Topic: "t", Type: "held", Key: "Number"})
			with := tcc.Add(d, "with", try).Cancel(then).
				Event(pattern.StepEvent{Topic: "t", Key: "Number"})
			tcc.ConfirmWith(with, func(context.Context, struct{}) (hold, error) {
				return hold{"4712"}, nil
			})
			tcc.Add(d, "handled", try).Confirm(func(context.Context, order, hold) error {
				return errOdd
			}).Cancel(then).Event(pattern.StepEvent{Topic: "t"})
			tcc.Add(d, "silent", try).Confirm(then).Cancel(then)
			tcc.Add(d, "absent", func(context.Context, order) (hold, error) {
				return hold{}, errOdd
			}).Confirm(then).Cancel(then).
				Optional().Event(pattern.StepEvent{Topic: "t"})
			setup := perduretest.Setup{Workflows: []perdure.Definition{d}}
			setup.Options.Publisher = func(_ context.Context, e perdure.Event) error {
				mu.Lock()
				defer mu.Unlock()
				told[e.ID] = fmt.Sprintf("%s %s %s %s %s %v %s", e.Step, e.Type, e.Topic, e.Key,
					e.Data, e.Status, e.Kind)
				return nil
			}
			scenario := func(env *perduretest.Env) any {
				clear(told)
				run := perduretest.Start(env, d.Workflow, order{}, perdure.ID("x"))
				for range 100 {
					env.Sleep(time.Second)
					_ = env.Engine().Decide(env.Context(), "x", "confirm:handled",
						perdure.Decision{Choice: "handled"})
					if all, err := env.Engine().Statuses(env.Context(), "x"); err == nil &&
						all[0].Head.Status.IsTerminal() {
						break
					}
				}
				if _, err := run.Result(); err != nil {
					env.Error(err)
				}
				env.Sleep(time.Hour)
				mu.Lock()
				defer mu.Unlock()
				var all []string
				for _, e := range told {
					all = append(all, e)
				}
				slices.Sort(all)
				want := []string{
					`confirm:handled#3 STEP_COMPLETED t x {"Number":"4711"} CONFIRMING STEP_COMPLETED`,
					`confirm:plain held t 4711 {"Number":"4711"} CONFIRMING STEP_COMPLETED`,
					`confirm:with STEP_COMPLETED t 4712 {"Number":"4712"} CONFIRMING STEP_COMPLETED`,
				}
				if !slices.Equal(all, want) {
					env.Errorf("told:\n%s", strings.Join(all, "\n"))
				}
				return all
			}
			if crashes {
				setup.CrashEverywhere(t, scenario)
			} else {
				setup.Test(t, func(env *perduretest.Env) { scenario(env) })
			}
		})
	}
}

// spec: F-8
func TestAMemberOfAnotherCompositionIsRefused(t *testing.T) {
	c, other := tcc.Compose[int]("c"), tcc.Compose[int]("other")
	same := func(in int) (int, error) { return in, nil }
	strange := tcc.Include(other, "a", pair("pay"), same)
	tcc.Include(c, "a", pair("pay"), same)
	tcc.Include(c, "b", pair("pay"), same).After(strange)
	eng, err := perdure.New(memory.New(), perdure.Options{Build: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := eng.Register(c); err == nil ||
		!strings.Contains(err.Error(), "b: member a is one of another composition") {
		t.Errorf("registered: %v", err)
	}
}
