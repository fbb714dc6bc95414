package tcc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/backpressure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/tcc"
)

// A tour is a composition whose members have two participants each, and its faults. Steps are named
// alias/participant.
type tour struct {
	fails map[string]int // attempts that fail, by phase:alias/participant
	when  string         // the body in which the run is cancelled
	park  bool

	env   *perduretest.Env
	mu    sync.Mutex
	order []string // first successes; confirms of one TCC are in any order
	keys  map[string]string
	wrong []string
}

func (w *tour) act(ctx context.Context, tried string) (string, error) {
	info, _ := perdure.StepOf(ctx)
	what := strings.ToLower(string(info.Phase)) + ":" + info.Of
	w.mu.Lock()
	for key, of := range w.keys {
		if (of == what) != (key == perdure.IdempotencyKey(ctx)) {
			w.wrong = append(w.wrong, fmt.Sprintf("key %s is of %s, and %s is of %s", key, of,
				perdure.IdempotencyKey(ctx), what))
		}
	}
	w.keys[perdure.IdempotencyKey(ctx)] = what
	underWay := w.when != "" && tried == "" // maybe under way when it was cancelled
	if want := "of " + info.Of; info.Phase != perdure.PhaseTry && tried != want && !underWay {
		w.wrong = append(w.wrong, fmt.Sprintf("%s got %q", what, tried))
	}
	w.mu.Unlock()
	<-time.After(time.Millisecond)
	if w.when == what {
		if err := w.env.Engine().Cancel(context.Background(), string(info.Run.ID),
			"enough"); err != nil && !stopped(err) &&
			!errors.Is(err, &perdure.Error{Code: journal.CodeWrongState}) {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Minute):
		}
	}
	if info.Attempt <= w.fails[what] {
		return "", errOdd
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.order, what) {
		w.order = append(w.order, what)
	}
	return "of " + info.Of, nil
}

type leg struct{ Name, Before string }

// define makes the tour: flight; then hotel and car at the same time; then insurance.
func (w *tour) define(policy backpressure.Policy, optional ...string) *tcc.Composition[string] {
	one := func(name string) *tcc.TCC[leg] {
		t := tcc.New[leg](name).Retry(perdure.NoRetry)
		for _, id := range []string{"a", "b"} {
			p := tcc.Add(t, id, func(ctx context.Context, in leg) (string, error) {
				if want := map[string]string{
					"hotel": "of flight/a",
					"car":   "of flight/b",
				}[name]; in.Name != "tour" || in.Before != want {
					return "", perdure.Permanent(fmt.Errorf("%s got %+v", name, in))
				}
				return w.act(ctx, "")
			})
			p.Confirm(func(ctx context.Context, _ leg, tried string) error {
				_, err := w.act(ctx, tried)
				return err
			})
			p.Cancel(func(ctx context.Context, _ leg, tried string) error {
				_, err := w.act(ctx, tried)
				return err
			})
		}
		if w.park {
			t.Park()
		}
		return t
	}
	c := tcc.Compose[string]("tour", perdure.Timeout(100*time.Hour)).Backpressure(policy)
	first := func(in string) (leg, error) { return leg{Name: in}, nil }
	flight := tcc.Include(c, "flight", one("flight"), first)
	hotel := tcc.Include(c, "hotel", one("hotel"), func(in struct {
		Tour  string `perdure:"input"`
		Tried string `perdure:"try=flight/a,required"`
	}) (leg, error) {
		return leg{in.Tour, in.Tried}, nil
	}).After(flight)
	car := tcc.Include(c, "car", one("car"), func(in struct {
		Tour  string `perdure:"input"`
		Tried string `perdure:"try=flight/b,required"`
	}) (leg, error) {
		return leg{in.Tour, in.Tried}, nil
	}).After(flight)
	insurance := tcc.Include(c, "insurance", one("insurance"), first).After(hotel, car)
	for alias, m := range map[string]*tcc.Member{
		"flight":    flight,
		"hotel":     hotel,
		"car":       car,
		"insurance": insurance,
	} {
		if slices.Contains(optional, alias) {
			m.Optional()
		}
	}
	return c
}

// made plays a tour at every point of a crash, and calls check with the result and the successes in
// order.
func (w *tour) made(t *testing.T, c *tcc.Composition[string], check func(env *perduretest.Env,
	r tcc.Result, order []string)) {
	t.Helper()
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		w.env, w.order, w.keys, w.wrong = env, nil, map[string]string{}, nil
		run := perduretest.Start(env, c.Workflow, "tour")
		_, _ = run.Result()
		var r tcc.Result
		if err := env.Do(func(eng *perdure.Engine) (err error) {
			r.Run, err = eng.Report(env.Context(), run.ID())
			return err
		}); err != nil {
			env.Fatal(err)
		}
		env.Settle()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, bad := range w.wrong {
			env.Error(bad)
		}
		check(env, r, w.order)
		if t.Failed() {
			env.Logf("it is %v: %v; done: %v", r.Status, r.Err, w.order)
		}
		return fmt.Sprint(r.Status, r.Err)
	}, c)
}

// of returns the names in order that are of a phase and, optionally, of some members.
func of(order []string, phase string, aliases ...string) []string {
	return slices.DeleteFunc(slices.Clone(order), func(what string) bool {
		rest, is := strings.CutPrefix(what, phase+":")
		alias, _, _ := strings.Cut(rest, "/")
		return !is || len(aliases) > 0 && !slices.Contains(aliases, alias)
	})
}

// spec: F-42
func TestMembersAreConfirmedInOrder(t *testing.T) {
	for name, policy := range map[string]backpressure.Policy{
		"free":          nil,
		"one at a time": backpressure.Limit(1),
	} {
		t.Run(name, func(t *testing.T) {
			w := &tour{}
			w.made(t, w.define(policy), func(env *perduretest.Env, r tcc.Result, order []string) {
				if !r.IsConfirmed() || r.Err != nil || len(of(order, "try")) != 8 ||
					len(of(order, "confirm")) != 8 || len(of(order, "cancel")) != 0 {
					env.Errorf("%v %v", r.Status, r.Err)
				}
				last := func(alias string) int {
					return max(slices.Index(order, "confirm:"+alias+"/a"),
						slices.Index(order, "confirm:"+alias+"/b"))
				}
				first := func(alias string) int { return slices.Index(order, "try:"+alias+"/a") }
				if first("hotel") < last("flight") || first("car") < last("flight") ||
					first("insurance") < max(last("hotel"), last("car")) {
					env.Error("a member begins before those that it comes after")
				}
				if beside := first("car") < last("hotel"); beside != (policy == nil) {
					env.Errorf("car and hotel are made beside each other: %v", beside)
				}
			})
		})
	}
}

// spec: F-42
func TestMemberThatFailsCancelsTheConfirmedOnes(t *testing.T) {
	cases := map[string]struct {
		fails    map[string]int
		optional []string
		status   journal.Status
		failed   string
		canceled []string // members, in the order of their cancels
		letters  int
	}{
		"the first": {
			map[string]int{"try:flight/b": 1},
			nil,
			journal.Canceled,
			"TRY flight/b",
			[]string{"flight/a"},
			0,
		},
		"the last": {
			map[string]int{"try:insurance/a": 1},
			nil,
			journal.Canceled,
			"TRY insurance/a",
			[]string{"car/b", "car/a", "hotel/b", "hotel/a", "flight/b", "flight/a"},
			0,
		},
		"a confirm": {
			map[string]int{"confirm:insurance/a": 1},
			nil,
			journal.Canceled,
			"CONFIRM insurance/a",
			[]string{
				"insurance/b", "insurance/a", "car/b", "car/a", "hotel/b", "hotel/a", "flight/b",
				"flight/a",
			},
			0,
		},
		"one beside another": {
			map[string]int{"try:hotel/a": 1},
			nil,
			journal.Canceled,
			"TRY hotel/a",
			[]string{"car/b", "car/a", "flight/b", "flight/a"},
			0,
		},
		"one that is skipped": {
			map[string]int{"try:hotel/b": 1},
			[]string{"hotel"},
			journal.Confirmed,
			"",
			[]string{"hotel/a"},
			0,
		},
		"its own cancel": {
			map[string]int{"try:insurance/b": 1, "cancel:insurance/a": 1},
			nil,
			journal.Failed,
			"CANCEL insurance/a",
			[]string{"car/b", "car/a", "hotel/b", "hotel/a", "flight/b", "flight/a"},
			1,
		},
		"a cancel afterwards": {
			map[string]int{"try:insurance/b": 1, "cancel:hotel/b": 1},
			nil,
			journal.Failed,
			"CANCEL hotel/b",
			[]string{"insurance/a", "car/b", "car/a", "hotel/a", "flight/b", "flight/a"},
			1,
		},
		"skipped, uncanceled": {
			map[string]int{"try:car/b": 1, "cancel:car/a": 1},
			[]string{"car"},
			journal.Confirmed,
			"",
			nil,
			1,
		},
		"all that can": {
			map[string]int{"try:insurance/b": 1, "cancel:hotel/b": 1, "cancel:flight/a": 1},
			nil,
			journal.Failed,
			"CANCEL hotel/b",
			[]string{"insurance/a", "car/b", "car/a", "hotel/a", "flight/b"},
			2,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := &tour{fails: c.fails}
			w.made(t, w.define(nil, c.optional...), func(env *perduretest.Env, r tcc.Result,
				order []string) {
				phase, by := r.Failed()
				if r.Status != c.status || strings.TrimSpace(string(phase)+" "+by) != c.failed {
					env.Errorf("%v %v %q", r.Status, phase, by)
				}
				var want []string
				for _, one := range c.canceled {
					want = append(want, "cancel:"+one)
				}
				if got := of(order, "cancel"); !slices.Equal(got, want) {
					env.Errorf("cancelled: %v\nwant: %v", got, want)
				}
				letters := 0
				h, err := env.Engine().History(env.Context(), string(r.RunID), 0, 0)
				for _, e := range h {
					if e.Kind == journal.DeadLettered {
						letters++
					}
				}
				if err != nil || letters != c.letters {
					env.Errorf("%d dead letters, want %d; %v", letters, c.letters, err)
				}
			})
		})
	}
}

// If the composition is told to end at any moment before the last member is confirmed, it cancels
// every member that has begun. A member that has decided carries out its decision first.
//
// spec: F-38, F-42
func TestCompositionIsToldToEnd(t *testing.T) {
	all := []string{"flight", "hotel", "car", "insurance"}
	for _, phase := range []string{"try", "confirm", "cancel"} {
		for _, alias := range all {
			for _, id := range []string{"a", "b"} {
				when := phase + ":" + alias + "/" + id
				t.Run(when, func(t *testing.T) {
					w := &tour{when: when, fails: map[string]int{}}
					if phase == "cancel" {
						w.fails["confirm:insurance/b"] = 1
					}
					w.made(t, w.define(nil), func(env *perduretest.Env, r tcc.Result,
						order []string) {
						if !r.IsCanceled() {
							env.Errorf("%v %v", r.Status, r.Err)
						}
						for _, member := range all {
							if confirmed := len(of(order, "confirm", member)); confirmed != 0 &&
								confirmed != 2 && w.fails["confirm:"+member+"/b"] == 0 {
								env.Errorf("of %s %d have confirmed", member, confirmed)
							}
							for _, p := range []string{"a", "b"} {
								tried := slices.Contains(order, "try:"+member+"/"+p) ||
									when == "try:"+member+"/"+p
								at := slices.Index(order, "cancel:"+member+"/"+p)
								if tried &&
									(at < 0 || at < slices.Index(order, "confirm:"+member+"/"+p)) {
									env.Errorf("%s/%s is not cancelled after all else", member, p)
								}
							}
						}
					})
				})
			}
		}
	}
}

// A policy that lets nothing begin after the first end.
type onlyOne struct{}

func (onlyOne) Begin() backpressure.Limiter { return &refusing{} }

type refusing struct{ ended bool }

func (f *refusing) Room(int, time.Time) (int, error) {
	if f.ended {
		return 0, errOdd
	}
	return 1, nil
}

func (f *refusing) Ended(error, time.Time) { f.ended = true }

// spec: F-42
func TestMemberThatIsRefusedHasFailed(t *testing.T) {
	for name, optional := range map[string][]string{
		"required": nil,
		"optional": {"hotel", "car", "insurance"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &tour{}
			w.made(t, w.define(onlyOne{}, optional...), func(env *perduretest.Env, r tcc.Result,
				order []string) {
				if r.IsConfirmed() != (optional != nil) || r.IsCanceled() != (optional == nil) ||
					len(of(order, "try")) != 2 {
					env.Errorf("%v %v", r.Status, r.Err)
				}
				if _, by := r.Failed(); optional == nil && by != "hotel" {
					env.Errorf("failed: %q", by)
				}
			})
		})
	}
}
