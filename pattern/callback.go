package pattern

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/guard"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/report"
)

// A Callback is called at a step, a failure or the completion of a run of a declared pattern:
// exactly one of Step, Failure and Complete is set. It is called at least once, also after crashes.
// Observers get a notice if it returns an error, if it panics, or if a call of Failure lasts longer
// than five minutes. None of these changes the run.
type Callback struct {
	Priority int // lower numbers are called first; equal ones in the order of their declaration
	// Async lets the run go on beside the callback: only the end of the run waits for it. A cancel
	// or a timeout of the run ends the context of the callback.
	Async bool
	// On has the errors that the callback is called for. Empty means all errors. They are found
	// anywhere in the chain; a sentinel is found if it is registered ([perdure.RegisterError]).
	On    []error
	Steps []string // IDs of the steps that it is called for; empty means all

	// Step is called after the success of a step is durable.
	Step func(ctx context.Context, step string) error
	// Failure is called when the run is about to fail, before the failure is recorded. The first
	// callback that suppresses the error turns it into a success. A callback with Async cannot
	// suppress it.
	Failure func(ctx context.Context, err error) (suppress bool, e error)
	// Complete is called after a success of the run is durable.
	Complete func(ctx context.Context, r report.Run) error
}

// Callbacks are the callbacks of one definition.
type Callbacks []Callback

// Check returns the defects of the callbacks. known reports whether the definition has a step.
func (c Callbacks) Check(known func(step string) bool) []definition.Issue {
	var issues []definition.Issue
	for i, b := range c {
		where := fmt.Sprintf("callbacks.%d", i)
		set := 0
		for _, is := range []bool{b.Step != nil, b.Failure != nil, b.Complete != nil} {
			if is {
				set++
			}
		}
		if set != 1 {
			issues = append(issues, definition.Issue{
				Severity: definition.SeverityError, Where: where,
				Message: "exactly one of Step, Failure and Complete is needed",
			})
		}
		for _, step := range b.Steps {
			if !known(step) {
				issues = append(issues, definition.Issue{
					Severity: definition.SeverityError, Where: where, Message: "there is no step " +
						failure.Quoted(step),
				})
			}
		}
		for _, on := range b.On {
			if on != nil && !failure.IsClass(on) && failure.Of(on).CodeOf() == "" {
				issues = append(issues, definition.Issue{
					Severity: definition.SeverityError, Where: where,
					Message: fmt.Sprintf("On has %q, which is not registered: RegisterError "+
						"gives it a name, so that it is found in recorded errors", on),
				})
			}
		}
		if slices.Contains(b.On, nil) {
			issues = append(issues, definition.Issue{
				Severity: definition.SeverityError, Where: where, Message: "On has a nil error",
			})
		}
	}
	return issues
}

// ordered returns the callbacks that meant selects, in the order in which they are called.
func (c Callbacks) ordered(meant func(Callback) bool) Callbacks {
	out := slices.DeleteFunc(slices.Clone(c), func(b Callback) bool { return !meant(b) })
	slices.SortStableFunc(out, func(a, b Callback) int {
		return cmp.Compare(a.Priority, b.Priority)
	})
	return out
}

// Calls are the callbacks of one execution of a definition, which is workflow code.
type Calls struct {
	of      Callbacks
	pending []*perdure.Future[bool]
}

// Begin is called when an execution begins.
func (c Callbacks) Begin() *Calls { return &Calls{of: c} }

// clones replaces the characters of a clone's ID that a key must not have.
var clones = strings.NewReplacer("[", ".", "]", "")

// StepEnded calls the callbacks for the success of a step, and waits for them. The step may have
// other IDs too: a step for an item of a list also has the ID of the list.
func (c *Calls) StepEnded(ctx context.Context, step string, also ...string) error {
	return c.call(ctx, clones.Replace(step), c.of.ordered(func(b Callback) bool {
		return b.Step != nil && b.isFor(append(also, step))
	}), func(ctx context.Context, b Callback) (bool, error) { return false, b.Step(ctx, step) },
		nil)
}

// A Failing is a failed step: all IDs that it is known by, and its error.
type Failing struct {
	Err error
	IDs []string
}

// Failed calls the callbacks for an error of the run, or of a step that has failed, and reports
// whether a callback suppresses it. A suppressed error is recorded. The callbacks get the error of
// the run.
func (c *Calls) Failed(ctx context.Context, err error, steps ...Failing) (suppressed bool,
	e error) {
	e = c.call(ctx, "failure", c.of.ordered(func(b Callback) bool {
		return b.Failure != nil && (len(b.Steps) == 0 && matches(err, b.On) ||
			slices.ContainsFunc(steps, func(f Failing) bool {
				return matches(f.Err, b.On) && b.isFor(f.IDs)
			}))
	}), func(ctx context.Context, b Callback) (bool, error) { return b.Failure(ctx, err) },
		&suppressed)
	if suppressed {
		_, _ = perdure.SideEffect(ctx, sealed.SuppressedError, func() (int, error) {
			return 0, err
		})
	}
	return suppressed, e
}

// isFor reports whether the callback is for any of these steps.
func (b Callback) isFor(steps []string) bool {
	return len(b.Steps) == 0 || slices.ContainsFunc(steps, func(s string) bool {
		return slices.Contains(b.Steps, s)
	})
}

func matches(err error, on []error) bool {
	return len(on) == 0 || slices.ContainsFunc(on, func(target error) bool {
		return failure.InClass(err, target)
	})
}

// call calls callbacks. Those without Async are called one after the other in one step, until a
// callback reports that no more are needed.
func (c *Calls) call(ctx context.Context, key string, all Callbacks,
	do func(context.Context, Callback) (bool, error), enough *bool) error {
	var inLine Callbacks
	for _, b := range all {
		if !b.Async {
			inLine = append(inLine, b)
			continue
		}
		c.pending = append(c.pending, perdure.Async(ctx, sealed.CallbackStep,
			func(ctx context.Context) (bool, error) {
				return b.try(ctx, do), nil
			}, perdure.NoRetry, perdure.Key(key)))
	}
	if len(inLine) == 0 {
		return nil
	}
	done, err := perdure.Step(ctx, sealed.CallbackStep, func(ctx context.Context) (bool, error) {
		for _, b := range inLine {
			if done := b.try(ctx, do); done && enough != nil {
				return true, nil
			}
		}
		return false, nil
	}, perdure.NoRetry, perdure.Key(key))
	if enough != nil {
		*enough = done
	}
	return err
}

// failureTimeout limits one call of a callback while a run is about to fail: nothing else ends a
// call that hangs then.
const failureTimeout = 5 * time.Minute

// try calls one callback and returns its answer. If it fails or does not return in time, observers
// are told.
func (b Callback) try(ctx context.Context, do func(context.Context, Callback) (bool, error)) bool {
	type answer struct {
		done bool
		err  error
	}
	within := ctx
	if b.Failure != nil {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, failureTimeout)
		defer cancel()
	}
	answered := make(chan answer, 1)
	go func() {
		var a answer
		a.err = guard.Call(func() (err error) {
			a.done, err = do(within, b)
			return err
		})
		answered <- a
	}()
	var a answer
	select {
	case a = <-answered:
	case <-within.Done():
		a.err = fmt.Errorf("it has not returned: %w", context.Cause(within))
	}
	if s, of := kernel.StepOf(ctx, "callback"); a.err != nil && of == nil {
		s.ListenerFailed(a.err)
	}
	return a.done && a.err == nil
}

// Wait waits for the callbacks with Async. It is called before the execution ends.
func (c *Calls) Wait(ctx context.Context) error {
	for _, f := range c.pending {
		if _, err := f.Await(ctx); err != nil && EndedBy(ctx) != nil {
			return err
		}
	}
	c.pending = nil
	return nil
}

// Completed calls the callbacks for the success of an execution that is a part of a run. The
// callbacks of a whole run are called by its listeners.
func (c *Calls) Completed(ctx context.Context) error {
	return c.call(ctx, "complete", c.of.ordered(func(b Callback) bool { return b.Complete != nil }),
		func(ctx context.Context, b Callback) (bool, error) {
			r, err := report.Of(ctx)
			if err != nil {
				return false, err
			}
			return false, b.Complete(ctx, r)
		}, nil)
}

// Listeners returns the listeners that call the callbacks for the success of a whole run.
func (c Callbacks) Listeners() []perdure.Listener {
	var out []perdure.Listener
	var inLine Callbacks
	for _, b := range c.ordered(func(b Callback) bool { return b.Complete != nil }) {
		if b.Async {
			out = append(out, listenerOf(b))
		} else {
			inLine = append(inLine, b)
		}
	}
	if len(inLine) > 0 {
		out = append(out, listenerOf(inLine...))
	}
	return out
}

// Calling is an option of a workflow that is made of a declaration. The function returns the
// callbacks of the declaration. It is called once, when the workflow is registered for the first
// time. From then on the callbacks for the success of a run are listeners of the workflow.
type Calling func() Callbacks

func (c Calling) ApplyToWorkflow(w *sealed.Workflow) error {
	if c == nil {
		return failure.Invalid("define "+w.Name, "callbacks need a function")
	}
	w.Later = append(w.Later, func(w *sealed.Workflow) {
		for _, l := range c().Listeners() {
			_ = l.ApplyToWorkflow(w) // a listener that is made of callbacks is always valid
		}
	})
	return nil
}

// listenerOf returns a listener that calls callbacks one after the other. If a callback fails, the
// others are still called.
func listenerOf(all ...Callback) perdure.Listener {
	return perdure.Listener{Statuses: []journal.Status{journal.Completed, journal.Confirmed},
		Call: func(ctx context.Context, e perdure.Ended) error {
			r, err := e.Report()
			if err != nil {
				return err
			}
			var failed []error
			for _, b := range all {
				failed = append(failed, guard.Call(func() error { return b.Complete(ctx, r) }))
			}
			return errors.Join(failed...)
		}}
}
