package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/saga"
)

// A shop is a composition with effects in a world.
type shop struct {
	world
	fails map[string]bool // steps that fail, by alias/step
	undo  map[string]bool // compensations that fail, by alias/step
	def   *saga.Composition[any]
}

// member makes a saga of two steps, one after the other, and the second over two items.
func (s *shop) member(alias string) (*saga.Saga[any], *saga.Step[any, string]) {
	def := saga.New[any](alias)
	do := func(ctx context.Context, id string, takes time.Duration) (string, error) {
		s.begin(ctx, id)
		if err := sleep(ctx, takes); err != nil {
			return "", err
		}
		if s.fails[id] {
			return "", errBroken
		}
		s.apply(ctx, id, func() { s.there[id] = true })
		return "result of " + id, nil
	}
	undo := func(ctx context.Context, id, out string) error {
		s.begin(ctx, "undo "+id)
		if out != "result of "+id {
			s.complain("the compensation of %s got %q", id, out)
		}
		if err := sleep(ctx, 4*time.Millisecond); err != nil {
			return err
		}
		if s.undo[id] {
			return errBroken
		}
		s.apply(ctx, "undo "+id, func() { delete(s.there, id) })
		return nil
	}
	length := time.Duration(len(alias)) * 3 * time.Millisecond
	first := saga.Add(def, "first", func(ctx context.Context, _ any) (string, error) {
		return do(ctx, alias+"/first", length)
	}).
		Undo(func(ctx context.Context, _ any, out string) error {
			return undo(ctx, alias+"/first", out)
		})
	saga.AddEach(def, "each", func(any) []string { return []string{"x", "y"} },
		func(ctx context.Context, item string) (string, error) {
			return do(ctx, alias+"/each["+item+"]",
				length+time.Duration(item[0])*time.Millisecond/10)
		}).Named(func(item string) string { return item }).After(first).
		Undo(func(ctx context.Context, item, out string) error {
			return undo(ctx, alias+"/each["+item+"]", out)
		})
	return def, first
}

// newShop makes a composition: order and bill, then ship after both, then mail.
func newShop(policy saga.Policy) *shop {
	s := &shop{def: saga.Compose[any]("shop").Policy(policy)}
	include := func(alias string, after ...*saga.Member) *saga.Member {
		def, _ := s.member(alias)
		return saga.Include(s.def, alias, def).After(after...)
	}
	ship := include("ship", include("order"), include("bill"))
	include("advert", ship).Optional()
	include("mail", ship)
	return s
}

func (s *shop) effects() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for id := range s.there {
		out = append(out, id)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func of(aliases ...string) string {
	var out []string
	for _, a := range aliases {
		out = append(out, a+"/each[x]", a+"/each[y]", a+"/first")
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// result waits for the end of a run of the composition.
func (s *shop) result(env *perduretest.Env, id string) saga.Composed {
	env.Helper()
	_, _ = perduretest.Get(env, s.def.Workflow, id).Result()
	env.Settle()
	return s.def.ResultOf(s.check(env, id))
}

// check returns the report of a run that has ended, and fails the test if it is wrong.
func (s *shop) check(env *perduretest.Env, id string) (r report.Run) {
	env.Helper()
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		if r, err = eng.Report(env.Context(), id); err != nil {
			return err
		}
		entries, err := eng.History(env.Context(), id, 0, 0)
		s.repeated(r, entries)
		return err
	}); err != nil {
		env.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, wrong := range s.wrong {
		env.Error(wrong)
	}
	return r
}

func (s *shop) members(c saga.Composed) string {
	var out []string
	for _, alias := range []string{"order", "bill", "ship", "advert", "mail"} {
		out = append(out, alias+" "+string(c.MemberStatus(alias)))
	}
	return strings.Join(out, ", ")
}

// memberPolicies are the policies that compositions can have.
var memberPolicies = []saga.Policy{
	saga.StrictSequential, saga.GroupedParallel, saga.BestEffortParallel,
}

// spec: F-35, F-44
func TestACompositionBearsACrashAtEveryCommit(t *testing.T) {
	for name, c := range map[string]struct {
		fails, undo []string
		members     string
		left        string
		err         string
	}{
		"nothing fails": {
			members: "order DONE, bill DONE, ship DONE, advert DONE, mail DONE",
			left:    of("order", "bill", "ship", "advert", "mail"), err: "none",
		},
		"an optional member": {
			fails:   []string{"advert/each[y]"},
			members: "order DONE, bill DONE, ship DONE, advert FAILED, mail DONE",
			left:    of("order", "bill", "ship", "mail"), err: "none",
		},
		"a required one": {
			fails: []string{"mail/each[y]"},
			members: "order COMPENSATED, bill COMPENSATED, ship COMPENSATED, advert COMPENSATED, " +
				"mail FAILED", err: "step mail",
		},
		"one in the middle": {
			fails: []string{"ship/first"},
			members: "order COMPENSATED, bill COMPENSATED, ship FAILED, advert PENDING, " +
				"mail PENDING", err: "step ship",
		},
		"two at once": {
			fails:   []string{"order/first", "bill/each[x]"},
			members: "order FAILED, bill FAILED, ship PENDING, advert PENDING, mail PENDING",
			err:     "step order",
		},
		"a compensation": {
			fails: []string{"mail/first"}, undo: []string{"bill/each[x]"}, left: "bill/each[x]",
			members: "order COMPENSATED, bill COMPENSATION_FAILED, ship COMPENSATED, advert " +
				"COMPENSATED, mail FAILED", err: "step mail",
		},
	} {
		for _, policy := range memberPolicies {
			t.Run(fmt.Sprintf("%s, %s", name, policy), func(t *testing.T) {
				s := newShop(policy)
				s.fails, s.undo = set(c.fails), set(c.undo)
				perduretest.Setup{
					Workflows: []perdure.Definition{s.def},
					Crashes:   12,
				}.CrashEverywhere(t, func(env *perduretest.Env) any {
					s.reset()
					r := s.result(env, perduretest.Start(env, s.def.Workflow, any(1)).ID())
					got := fmt.Sprintf("%s; %s; %s", s.members(r), s.effects(), blame(r.Err))
					if want := fmt.Sprintf("%s; %s; %s", c.members, c.left, c.err); got != want {
						env.Errorf("got  %s\nwant %s", got, want)
					}
					return got
				})
			})
		}
	}
}

func set(all []string) map[string]bool {
	out := map[string]bool{}
	for _, s := range all {
		out[s] = true
	}
	return out
}

// spec: F-35
func TestMembersAreUndoneInReverse(t *testing.T) {
	for policy, want := range map[saga.Policy]string{
		saga.StrictSequential: "mail advert ship order bill", // order has ended last of its layer
	} {
		s := newShop(policy)
		s.fails = set([]string{"mail/each[y]"})
		perduretest.Test(t, func(env *perduretest.Env) {
			s.reset()
			r := s.result(env, perduretest.Start(env, s.def.Workflow, any(1)).ID())
			var order []string
			for _, u := range r.Undo.Steps {
				alias, _, _ := strings.Cut(u.ID, "/")
				if len(order) == 0 || order[len(order)-1] != alias {
					order = append(order, alias)
				}
			}
			if got := strings.Join(order, " "); got != want || r.Undo.Policy != string(policy) {
				env.Errorf("undone by %s: %s, want %s", r.Undo.Policy, got, want)
			}
			m := r.Member("ship")
			if got := statuses(m); got != "first COMPENSATED, each[x] COMPENSATED, each[y] "+
				"COMPENSATED" || len(m.Undo.Steps) != 3 || !m.Undo.All {
				env.Errorf("member ship: %s, %+v", got, m.Undo)
			}
		}, s.def)
	}
}

// spec: F-35, F-29, L-10
func TestACompositionThatIsStoppedAtAnyPointIsUndone(t *testing.T) {
	for _, policy := range memberPolicies {
		for after := time.Duration(
			0); after < 130*time.Millisecond; after += 2700 * time.Microsecond {
			s := newShop(policy)
			s.fails = set([]string{"mail/each[y]", "advert/each[x]"})
			perduretest.Test(t, func(env *perduretest.Env) {
				s.reset()
				id := perduretest.Start(env, s.def.Workflow, any(1)).ID()
				env.Sleep(after)
				refused := cancel(env, id)
				r := s.result(env, id)
				want := perdure.StatusCancelled
				if refused {
					want = perdure.StatusFailed
				}
				if left := s.effects(); left != "" || r.Status != want {
					env.Errorf("%v, %s: it is %v, want %v, and there is %s", after, policy,
						r.Status, want, left)
				}
			}, s.def)
		}
	}
}

// spec: F-35
func TestMembersGetWhatIsMeantForThem(t *testing.T) {
	type input struct {
		A, B, C, D, E, F string
		List             []string
	}
	var mu sync.Mutex
	got := map[string]input{}
	type result struct{ ID, Empty string }
	see := func(alias string) *saga.Saga[input] {
		def := saga.New[input](alias)
		saga.Add(def, "see", func(_ context.Context, in input) (result, error) {
			mu.Lock()
			defer mu.Unlock()
			got[alias] = in
			return result{ID: "from " + alias}, nil
		}).Variable("seen-by-" + alias)
		return def
	}
	c := saga.Compose[input]("composition")
	first := saga.New[input]("first")
	step := saga.Add(first, "step", func(context.Context, input) (result, error) {
		return result{ID: "4711"}, nil
	})
	each := saga.AddEach(first, "each", func(input) []string { return []string{"x", "y"} },
		func(_ context.Context, item string) (string, error) { return item, nil })
	a := saga.Include(c, "a", first)
	never := pattern.If(func(context.Context, pattern.View) (bool, error) { return false, nil })
	skipped := saga.New[input]("skipped")
	nothing := saga.Add(skipped, "step", func(context.Context, input) (string, error) {
		return "", errBroken
	})
	b := saga.Include(c, "b", skipped).When(never).After(a)
	var known pattern.View
	saga.Include(c, "c", see("c")).After(a, b).
		With(map[string]string{"B": "static", "C": "static"}).
		Map("C", saga.FromStep(a, step).Field("ID")).Map("D", saga.FromInput("A")).
		Map("E", saga.FromStep(b, nothing)).
		Map("List", saga.FromStep(a, each)).Map("F", saga.FromVariable("none")).
		When(pattern.If(func(_ context.Context, k pattern.View) (bool, error) {
			known = k
			return true, nil
		}))
	perduretest.Test(t, func(env *perduretest.Env) {
		r, err := c.Execute(env.Context(), env.Engine(), input{
			A: "input", B: "input", C: "input", E: "input",
		}, perdure.Headers{"tenant": "t"})
		if err != nil || !r.Success() {
			env.Fatal(r.Status, r.Err, err)
		}
		want := input{A: "input", B: "static", C: "4711", D: "input", E: "input", List: []string{
			"x", "y",
		}}
		if fmt.Sprint(got["c"]) != fmt.Sprint(want) {
			env.Errorf("c got %+v, want %+v", got["c"], want)
		}
		if s := fmt.Sprint(r.MemberStatus("a"), r.MemberStatus("b"),
			r.MemberStatus("c")); s != "DONESKIPPEDDONE" {
			env.Error(s)
		}
		if out, found, err := step.Of(r.Member("a")); out.ID != "4711" || !found || err != nil {
			env.Error(out, found, err)
		}
		var a struct{ Step result }
		if err := json.Unmarshal(known.Results["a"], &a); err != nil || a.Step.ID != "4711" ||
			known.Headers["tenant"] != "t" || known.Results["b"] != nil {
			env.Errorf("the condition knows %s %v", known.Results, known.Headers)
		}
		if string(r.Variables["seen-by-c"]) != `{"ID":"from c","Empty":""}` {
			env.Errorf("the variables are %s", r.Variables)
		}
	}, c)
}

// spec: F-35
func TestAMemberThatCannotBeginFails(t *testing.T) {
	for what, c := range map[string]struct {
		build func(*saga.Member)
		says  string
	}{
		"a condition that fails": {
			func(m *saga.Member) {
				m.When(condition(func() (bool, error) { return false, errBroken }))
			},
			"broken",
		},
		"a condition that panics": {
			func(m *saga.Member) { m.When(condition(func() (bool, error) { panic("odd") })) },
			"panic: odd",
		},
		"an input of no use": {
			func(m *saga.Member) { m.Map("N", saga.FromVariable("word")) },
			"do not decode",
		},
	} {
		for _, optional := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, optional %v", what, optional), func(t *testing.T) {
				type input struct{ N int }
				undone := 0
				before := saga.New[input]("before")
				saga.Add(before, "step", func(context.Context, input) (int, error) {
					return 1, nil
				}).Undo(func(context.Context, input, int) error {
					undone++
					return nil
				})
				saga.Add(before, "say", func(context.Context, input) (string, error) {
					return "no number", nil
				}).Variable("word")
				def := saga.New[input]("def")
				saga.Add(def, "step", func(context.Context, input) (int, error) { return 1, nil })
				comp := saga.Compose[input]("composition")
				m := saga.Include(comp, "odd", def).After(saga.Include(comp, "before", before))
				c.build(m)
				if optional {
					m.Optional()
				}
				perduretest.Test(t, func(env *perduretest.Env) {
					r, err := comp.Execute(env.Context(), env.Engine(), input{1})
					failed, _ := r.Step("odd")
					if err != nil || failed.Err == nil || !strings.Contains(failed.Err.Error(),
						c.says) || r.MemberStatus("odd") != report.StepIsFailed {
						env.Errorf("%+v, %v", failed, err)
					}
					if optional && (!r.Success() || undone != 0) ||
						!optional && (blame(r.Err) != "step odd" || undone != 1) {
						env.Errorf("it is %v: %v, %d undone", r.Status, r.Err, undone)
					}
				}, comp)
			})
		}
	}
}

func condition(f func() (bool, error)) pattern.Condition {
	return pattern.If(func(context.Context, pattern.View) (bool, error) { return f() })
}

// spec: F-35, F-8
func TestACompositionWithIssuesIsRefused(t *testing.T) {
	def := saga.New[int]("def")
	step := saga.Add(def, "step", func(context.Context, int) (int, error) { return 1, nil })
	other := saga.New[int]("other")
	foreign := saga.Add(other, "step", func(context.Context, int) (int, error) { return 1, nil })
	empty := saga.New[int]("empty")
	elsewhere := saga.Compose[int]("elsewhere")
	c := saga.Compose[int]("composition").Policy(saga.CircuitBreaker).On(pattern.Callback{})
	a := saga.Include(c, "a", def).After(nil).With(7)
	b := saga.Include(c, "b", empty).Map("x", saga.FromStep(a, step)).Map("y", saga.Source{})
	saga.Include(c, "c d", def).After(b).Map("x", saga.FromStep(b, foreign)).When(pattern.If(nil))
	saga.Include[int, int](c, "none", nil).After(saga.Include(elsewhere, "e", def))
	eng := newEngine(t)
	err := eng.Register(c)
	for _, want := range []string{
		`policy: policy "CIRCUIT_BREAKER" is not valid`, "callbacks.0: exactly one",
		"a.after: a nil member", "a.with: it is no object",
		"b: there are no steps", "b.x: member a does not come before", "b.y: a source is needed",
		`c d: alias "c d" is not valid: allowed are 1 to 250 of`,
		"c d.x: step step is not one of member b", "c d.when:", "none: a member needs a saga",
		"none.after: member e is one of composition elsewhere",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("it does not say %q: %v", want, err)
		}
	}
	if err := eng.Register(saga.Compose[int]("nobody")); !errors.Is(
		err, &perdure.Error{Code: perdure.CodeTopology}) {
		t.Errorf("a composition of nothing: %v", err)
	}
}

// spec: F-35
func TestACompositionIsDrawn(t *testing.T) {
	s := newShop(saga.StrictSequential)
	g := s.def.Graph()
	if dot := g.DOT("shop"); !strings.Contains(dot, `"bill" -> "ship"`) {
		t.Error(dot)
	}
	if m := g.Mermaid(); !strings.Contains(m, `n2["ship"]`) && !strings.Contains(m, `["ship"]`) {
		t.Error(m)
	}
}

// spec: F-35, P-6
func TestObserversHearOfCompositions(t *testing.T) {
	for how, want := range map[string]string{
		"success": "composition started , composition ended ",
		"failure": "composition started , composition ended step mail failed: step first " +
			"failed: broken",
		"cancel": "composition started , composition ended workflow cancelled: enough",
	} {
		var mu sync.Mutex
		var heard []string
		s := newShop(saga.StrictSequential)
		if how == "failure" {
			s.fails = set([]string{"mail/first"})
		}
		o := perdure.Options{Observers: []observe.Observer{{Kinds: []observe.Kind{
			observe.CompositionStarted, observe.CompositionEnded,
		}, See: func(n observe.Notice) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, string(n.Kind)+" "+n.Err)
		}}}}
		perduretest.Setup{Workflows: []perdure.Definition{s.def}, Options: o}.Test(
			t, func(env *perduretest.Env) {
				s.reset()
				id := perduretest.Start(env, s.def.Workflow, any(1)).ID()
				env.Sleep(30 * time.Millisecond)
				if how == "cancel" {
					cancel(env, id)
				}
				s.result(env, id)
				mu.Lock()
				defer mu.Unlock()
				if got := strings.Join(heard, ", "); got != want {
					env.Errorf("%s: heard %q, want %q", how, got, want)
				}
			})
	}
}
