// Package job has workflows of one step, for work that is put into a queue: a mail, a webhook, a
// thumbnail.
//
//	var mail = job.Queue{Name: "mail", Workers: 10}
//	var welcome = job.Define("welcome", send, job.Spec{Queue: mail})
//
//	_, err := welcome.Start(ctx, engine.In(tx), args)
//
// A job is a run of such a workflow, so all that is true of runs is true of it: it is durable when
// Start returns, or with the caller's transaction; it has an ID, a journal, retries and a result;
// and operators list, cancel, retry and fork it.
package job

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/limit"
)

// A Queue holds jobs back, over all engines. It is a limit of package limit, so operators see and
// change it under its name. The zero Queue holds nothing back.
type Queue struct {
	// Name is the name of the queue. Several kinds of jobs may have the same Queue. Empty means the
	// name of the workflow.
	Name    string
	Workers int        // how many jobs are done at a time; 0 for any number
	Rate    limit.Rate // how often jobs begin; zero for any number
}

// A Spec sets how the jobs of a workflow are held back and limited. The zero Spec holds nothing
// back.
type Spec struct {
	Queue Queue
	// Rank computes the priority of a job from its input: of the jobs that wait for a worker of the
	// queue, the one with the highest is first. The zero Rank is 0 for all.
	Rank limit.Rank
	// Timeout limits one attempt; 0 for without a limit. The option perdure.Timeout limits the
	// whole job, with the time that it waits for a worker and between attempts.
	Timeout time.Duration
}

// Define returns a workflow of one step, whose body is the function. The function is called again
// after an error or a crash, as the body of any step. The option [perdure.Retry] sets how often.
// For a function without a result there is pattern.NoResult. [perdure.Engine.Register] returns the
// errors of the spec.
func Define[I, O any](name string, work func(context.Context, I) (O, error), s Spec,
	opts ...perdure.WorkflowOption) *perdure.Workflow[I, O] {
	var fn func(context.Context, I) (O, error)
	steps := s.steps()
	if work != nil {
		fn = func(ctx context.Context, in I) (O, error) {
			return perdure.Step(ctx, "work", func(ctx context.Context) (O, error) {
				return work(ctx, in)
			}, steps...)
		}
	}
	return perdure.Define(name, fn, append([]perdure.WorkflowOption{option{s}}, opts...)...)
}

// steps returns the options of the step.
func (s Spec) steps() (opts []perdure.StepOption) {
	if s.Timeout != 0 {
		opts = append(opts, perdure.Timeout(s.Timeout))
	}
	return opts
}

// An option applies a Spec to the workflow of its jobs.
type option struct{ Spec }

// ApplyToWorkflow implements perdure.WorkflowOption.
func (s option) ApplyToWorkflow(w *sealed.Workflow) error {
	op := "define " + w.Name
	if _, err := sealed.Step("work", s.steps()); err != nil {
		return failure.Within(op, err)
	}
	q := s.Queue
	held := q.Workers != 0 || q.Rate != limit.Rate{}
	switch {
	case q.Workers < 0:
		return failure.Invalid(op, "Workers %d is not valid: allowed are 0, for any number, and "+
			"above", q.Workers)
	case q.Name != "" && !held:
		return failure.Invalid(op, "queue %s holds nothing back: it needs Workers or a Rate",
			failure.Quoted(q.Name))
	case q.Workers == 0 && !s.Rank.IsZero():
		return failure.Invalid(op, "a Rank needs a queue with Workers")
	case !held:
		return nil
	}
	return limit.Control{
		Name: q.Name, Concurrency: q.Workers, Rate: q.Rate, Rank: s.Rank,
	}.ApplyToWorkflow(w)
}
