package perduretest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// A Step stands for the steps of a name, in every run of the test. It plans faults for their
// attempts, and counts them. Many goroutines may call its methods.
type Step struct {
	env  *Env
	name string
}

// Step returns the steps of a name. The name is a path as journals show it, such as "ship[4711]",
// "charge#2" or "branch/label", or the bare name of a step: "charge" stands for all steps of that
// name, with any key, occurrence or scope.
func (e *Env) Step(name string) *Step { return &Step{e, name} }

// Fail makes the next n attempts fail with err: the body is not called. The policy treats err as
// usual: [perdure.Permanent], [perdure.RetryAfter] and the others mark it.
func (s *Step) Fail(n int, err error) {
	s.Before(n, func(context.Context) error { return err })
}

// FailAfter makes the next n attempts fail with err after the body has succeeded: its effect has
// happened and the answer was lost.
func (s *Step) FailAfter(n int, err error) {
	s.env.steps.plan(&fault{name: s.name, left: n, after: err})
}

// Hang makes the next n attempts wait for the end of their context, which comes with the timeout
// of the step or the end of its run. The body is not called.
func (s *Step) Hang(n int) {
	s.Before(n, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// Before makes the next n attempts call call before the body. If call returns an error, the
// attempt fails with it and the body is not called. call may panic, as a body may.
func (s *Step) Before(n int, call func(context.Context) error) {
	s.env.steps.plan(&fault{name: s.name, left: n, before: call})
}

// Executions returns the number of attempts that began in the whole test. It includes attempts
// that Fail and the other methods made fail, and attempts that a crash interrupted.
func (s *Step) Executions() int {
	return s.env.steps.count(s.name, func(journal.RunID) bool { return true })
}

// Executed fails the test unless there were n executions in the whole test. See
// [Step.Executions].
func (s *Step) Executed(n int) {
	s.env.Helper()
	s.env.Settle()
	if got := s.Executions(); got != n {
		s.env.Errorf("step %s was executed %d times, want %d", s.name, got, n)
	}
}

// steps has the faults of steps, and counts their executions.
type steps struct {
	mu     sync.Mutex
	faults []*fault // in the order in which they were planned
	counts map[execution]int
	holds  bool    // attempts wait until the test lets them go on
	held   []*held // those that wait
}

// A fault is a planned failure of some attempts.
type fault struct {
	name   string
	left   int // number of attempts that it is left for
	before func(context.Context) error
	after  error
}

type execution struct {
	run  journal.RunID
	path string
}

func (s *steps) plan(f *fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
}

// meet counts an execution and returns the fault planned for it, or nil.
func (s *steps) meet(info perdure.StepInfo) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts == nil {
		s.counts = map[execution]int{}
	}
	s.counts[execution{info.Run.ID, info.Step}]++
	i := slices.IndexFunc(s.faults, func(f *fault) bool {
		return f.left > 0 && named(info.Step, f.name)
	})
	if i < 0 {
		return nil
	}
	s.faults[i].left--
	return s.faults[i]
}

// around returns the interceptor that causes the faults, within the interceptor of the setup.
func (s *steps) around(outer around) around {
	inner := func(ctx context.Context, info perdure.StepInfo,
		body func(context.Context) error) error {
		h, err := s.wait(ctx, info)
		if err != nil {
			return err
		}
		defer s.returned(h)
		f := s.meet(info)
		if f != nil && f.before != nil {
			if err := f.before(ctx); err != nil {
				return err
			}
		}
		err = body(ctx)
		if f != nil && f.after != nil && err == nil {
			return f.after
		}
		return err
	}
	if outer == nil {
		return inner
	}
	return func(ctx context.Context, info perdure.StepInfo,
		body func(context.Context) error) error {
		return outer(ctx, info, func(ctx context.Context) error { return inner(ctx, info, body) })
	}
}

type around = func(context.Context, perdure.StepInfo, func(context.Context) error) error

// count returns the number of executions of the steps of a name in some runs.
func (s *steps) count(name string, in func(journal.RunID) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for e, k := range s.counts {
		if named(e.path, name) && in(e.run) {
			n += k
		}
	}
	return n
}

// named reports whether the path names a step of that name.
func named(path, name string) bool {
	if path == name {
		return true
	}
	last := path[strings.LastIndexByte(path, '/')+1:]
	bare, _, _ := strings.Cut(last, "[")
	bare, _, _ = strings.Cut(bare, "#")
	return bare == name
}
