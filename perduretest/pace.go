package perduretest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// A held is an attempt that waits until the test lets it go on.
type held struct {
	run  journal.RunID
	path string
	goOn chan struct{}
	over bool // the body has returned
}

// StepByStep holds every attempt of every step back from then on, of whichever pattern, before its
// body is called: [Run.Next] lets one go on. Compensations and the phases of a TCC are steps too.
// While an attempt is held, its timeout counts, and a crash ends it as any other. Call it before
// [Start]. It lasts until [Env.Release].
func (e *Env) StepByStep() { e.steps.hold(true) }

// Release lets all attempts go on that are held back, and holds no more.
func (e *Env) Release() { e.steps.hold(false) }

func (s *steps) hold(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holds = on; !on {
		for _, h := range s.held {
			close(h.goOn)
		}
		s.held = nil
	}
}

// wait waits until the test lets an attempt go on, if it holds attempts back; else it returns nil.
func (s *steps) wait(ctx context.Context, info perdure.StepInfo) (*held, error) {
	s.mu.Lock()
	if !s.holds || strings.HasPrefix(info.Run.Workflow, "perdure.") { // the engine's own
		s.mu.Unlock()
		return nil, nil
	}
	h := &held{run: info.Run.ID, path: info.Step, goOn: make(chan struct{})}
	s.held = append(s.held, h)
	s.mu.Unlock()
	select {
	case <-h.goOn:
		return h, nil
	case <-ctx.Done():
		s.mu.Lock()
		s.held = slices.DeleteFunc(s.held, func(other *held) bool { return other == h })
		s.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

// returned records that the body of an attempt that was held has returned.
func (s *steps) returned(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h != nil {
		h.over = true
	}
}

func (s *steps) isOver(h *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.over
}

// of returns the attempts that are held of some runs, in the order of the runs and of the paths.
func (s *steps) of(runs []journal.RunID) []*held {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*held
	for _, h := range s.held {
		if slices.Contains(runs, h.run) {
			all = append(all, h)
		}
	}
	slices.SortStableFunc(all, func(a, b *held) int {
		return cmp.Or(cmp.Compare(slices.Index(runs, a.run), slices.Index(runs, b.run)),
			strings.Compare(a.path, b.path))
	})
	return all
}

// letGo lets an attempt go on.
func (s *steps) letGo(h *held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.held, h); i >= 0 {
		s.held = slices.Delete(s.held, i, i+1)
		close(h.goOn)
	}
}

// Next lets one attempt of a step of the run, or of its children, be executed after
// [Env.StepByStep], and returns the step as its report has it then: what it has come to is its
// Status. A millisecond may pass until that is recorded. Of several attempts that could go on, it
// takes the first one by the path; names select the steps of which one is to go on, as in
// [Env.Step]. If none could, time passes until one can. Next returns false if none will: the run
// has ended, is suspended, or waits for something that has no time, such as a signal. Only the
// goroutine of the test may call it.
func (r *Run[O]) Next(names ...string) (journal.Step, bool) {
	r.env.Helper()
	for {
		for _, h := range r.env.steps.of(r.tree()) {
			if len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
				return named(h.path, name)
			}) {
				continue
			}
			r.env.steps.letGo(h)
			r.env.Settle()
			step := r.stepOf(h)
			if r.env.steps.isOver(h) && step.Ended.IsZero() && step.Due.IsZero() {
				r.env.Sleep(time.Millisecond) // nobody waits for the record, so it takes its time
				step = r.stepOf(h)
			}
			return step, true
		}
		if _, passed := r.Advance(); !passed {
			return journal.Step{}, false
		}
	}
}

// Held returns the paths of the steps of the run and its children whose attempts are held back now,
// in the order in which [Run.Next] takes them.
func (r *Run[O]) Held() (paths []string) {
	r.env.Helper()
	for _, h := range r.env.steps.of(r.tree()) {
		paths = append(paths, h.path)
	}
	return paths
}

// Advance lets time pass until the first thing is due that the run or one of its children waits
// for: a timer, the limit of a wait, the next attempt of a step. It returns how long that was, and
// false without a wait if nothing is due. Only the goroutine of the test may call it.
func (r *Run[O]) Advance() (time.Duration, bool) {
	r.env.Helper()
	now, due := time.Now(), time.Time{}
	for _, id := range r.tree() {
		d := r.ask(id)
		times := []time.Time{}
		if d.Head.Status == journal.Pending {
			times = append(times, d.Head.Wake)
		}
		if d.Head.Status != journal.Suspended && d.Head.Status != journal.CompensationFailed {
			for _, w := range d.Waits {
				times = append(times, w.Due)
			}
		}
		for _, at := range times {
			if at.After(now) && (due.IsZero() || at.Before(due)) {
				due = at
			}
		}
	}
	if due.IsZero() {
		return 0, false
	}
	r.env.Sleep(due.Sub(now))
	return due.Sub(now), true
}

// tree returns the run IDs of the newest run of the chain and of its children, and theirs, that the
// code waits for.
func (r *Run[O]) tree() []journal.RunID {
	r.env.Helper()
	chain := r.chain()
	all := chain[len(chain)-1:]
	for i := 0; i < len(all); i++ {
		for _, w := range r.ask(all[i]).State.Waits {
			if w.Kind == journal.WaitChild && !slices.Contains(all, w.Child) {
				all = append(all, w.Child)
			}
		}
	}
	return all
}

// stepOf returns the step of an attempt.
func (r *Run[O]) stepOf(h *held) journal.Step {
	r.env.Helper()
	for _, s := range r.ask(h.run).State.Steps {
		if s.Path == h.path {
			return s
		}
	}
	return journal.Step{Path: h.path, Status: journal.StepIsRunning} // it has no entry yet
}
