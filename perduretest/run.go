package perduretest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/report"
)

// A Run is a run under test. It outlives crashes: each call uses the present engine. If the run
// continues as new, a Run stands for the whole chain. Where only one run can be meant, it stands
// for the newest run of the chain.
//
// An assertion that does not hold fails the test, shows the actual state and the end of the
// journal, and lets the test go on. Only the goroutine of the test may call assertions. Returns,
// Fails, FailsAs and Result wait for the end of the run and let time pass. The others wait until
// everything else waits, without time passing, and look at the run as it is then.
type Run[O any] struct {
	env   *Env
	id    journal.RunID
	known string // its workflow ID
	get   func(*perdure.Engine) (*perdure.Run[O], error)
}

// Start starts a run and fails the test at once if it cannot. Without a [perdure.ID] the run gets
// one of this package: the name of the workflow and a number. If the engine dies meanwhile, Start
// asks the next one.
func Start[I, O any](env *Env, w *perdure.Workflow[I, O], in I,
	opts ...perdure.StartOption) *Run[O] {
	env.Helper()
	opts = append([]perdure.StartOption{perdure.ID(env.newID(w.Name()))}, opts...)
	var run *perdure.Run[O]
	err := env.Do(func(eng *perdure.Engine) (err error) {
		run, err = w.Start(env.Context(), eng, in, opts...)
		return err
	})
	if err != nil {
		env.Fatalf("start %s: %v", w.Name(), err)
	}
	return newRun(env, w, run)
}

// Get returns a run that exists already, such as a child, by run ID or workflow ID. It fails the
// test at once if that workflow has no such run. Only the goroutine of the test may call it.
func Get[I, O any](env *Env, w *perdure.Workflow[I, O], id string) *Run[O] {
	env.Helper()
	env.Settle()
	var run *perdure.Run[O]
	err := env.Do(func(eng *perdure.Engine) (err error) {
		run, err = w.Get(env.Context(), eng, id)
		return err
	})
	if err != nil {
		env.Fatalf("get %s: %v", id, err)
	}
	return newRun(env, w, run)
}

func newRun[I, O any](env *Env, w *perdure.Workflow[I, O], run *perdure.Run[O]) *Run[O] {
	id := journal.RunID(run.RunID())
	return &Run[O]{env: env, id: id, known: run.ID(),
		get: func(eng *perdure.Engine) (*perdure.Run[O], error) {
			return w.Get(env.Context(), eng, string(id))
		}}
}

// Send sends a signal, and fails the test at once if it cannot. Without a [perdure.SendKey] the
// signal gets one of this package, so it is delivered once even if the engine dies meanwhile and
// the next one is asked. To test that a signal is not delivered, call [perdure.Signal.Send].
func Send[T any](env *Env, s perdure.Signal[T], id string, v T,
	opts ...perdure.SendOption) perdure.Delivery {
	env.Helper()
	opts = append([]perdure.SendOption{perdure.SendKey(env.newID("perduretest"))}, opts...)
	var d perdure.Delivery
	err := env.Do(func(eng *perdure.Engine) (err error) {
		d, err = s.Send(env.Context(), eng, id, v, opts...)
		return err
	})
	if err != nil {
		env.Fatalf("send %s to %s: %v", s.Name(), id, err)
	}
	if d.NotDelivered {
		env.Fatalf("send %s to %s: not delivered: there is no such run, or it has ended", s.Name(),
			id)
	}
	return d
}

// RunID returns the run ID. For a chain, it returns the run ID of the first run.
func (r *Run[O]) RunID() string { return string(r.id) }

// ID returns the workflow ID.
func (r *Run[O]) ID() string { return r.known }

// Cancel cancels the run, and fails the test at once if it cannot.
func (r *Run[O]) Cancel(reason string) {
	r.env.Helper()
	id := string(r.describe().Head.ID)
	if err := r.env.Do(func(eng *perdure.Engine) error {
		return eng.Cancel(r.env.Context(), id, reason)
	}); err != nil {
		r.env.Fatalf("cancel %s: %v", r.known, err)
	}
}

// patience limits how long a result is waited for, in virtual time.
const patience = 10 * 365 * 24 * time.Hour

// Result waits for the end of the run and returns its output, or the error that it ended with. A
// run that has not ended after ten virtual years fails the test at once. Steps that are held back
// go on: see [Env.Release].
func (r *Run[O]) Result() (O, error) {
	r.env.Helper()
	r.env.Release()
	ctx, cancel := context.WithTimeout(r.env.Context(), patience)
	defer cancel()
	var out O
	err := r.env.Do(func(eng *perdure.Engine) error {
		run, err := r.get(eng)
		if err == nil {
			out, err = run.Result(ctx)
		}
		return err
	})
	if ctx.Err() != nil && !r.describe().Head.Status.IsTerminal() {
		r.env.Fatalf("%s has not ended%s", r.known, r.shown())
	}
	return out, err
}

// Returns waits for the end of the run, and fails the test unless the run ended with that output.
func (r *Run[O]) Returns(want O) {
	r.env.Helper()
	got, err := r.Result()
	switch {
	case err != nil:
		r.fail("ended with error %v, want %+v", err, want)
	case !reflect.DeepEqual(got, want):
		r.fail("returned %+v, want %+v", got, want)
	}
}

// Fails waits for the end of the run, and fails the test unless the run ended with an error that
// matches target by [errors.Is]. A target &perdure.Error{Code: …} matches every error of that
// code.
func (r *Run[O]) Fails(target error) {
	r.env.Helper()
	switch got, err := r.Result(); {
	case err == nil:
		r.fail("returned %+v, want error %v", got, target)
	case !errors.Is(err, target):
		r.fail("ended with error %v, want %v", err, target)
	}
}

// FailsAs waits for the end of the run, and fails the test unless the run ended with an error of
// the type that target points to, by [errors.As]. It sets target to that error.
func (r *Run[O]) FailsAs(target any) {
	r.env.Helper()
	switch got, err := r.Result(); {
	case err == nil:
		r.fail("returned %+v, want an error of type %v", got, reflect.TypeOf(target).Elem())
	case !errors.As(err, target):
		r.fail("ended with error %v, want one of type %v", err, reflect.TypeOf(target).Elem())
	}
}

// Is fails the test unless the run has that status now.
func (r *Run[O]) Is(want journal.Status) {
	r.env.Helper()
	if got := r.describe().Head.Status; got != want {
		r.fail("is %v, want %v", got, want)
	}
}

// Executed fails the test unless the steps of a name were executed n times in this run. See
// [Env.Step] for names, and [Step.Executions] for the attempts that count.
func (r *Run[O]) Executed(step string, n int) {
	r.env.Helper()
	chain := r.chain()
	got := r.env.steps.count(step, func(id journal.RunID) bool {
		return slices.Contains(chain, id)
	})
	if got != n {
		r.fail("executed step %s %d times, want %d", step, got, n)
	}
}

// Report returns the report of the newest run of the chain as it is now, and fails the test at
// once if the report cannot be read. The steps in it have their statuses, attempts and errors.
func (r *Run[O]) Report() report.Run {
	r.env.Helper()
	id := string(r.describe().Head.ID)
	var rep report.Run
	err := r.env.Do(func(eng *perdure.Engine) (err error) {
		rep, err = eng.Report(r.env.Context(), id)
		return err
	})
	if err != nil {
		r.env.Fatalf("report of %s: %v", r.known, err)
	}
	return rep
}

// Unread fails the test unless these are the names of the signals that have come and that nobody
// has taken, in order. Without names, it fails the test if there are any.
func (r *Run[O]) Unread(names ...string) {
	r.env.Helper()
	var got []string
	for _, m := range r.describe().Unread {
		got = append(got, m.Name)
	}
	if !slices.Equal(got, names) {
		r.fail("has unread signals %q, want %q", got, names)
	}
}

// Published fails the test unless the run has published want under a name.
func (r *Run[O]) Published(name string, want any) {
	r.env.Helper()
	p, ok := r.describe().State.Published[name]
	if !ok {
		r.fail("has published nothing as %s, want %+v", name, want)
		return
	}
	var got any
	if want == nil {
		want, got = any(nil), string(p.Data)
		if got == "null" {
			return
		}
	} else {
		v := reflect.New(reflect.TypeOf(want))
		if err := json.Unmarshal(p.Data, v.Interface()); err != nil {
			r.fail("has published %s as %s, which is no %T: %v", p.Data, name, want, err)
			return
		}
		got = v.Elem().Interface()
	}
	if !reflect.DeepEqual(got, want) {
		r.fail("has published %+v as %s, want %+v", got, name, want)
	}
}

// Waits fails the test unless the run waits now at a path: for the signal, timer, child or decision
// of that name, within its scopes. It returns the wait, which has its kind.
func (r *Run[O]) Waits(path string) journal.Wait {
	r.env.Helper()
	waits := r.describe().State.Waits
	for _, w := range waits {
		if w.Path == path {
			return w
		}
	}
	r.fail("does not wait for %s, but for %s", path, waitsOf(waits))
	return journal.Wait{}
}

// WaitsUntil fails the test unless a wait of the run is due at that time: a timer, or the limit
// of a wait.
func (r *Run[O]) WaitsUntil(due time.Time) {
	r.env.Helper()
	waits := r.describe().State.Waits
	if !slices.ContainsFunc(waits, func(w journal.Wait) bool { return w.Due.Equal(due) }) {
		r.fail("waits for nothing that is due at %v, but for %s", due.UTC(), waitsOf(waits))
	}
}

// waitsOf describes the waits of a run.
func waitsOf(waits []journal.Wait) string {
	if len(waits) == 0 {
		return "nothing"
	}
	var out []string
	for _, w := range waits {
		s := string(w.Kind) + " " + w.Path
		if !w.Due.IsZero() {
			s += " due at " + w.Due.UTC().String()
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// chain returns the run IDs of the chain.
func (r *Run[O]) chain() []journal.RunID {
	r.env.Helper()
	r.env.Settle()
	ids := []journal.RunID{r.id}
	for {
		d := r.ask(ids[len(ids)-1])
		if d.State.Successor == "" {
			return ids
		}
		ids = append(ids, d.State.Successor)
	}
}

// describe returns the description of the newest run of the chain.
func (r *Run[O]) describe() perdure.Description {
	r.env.Helper()
	ids := r.chain()
	return r.ask(ids[len(ids)-1])
}

func (r *Run[O]) ask(id journal.RunID) perdure.Description {
	r.env.Helper()
	var d perdure.Description
	err := r.env.Do(func(eng *perdure.Engine) (err error) {
		d, err = eng.Describe(r.env.Context(), string(id))
		return err
	})
	if err != nil {
		r.env.Fatalf("describe %s: %v", r.known, err)
	}
	return d
}

func (r *Run[O]) fail(format string, args ...any) {
	r.env.Helper()
	r.env.Errorf("%s %s%s", r.known, fmt.Sprintf(format, args...), r.shown())
}

// shown describes the state of the run, in words.
func (r *Run[O]) shown() string {
	r.env.Helper()
	d := r.describe()
	var entries []journal.Entry
	err := r.env.Do(func(eng *perdure.Engine) (err error) {
		entries, err = eng.History(r.env.Context(), string(d.Head.ID), 0, 0)
		return err
	})
	if err != nil {
		return "\n\t" + err.Error()
	}
	why := ""
	if d.Why != "" {
		why = ": " + d.Why
	}
	return fmt.Sprintf("\nIt is %v at %v%s. Its journal:\n%s", d.Head.Status, time.Now().UTC(), why,
		tail(entries))
}
