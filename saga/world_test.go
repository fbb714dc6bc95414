package saga_test

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
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/saga"
)

var errBroken = errors.New("broken")

// A world is the place where a saga has effects: a ledger by idempotency key.
type world struct {
	mu       sync.Mutex
	byKey    map[string]string // the use of a key
	keyOf    map[string]string // the key of a use
	applied  map[string]bool   // uses that have had their effect
	there    map[string]bool   // effects
	wrong    []string
	stepDone map[string]int
	failures []string
	complete int
}

func (w *world) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.byKey, w.keyOf, w.there, w.stepDone = map[string]string{}, map[string]string{},
		map[string]bool{}, map[string]int{}
	w.applied = map[string]bool{}
	w.wrong, w.failures, w.complete = nil, nil, 0
}

// begin notes that something is executed, and its key.
func (w *world) begin(ctx context.Context, what string) {
	key := perdure.IdempotencyKey(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.byKey[key]; key == "" || known != "" && known != what {
		w.wrong = append(w.wrong, fmt.Sprintf("%s has the key %q of %s", what, key, known))
	}
	if known := w.keyOf[what]; known != "" && known != key {
		w.wrong = append(w.wrong, fmt.Sprintf("%s has the keys %q and %q", what, key, known))
	}
	w.byKey[key], w.keyOf[what] = what, key
}

// apply has an effect, once per key.
func (w *world) apply(ctx context.Context, what string, effect func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.applied[what] && ctx.Err() == nil {
		w.applied[what] = true
		effect()
	}
}

// do is the body of a unit.
func (w *world) do(ctx context.Context, s shape, id string) (string, error) {
	w.begin(ctx, id)
	if err := sleep(ctx, took(s, id)); err != nil {
		return "", err
	}
	if n, _, err := perdure.Attempt(ctx); err != nil || n <= s.fails[id] {
		return "", errors.Join(errBroken, err)
	}
	w.apply(ctx, id, func() { w.there[id] = true })
	return "result of " + id, nil
}

// undo is the compensation of a unit.
func (w *world) undo(ctx context.Context, s shape, id, in, out string) error {
	w.begin(ctx, "undo "+id)
	if out != "result of "+id {
		w.complain("the compensation of %s got %q", id, out)
	}
	if u := s.unit(id); u.of == "" && in != "input" || u.of != "" && in != id {
		w.complain("the compensation of %s got the input %q", id, in)
	}
	if err := sleep(ctx, took(s, id)); err != nil {
		return err
	}
	n, err := undoAttempt(ctx, s, id)
	if err != nil || n <= s.undoFail[id] {
		return errors.Join(errBroken, err)
	}
	w.apply(ctx, "undo "+id, func() {
		if !w.there[id] {
			w.wrong = append(w.wrong, id+" is undone and was not done")
		}
		delete(w.there, id)
	})
	return nil
}

func (w *world) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// undoAttempt returns the number of the attempt of a compensation, over all attempts that a handler
// or an operator has asked for.
func undoAttempt(ctx context.Context, s shape, id string) (int, error) {
	info, _ := perdure.StepOf(ctx)
	_, after, again := strings.Cut(info.Step, "#")
	if !again {
		return info.Attempt, nil
	}
	u, first, occ := s.unit(id), 1, 0
	if s.policy == saga.RetryWithBackoff || s.policy == saga.CircuitBreaker {
		if first += u.undo; u.undo < 0 {
			first += 1 + u.extra
		}
	}
	_, err := fmt.Sscan(after, &occ)
	return first + occ - 1, err
}

// took returns the duration of a unit: no two units have the same.
func took(s shape, id string) time.Duration {
	i := slices.IndexFunc(s.units, func(u unit) bool { return u.id == id })
	return time.Duration(len(s.units)-i) * 7 * time.Millisecond
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// build makes the saga of a shape.
func (w *world) build(s shape) *saga.Saga[string] {
	def := saga.New[string]("saga", perdure.Timeout(or(s.timeout, time.Hour))).Policy(s.policy)
	if h := handlers[s.handler]; h != nil {
		def.OnUndoError(func(e saga.UndoError) saga.Action {
			if e.Saga != "saga" || e.Err == nil || e.Attempt <= e.Retries {
				w.complain("the handler got %+v", e)
			}
			return h(e.Retries)
		})
	}
	if s.handler == "park" {
		def.ParkOnUndoError()
	}
	retry := func(extra int) perdure.Retry {
		return perdure.Retry{Attempts: extra + 1, First: 3 * time.Millisecond, Factor: 2}
	}
	steps := map[string]*saga.Step[string, string]{}
	for _, u := range s.units {
		step := steps[u.step()]
		if step != nil {
			continue
		}
		if u.of == "" {
			step = saga.Add(def, u.id, func(ctx context.Context, _ string) (string, error) {
				return w.do(ctx, s, u.id)
			})
		} else {
			step = saga.AddEach(def, u.of, func(string) []string { return s.clonesOf(u.of) },
				func(ctx context.Context, item string) (string, error) {
					return w.do(ctx, s, item)
				})
			if strings.HasPrefix(u.id, u.of+"[x") {
				step.Named(func(item string) string {
					return strings.TrimSuffix(strings.TrimPrefix(item, u.of+"["), "]")
				})
			}
		}
		steps[u.step()] = step
		if !u.noUndo {
			step.Undo(func(ctx context.Context, in, out string) error {
				id := u.id
				if u.of != "" {
					id = in
				}
				return w.undo(ctx, s, id, in, out)
			})
		}
		if step.Retry(retry(u.extra)); u.undo >= 0 && !u.noUndo {
			step.UndoRetry(retry(u.undo))
		}
		if u.critical {
			step.Critical()
		}
		for _, before := range u.after {
			step.After(steps[before])
		}
	}
	def.On(pattern.Callback{Step: func(_ context.Context, step string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stepDone[step]++
		return nil
	}})
	def.On(pattern.Callback{Failure: func(_ context.Context, err error) (bool, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failures = append(w.failures, blame(err))
		return false, nil
	}})
	return def.On(pattern.Callback{Complete: func(_ context.Context, r report.Run) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.complete++
		return nil
	}})
}

func or(d, without time.Duration) time.Duration {
	if d == 0 {
		return without
	}
	return d
}

func (s shape) clonesOf(step string) (items []string) {
	for _, u := range s.units {
		if u.of == step {
			items = append(items, u.id)
		}
	}
	return items
}

// play runs the saga of a shape to its end, decides as its operator, and compares the outcome with
// the model. It returns the same value wherever a crash comes.
func (w *world) play(env *perduretest.Env, s shape, def *saga.Saga[string]) any {
	w.reset()
	run := perduretest.Start(env, def.Workflow, "input")
	if s.handler == "park" {
		w.operate(env, s, run.RunID())
	}
	_, _ = run.Result()
	env.Settle()
	r, ended, letters := w.look(env, def, run.RunID())
	e, err := s.expect(ended)
	if err != nil {
		env.Errorf("%v: %v", s, err)
		return nil
	}
	e.blames(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	var effects []string
	for id := range w.there {
		effects = append(effects, id)
	}
	slices.Sort(effects)
	for _, found := range append(e.differs(s, r, letters, effects), w.callbacks(e)...) {
		env.Errorf("%v: %s", s, found)
	}
	for _, wrong := range w.wrong {
		env.Errorf("%v: %s", s, wrong)
	}
	return []any{r.Status, letters} // the other results depend on the order of ends
}

// callbacks returns the problems of the callbacks that were called.
func (w *world) callbacks(e expectation) (found []string) {
	for id, status := range e.steps {
		if (w.stepDone[id] > 0) != (status != report.StepIsFailed) {
			found = append(found, fmt.Sprintf("the callback for %s, %v, was called %d times", id,
				status, w.stepDone[id]))
		}
	}
	failures := slices.Compact(slices.Clone(w.failures))
	switch {
	case e.err == nil && len(failures) > 0, e.err != nil &&
		!slices.Equal(failures, []string{blame(e.err)}):
		found = append(found, fmt.Sprintf("the callback for failures was called with %q",
			w.failures))
	case (w.complete > 0) != (e.err == nil):
		found = append(found, fmt.Sprintf("the callback for completion was called %d times",
			w.complete))
	}
	return found
}

// look reads the outcome of a run: the units in the order of their ends, and dead letters.
func (w *world) look(env *perduretest.Env, def *saga.Saga[string], id string) (r saga.Result, ended,
	letters []string) {
	env.Helper()
	err := env.Do(func(eng *perdure.Engine) error {
		report, err := eng.Report(env.Context(), id)
		if err != nil {
			return err
		}
		entries, err := eng.History(env.Context(), id, 0, 0)
		if err != nil {
			return err
		}
		r, ended, letters = def.ResultOf(report), nil, nil
		w.repeated(report, entries)
		for _, e := range entries {
			switch {
			case strings.HasPrefix(e.Op.Name, "perdure:") ||
				e.Detail != nil && e.Detail.Phase != "":
			case e.Kind == journal.StepCompleted, e.Kind == journal.StepFailed:
				ended = append(ended, unitID(e.Op))
			case e.Kind == journal.DeadLettered:
				letters = append(letters, unitID(e.Op))
			}
		}
		slices.Sort(letters)
		return nil
	})
	if err != nil {
		env.Fatal(err)
	}
	return r, ended, letters
}

// repeated fails the test for steps whose compensation has two verdicts.
func (w *world) repeated(r report.Run, entries []journal.Entry) {
	a := journal.NewAggregate(journal.RunID(r.RunID), r.WorkflowID, r.Name, r.Pattern)
	seen := map[journal.Op]bool{}
	for _, e := range entries {
		if err := a.Apply(e); err != nil {
			w.complain("%v", err)
		}
		if op := a.About(e.Op); e.Kind == journal.StepCompensated ||
			e.Kind == journal.StepCompensationFailed {
			if seen[op] {
				w.complain("%s was undone twice", a.Path(op))
			}
			seen[op] = true
		}
	}
}

// unitID returns the ID of the unit of an operation.
func unitID(op journal.Op) string {
	return journal.Op{Name: op.Name, Key: op.Key, Occ: 1}.String()
}

// operate is the operator: he retries compensations that fail a few times, and reports as handled
// those that always fail.
func (w *world) operate(env *perduretest.Env, s shape, id string) {
	env.Helper()
	for {
		env.Sleep(time.Minute)
		var parked []admin.Parked
		var status perdure.RunStatus
		err := env.Do(func(eng *perdure.Engine) (err error) {
			d, err := eng.Describe(env.Context(), id)
			if err != nil {
				return err
			}
			status = d.Head.Status
			parked, _, err = admin.New(eng).Parked(env.Context(), journal.Cursor{}, 0)
			return err
		})
		switch {
		case err != nil:
			env.Fatal(err)
		case status.IsTerminal():
			return
		case status != journal.CompensationFailed || len(parked) != 1 ||
			len(parked[0].Decisions) != 1:
			env.Fatalf("%v: it is %v, and parked are %+v", s, status, parked)
		}
		w.decide(env, s, id, parked[0].Decisions[0].Path)
	}
}

func (w *world) decide(env *perduretest.Env, s shape, id, name string) {
	env.Helper()
	unit, _, _ := strings.Cut(strings.TrimPrefix(name, "undo:"), "#")
	d := perdure.Decision{Choice: "retry"}
	if s.undoFail[unit] == forever {
		d.Choice = "handled"
	}
	if err := env.Do(func(eng *perdure.Engine) error {
		return eng.Decide(env.Context(), id, name, d)
	}); err != nil {
		env.Fatal(err)
	}
}

// test plays a shape without a crash.
func (s shape) test(t *testing.T) {
	t.Helper()
	w := &world{}
	def := w.build(s)
	perduretest.Test(t, func(env *perduretest.Env) { w.play(env, s, def) }, def)
}

// crash plays a shape with crashes: that many of them, or with 0 a crash at every commit.
func (s shape) crash(t *testing.T, crashes int, seed uint64) {
	t.Helper()
	w := &world{}
	def := w.build(s)
	setup := perduretest.Setup{Workflows: []perdure.Definition{def}, Crashes: crashes, Seed: seed}
	setup.CrashEverywhere(t, func(env *perduretest.Env) any { return w.play(env, s, def) })
}
