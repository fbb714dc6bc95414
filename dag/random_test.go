package dag_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/pattern"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

// A world is a shape as a graph, and the observations of it.
type world struct {
	shape
	graph *dag.Graph[int]
	lasts map[string]time.Duration

	mu    sync.Mutex
	calls map[string]int
	diary []string
	keys  map[string]map[string]bool
}

var (
	goodChild = perdure.Define("good-child", func(ctx context.Context, n int) (int, error) {
		return n, perdure.Sleep(ctx, 7*time.Minute)
	})
	badChild = perdure.Define("bad-child", func(ctx context.Context, n int) (int, error) {
		_ = perdure.Sleep(ctx, 5*time.Minute)
		return n, errDown
	})
)

func (w *world) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diary = append(w.diary, line)
}

func (w *world) count(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[call]++
}

func (w *world) use(ctx context.Context, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys[name] == nil {
		w.keys[name] = map[string]bool{}
	}
	w.keys[name][perdure.IdempotencyKey(ctx)] = true
}

// body returns the function of a step.
func (w *world) body(p spec) func(context.Context, none) (string, error) {
	return func(ctx context.Context, _ none) (string, error) {
		w.note("begin " + p.id)
		w.use(ctx, p.id)
		n, _, err := perdure.Attempt(ctx)
		if err != nil {
			return "", err
		}
		select {
		case <-time.After(w.lasts[p.id]):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		w.note("end " + p.id)
		if n <= p.fails {
			return "", fmt.Errorf("attempt %d: %w", n, errDown)
		}
		return p.id, nil
	}
}

// build makes the graph of a shape.
func build(s shape, rng *rand.Rand) *world {
	w := &world{
		shape: s,
		graph: dag.New[int]("random").Concurrency(s.limit),
		lasts: map[string]time.Duration{},
	}
	w.calls, w.keys = map[string]int{}, map[string]map[string]bool{}
	steps := map[string]dag.Dependency{}
	for _, p := range s.specs {
		w.lasts[p.id] = time.Duration(rng.Int64N(int64(time.Hour)))
		if p.child == "" {
			steps[p.id] = decorate(w, dag.Add(w.graph, p.id, w.body(p)), p, steps)
			continue
		}
		wf := goodChild
		if p.child == "bad" || p.child == "any" {
			wf = badChild
		}
		c := dag.AddChild(w.graph, p.id, wf, func(none) int { return 1 })
		switch p.child {
		case "any":
			c.AnyOutcome()
		case "detached":
			c.Detached()
		}
		steps[p.id] = decorate(w, c.Step, p, steps)
	}
	w.graph.On(pattern.Callback{Step: func(_ context.Context, step string) error {
		w.count("step " + step)
		return errDown
	}})
	w.graph.On(pattern.Callback{Failure: func(context.Context, error) (bool, error) {
		w.count("failure")
		return s.suppresses, nil
	}})
	return w
}

// decorate sets the properties of a step as in its spec.
func decorate[A, R any](w *world, s *dag.Step[A, R], p spec,
	steps map[string]dag.Dependency) *dag.Step[A, R] {
	s.Order(p.order)
	for _, id := range p.after {
		s.After(steps[id])
	}
	if p.child == "" {
		s.Retry(perdure.Retry{Attempts: p.attempts, First: time.Minute, Factor: 1})
	}
	switch p.when {
	case "no", "broken":
		s.When(pattern.If(func(context.Context, pattern.View) (bool, error) {
			return false, map[string]error{"broken": errDown}[p.when]
		}))
	case "panics":
		s.When(pattern.If(func(context.Context, pattern.View) (bool, error) {
			panic("a condition")
		}))
	}
	switch p.gate {
	case "signal":
		s.WaitSignal("go-"+p.id, 0)
	case "timer":
		s.WaitTimer("cool-off", time.Hour)
	case "all":
		s.WaitAll(0, dag.Signal("go-"+p.id), dag.Timer("cool-off", 30*time.Minute))
	case "any":
		s.WaitAny(100*time.Hour, dag.Signal("go-"+p.id), dag.Timer("cool-off", 90*time.Minute))
	case "never":
		s.WaitSignal("never-"+p.id, time.Hour)
	}
	if p.async {
		s.Async()
	}
	if p.undo != "" {
		s.Undo(func(ctx context.Context, _ A, _ R) error {
			w.use(ctx, "undo "+p.id)
			select {
			case <-time.After(time.Minute):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return map[string]error{"bad": perdure.Permanent(errDown)}[p.undo]
		})
	}
	return s
}

// pick returns one of some words, mostly the first.
func pick(rng *rand.Rand, words ...string) string {
	if rng.IntN(3) > 0 {
		return words[0]
	}
	return words[rng.IntN(len(words))]
}

// randomShape makes a shape.
func randomShape(rng *rand.Rand) shape {
	s := shape{limit: rng.IntN(4), suppresses: rng.IntN(4) == 0}
	n := 1 + rng.IntN(9)
	for i := range n {
		p := spec{
			id: fmt.Sprintf("s%d", i), order: rng.IntN(3), attempts: 1 + rng.IntN(3),
			when: pick(rng, "", "", "", "no", "no", "broken", "panics"), gate: pick(rng, "",
				"signal", "timer", "all", "any", "signal", "timer", "all", "any", "never"),
			child: pick(rng, "", "good", "good", "bad", "any", "detached"), async: rng.IntN(6) == 0,
			undo: pick(rng, "good", "", "bad"),
		}
		if rng.IntN(4) == 0 {
			p.fails = rng.IntN(4)
		}
		for j := range i {
			if rng.IntN(4) == 0 {
				p.after = append(p.after, fmt.Sprintf("s%d", j))
			}
		}
		s.specs = append(s.specs, p)
	}
	return s
}

// live runs the graph of a world: it sends each signal at some time, crashes the engine some times,
// and does more.
func (w *world) live(env *perduretest.Env, rng *rand.Rand, crashes int,
	more map[time.Duration]func()) {
	run := perduretest.Start(env, w.graph.Workflow, 1, perdure.ID("run"))
	at := map[time.Duration]func(){}
	maps.Copy(at, more)
	for _, p := range w.specs {
		if p.gate == "signal" || p.gate == "all" || p.gate == "any" {
			at[time.Duration(rng.Int64N(int64(3*time.Hour)))] = func() {
				err := env.Do(func(eng *perdure.Engine) error {
					_, err := eng.Send(env.Context(), run.ID(), "go-"+p.id, []byte(`1`),
						perdure.SendKey("key-"+p.id))
					return err
				})
				if err != nil && !errors.Is(err, &perdure.Error{Code: journal.CodeWrongState}) {
					env.Error(err)
				}
			}
		}
	}
	for range crashes {
		at[time.Duration(rng.Int64N(int64(6*time.Hour)))] = func() {
			w.note("crash")
			env.Crash()
		}
	}
	var times []time.Duration
	for t := range at {
		times = append(times, t)
	}
	slices.Sort(times)
	now := time.Duration(0)
	for _, t := range times {
		env.Sleep(t - now)
		now = t
		at[t]()
	}
	_, _ = run.Result()
}

// observe returns the observed result.
func (w *world) observe(env *perduretest.Env) observation {
	r := reportOf(env, "run")
	o := observation{
		status: r.Status, suppressed: r.Suppressed != nil, calls: w.calls, diary: w.diary,
		keys:  w.keys,
		steps: map[string]journal.StepStatus{}, attempts: map[string]int{},
	}
	for _, s := range r.Steps {
		if !strings.Contains(s.ID, "/") {
			o.steps[s.ID], o.attempts[s.ID] = s.Status, s.Attempts
		}
	}
	var failed *pattern.StepError
	if err := errors.Join(r.Err, r.Suppressed); errors.As(err, &failed) {
		o.why = failed.Step
	}
	var entries []journal.Entry
	if err := env.Do(func(eng *perdure.Engine) (err error) {
		entries, err = eng.History(env.Context(), "run", 0, 0)
		return err
	}); err != nil {
		env.Fatal(err)
	}
	for _, e := range entries {
		switch e.Kind {
		case journal.CompensationStarted:
			o.compensates = true
		case journal.StepCompleted:
			if e.Op.Scope == 0 && !strings.Contains(e.Op.Name, ":") {
				o.ended = append(o.ended, e.Op.Name)
			}
		case journal.StepCompensated, journal.StepCompensationFailed:
			o.undone = append(o.undone, e.Op.Name)
		case journal.DeadLettered:
			o.letters = append(o.letters, e.Op.Name)
		}
	}
	return o
}

// holdsTo runs a shape and judges the result.
func holdsTo(t *testing.T, s shape, seed uint64, crashes int) bool {
	t.Helper()
	ok := true
	rng := rand.New(rand.NewPCG(seed, 1))
	w := build(s, rng)
	perduretest.Test(t, func(env *perduretest.Env) {
		w.live(env, rng, crashes, nil)
		for _, bad := range s.judge(w.observe(env)) {
			ok = false
			env.Error(bad)
		}
	}, w.graph, goodChild, badChild)
	if !ok || t.Failed() {
		text, _ := json.Marshal(fmt.Sprintf("%+v", s))
		t.Errorf("the shape is %s", text)
	}
	return ok && !t.Failed()
}

var (
	graphs = flag.Uint64("graphs", 150, "how many random graphs are tried")
	seed   = flag.Uint64("seed", 0, "that of the first random graph; 0 is another one each time")
)

// spec: F-2, F-9, F-16, F-17, F-18, F-19, F-20
func TestRandomGraphsAreAsTheModelSays(t *testing.T) {
	for name, crashes := range map[string]int{"without a crash": 0, "with crashes": 4} {
		t.Run(name, func(t *testing.T) {
			eachSeed(t, *graphs, func(n uint64) bool {
				return holdsTo(t, randomShape(rand.New(rand.NewPCG(n, 0))), n, crashes)
			})
		})
	}
}

// A graph that is cancelled at some time ends as CANCELLED, or as it would have ended without the
// cancel: if it has begun to compensate, it compensates to the end. With compensation, a cancel
// first undoes what is done.
//
// spec: F-20, F-21, R-11
func TestRandomGraphsBearACancelAtAnyTime(t *testing.T) {
	compensated, cancelled, undone := 0, 0, 0
	eachSeed(t, *graphs, func(n uint64) bool {
		rng := rand.New(rand.NewPCG(n, 2))
		s := randomShape(rand.New(rand.NewPCG(n, 0)))
		w := build(s, rng)
		perduretest.Test(t, func(env *perduretest.Env) {
			var asked sync.WaitGroup
			w.live(env, rng, int(n%3),
				map[time.Duration]func(){time.Duration(rng.Int64N(int64(5 * time.Hour))): func() {
					asked.Go(func() {
						err := env.Do(func(eng *perdure.Engine) error {
							_, err := admin.New(eng).Act(env.Context(), "run", admin.Order{
								Action: journal.ActionCancel, Compensate: n%2 == 0,
							})
							return err
						})
						if err != nil &&
							!errors.Is(err, &perdure.Error{Code: journal.CodeWrongState}) {
							env.Error(err)
						}
					})
				}})
			asked.Wait()
			o := w.observe(env)
			if o.status != s.expect().status && o.status != journal.Cancelled {
				env.Errorf("the run is %v", o.status)
			}
			var undos []string
			for _, id := range slices.Backward(o.ended) {
				i := slices.IndexFunc(s.specs, func(p spec) bool { return p.id == id })
				isUndone := o.compensates || o.status == journal.Cancelled && n%2 == 0
				if isUndone && s.specs[i].undo != "" {
					undos = append(undos, id)
				}
			}
			switch {
			case o.compensates && o.status == journal.Cancelled && n%2 == 0:
				undone++
			case o.compensates && o.status == journal.Cancelled:
				env.Error("the run was cancelled while it compensated")
			case o.compensates:
				compensated++
			case o.status == journal.Cancelled:
				cancelled++
			}
			if !slices.Equal(undos, o.undone) {
				env.Errorf("%q are undone, not %q", o.undone, undos)
			}
		}, w.graph, goodChild, badChild)
		return !t.Failed()
	})
	if *graphs > 50 && (compensated == 0 || cancelled == 0 || undone == 0) {
		t.Errorf("%d graphs have compensated, and %d were cancelled, %d with compensation",
			compensated, cancelled, undone)
	}
}

// eachSeed calls a test with seeds, until one fails.
func eachSeed(t *testing.T, n uint64, test func(seed uint64) bool) {
	t.Helper()
	first := *seed
	if first == 0 {
		first = rand.Uint64()
	}
	t.Logf("seeds from %d", first)
	for at := first; at < first+n; at++ {
		if !test(at) {
			t.Fatalf("-seed %d -graphs 1", at)
		}
	}
}
