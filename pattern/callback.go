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

// A Callback is called at what a run of a declared pattern comes to: exactly one of
// Step, Failure and Complete is set. It is called at least once, over crashes. An error
// that it gives, a panic, and a call of Failure that lasts longer than five minutes are
// told to observers and change nothing.
type Callback struct {
	Priority int // lower ones are called first; equal ones as they were declared
	// nothing waits for it but the end of the run; its context ends with a cancel and a timeout
	Async bool
	// errors, found anywhere in the chain, that it is called for; none for all. A sentinel is found
	// where it is registered ([perdure.RegisterError])
	On    []error
	Steps []string // steps that it is called for, by ID; none for all

	// Step is called when a step has succeeded, after that is durable.
	Step func(ctx context.Context, step string) error
	// Failure is called when the run is about to fail, before that is recorded. The first
	// that suppresses the error makes a success of it; one that is Async cannot.
	Failure func(ctx context.Context, err error) (suppress bool, e error)
	// Complete is called after a success of the run is durable.
	Complete func(ctx context.Context, r report.Run) error
}

// Callbacks are those of one definition.
type Callbacks []Callback

// Check says what is wrong with them; the steps of the definition are known.
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

// ordered gives those that are meant, in the order in which they are called.
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

// StepEnded calls those that are for the success of a step, and waits for them. It may
// be known by other IDs too: one of a step over a list by that of the list's.
func (c *Calls) StepEnded(ctx context.Context, step string, also ...string) error {
	return c.call(ctx, strings.ReplaceAll(step, "#", "."), c.of.ordered(func(b Callback) bool {
		return b.Step != nil && b.isFor(append(also, step))
	}), func(ctx context.Context, b Callback) (bool, error) { return false, b.Step(ctx, step) },
		nil)
}

// A Failing is a step that has failed, by all IDs that it is known by, and its error.
type Failing struct {
	Err error
	IDs []string
}

// Failed calls those that are for an error of the run, or of one of the steps that have
// failed, and says whether one suppresses it; then that is recorded. They are given the
// error of the run.
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

// isFor says whether it is for one of these steps.
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

// call calls callbacks: those that are not Async one after the other in one step, until
// one says that it is enough.
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

// failureTimeout limits one call of a callback while a run is about to fail: nothing else
// ends one that hangs then.
const failureTimeout = 5 * time.Minute

// try calls one and returns what it says. Where it fails or does not return in time,
// observers are told.
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

// Wait waits for those that are Async. It is called before the execution ends.
func (c *Calls) Wait(ctx context.Context) error {
	for _, f := range c.pending {
		if _, err := f.Await(ctx); err != nil && EndedBy(ctx) != nil {
			return err
		}
	}
	c.pending = nil
	return nil
}

// Completed calls those that are for the success of an execution that is a part of a
// run. Those of a whole run are called by its listeners.
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

// Listeners are what tells those that are for the success of a whole run.
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

// Calling is an option of a workflow that is made of a declaration: it gives the
// callbacks of that. It is called once, when the workflow is registered for the first
// time; those for the success of a run are its listeners from then on.
type Calling func() Callbacks

func (c Calling) ApplyToWorkflow(w *sealed.Workflow) error {
	if c == nil {
		return failure.Invalid("define "+w.Name, "callbacks need a function")
	}
	w.Later = append(w.Later, func(w *sealed.Workflow) {
		for _, l := range c().Listeners() {
			_ = l.ApplyToWorkflow(w) // one that is made of callbacks has nothing wrong
		}
	})
	return nil
}

// listenerOf calls callbacks one after the other; one that fails keeps no other from it.
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
