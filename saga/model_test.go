package saga_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/saga"
)

// A shape is a saga for a test, and its faults.
type shape struct {
	name     string
	policy   saga.Policy
	handler  string // a key of handlers; park means an operator
	units    []unit
	fails    map[string]int // attempts of a unit that fail
	undoFail map[string]int // attempts of its compensation that fail
	timeout  time.Duration  // of the saga; 0 for a timeout that it does not reach
}

// A unit is a step, or a clone of a step, as the model knows it.
type unit struct {
	id       string
	after    []string // IDs of steps
	of       string   // the step that it is a clone of, or empty
	noUndo   bool
	critical bool
	extra    int // attempts after the first
	undo     int // extra attempts of its compensation; below 0 means as extra
}

const forever = 1000

func (u unit) step() string {
	if u.of != "" {
		return u.of
	}
	return u.id
}

// handlers are the handlers, written once more for the model: asked is the number of attempts that
// the handler has asked for so far.
var handlers = map[string]func(asked int) saga.Action{
	"continue":  func(int) saga.Action { return saga.Continue },
	"fail-fast": func(int) saga.Action { return saga.FailSaga },
	"retry":     func(asked int) saga.Action { return thrice(asked, saga.FailSaga) },
	"robust":    func(asked int) saga.Action { return thrice(asked, saga.Continue) },
	"for-ever":  func(int) saga.Action { return saga.Retry },
	"skip":      func(int) saga.Action { return saga.SkipStep },
	"mark":      func(int) saga.Action { return saga.MarkCompensated },
	"park":      func(int) saga.Action { return saga.Continue },
}

func thrice(asked int, then saga.Action) saga.Action {
	if asked < 3 {
		return saga.Retry
	}
	return then
}

// A verdict is the outcome of one compensation.
type verdict struct {
	undone   bool
	gone     bool // the effect is gone; undone may be only a claim
	tried    bool
	attempts int // that were made; 0 if an operator may have asked for more
}

// An expectation is the expected outcome of a saga.
type expectation struct {
	status   perdure.RunStatus
	steps    map[string]report.StepStatus
	attempts map[string]int
	err      error    // compared by type and step
	fatal    []string // compensations of a group; the first to fail sets err
	failed   []string
	verdicts map[string]verdict
	order    [][]string // of verdicts, by group; any order in a group
	letters  []string
	kept     []string // effects that exist at the end
}

// expect returns the expected outcome of a saga whose units have ended in that order. If a unit
// cannot have ended, it returns an error.
func (s shape) expect(ended []string) (e expectation, err error) {
	e = expectation{
		status:   perdure.StatusCompleted,
		steps:    map[string]report.StepStatus{},
		attempts: map[string]int{},
		verdicts: map[string]verdict{},
	}
	layer := s.layers()
	last := s.lastLayer(layer)
	var want, done []string
	for _, u := range s.units {
		if layer[u.step()] <= last {
			want = append(want, u.id)
		}
	}
	if got := slices.Sorted(slices.Values(ended)); !slices.Equal(
		got, slices.Sorted(slices.Values(want))) {
		return e, fmt.Errorf("%q have ended, want %q", ended, want)
	}
	if !slices.IsSortedFunc(ended, func(a, b string) int {
		return layer[s.unit(a).step()] - layer[s.unit(b).step()]
	}) {
		return e, fmt.Errorf("layers have not come one after the other: %q", ended)
	}
	for _, id := range ended {
		u := s.unit(id)
		e.attempts[id] = min(s.fails[id], u.extra) + 1
		if s.fails[id] > u.extra {
			e.steps[id] = report.StepIsFailed
			e.failed = append(e.failed, id)
			continue
		}
		e.steps[id] = report.StepIsDone
		done = append(done, id)
	}
	if len(e.failed) > 0 {
		e.status, e.err = perdure.StatusFailed, pattern.FailedStep(e.failed[0], nil)
		e.letters = slices.Sorted(slices.Values(e.failed))
		s.compensate(&e, done, layer)
	}
	for _, id := range done {
		if !e.verdicts[id].gone {
			e.kept = append(e.kept, id)
		}
	}
	slices.Sort(e.kept)
	return e, nil
}

func (s shape) unit(id string) unit {
	i := slices.IndexFunc(s.units, func(u unit) bool { return u.id == id })
	if i < 0 {
		return unit{id: id}
	}
	return s.units[i]
}

// layers returns the layer of each step: one more than the highest layer of the steps before it.
func (s shape) layers() map[string]int {
	out := map[string]int{}
	for range s.units {
		for _, u := range s.units {
			for _, before := range u.after {
				out[u.step()] = max(out[u.step()], out[before]+1)
			}
		}
	}
	return out
}

// lastLayer returns the first layer in which something fails; the last layer if nothing fails.
func (s shape) lastLayer(layer map[string]int) int {
	last := slices.Max(append(slices.Collect(maps.Values(layer)), 0))
	for _, u := range s.units {
		if s.fails[u.id] > u.extra {
			last = min(last, layer[u.step()])
		}
	}
	return last
}

// compensate adds the expected outcome of the compensations.
func (s shape) compensate(e *expectation, done []string, layer map[string]int) {
	var groups [][]string
	at := -1
	for i, id := range slices.Backward(done) {
		u, key := s.unit(id), i
		if u.noUndo {
			continue
		}
		switch s.policy {
		case saga.BestEffortParallel:
			key = 0
		case saga.GroupedParallel:
			key = layer[u.step()]
		}
		if key != at {
			groups = append(groups, nil)
		}
		at = key
		groups[len(groups)-1] = append(groups[len(groups)-1], id)
	}
	stopped := false
	e.order = groups
	for _, group := range groups {
		skipped := stopped
		for _, id := range group {
			if skipped {
				e.verdicts[id] = verdict{}
				e.steps[id] = report.StepIsCompensationFailed
				continue
			}
			stops, fatal := s.undo(e, id)
			stopped = stopped || stops
			if fatal {
				e.fatal = append(e.fatal, id)
			}
		}
	}
}

// undo adds the expected outcome of one compensation that is tried.
func (s shape) undo(e *expectation, id string) (stops, fatal bool) {
	u := s.unit(id)
	attempts := 1
	if s.policy == saga.RetryWithBackoff || s.policy == saga.CircuitBreaker {
		if attempts += u.undo; u.undo < 0 {
			attempts += 1 + u.extra
		}
	}
	v, action := verdict{tried: true}, saga.Continue
	v.attempts = min(attempts, s.undoFail[id]+1)
	for asked := 0; s.undoFail[id] >= v.attempts; asked++ {
		action = handlers[s.handler](asked)
		if action != saga.Retry || asked == 10 {
			break
		}
		v.attempts++
	}
	v.gone = s.undoFail[id] < v.attempts
	v.undone = v.gone
	switch {
	case v.undone:
	case s.handler == "park": // the operator decides "retry" or "handled"
		v.undone, v.gone, v.attempts = true, s.undoFail[id] < forever, 0
	case action == saga.MarkCompensated:
		v.undone = true
	case action == saga.FailSaga:
		stops, fatal = true, true
	case action != saga.SkipStep:
		stops = s.policy == saga.CircuitBreaker && u.critical
	}
	e.verdicts[id] = v
	e.steps[id] = report.StepIsCompensationFailed
	if v.undone {
		e.steps[id] = report.StepIsCompensated
	}
	return stops, fatal
}

// stopped returns the expected outcome of a saga that was cancelled, or has timed out, after these
// units had ended: units that are done are undone, and failures are not reported to anybody.
func (s shape) stopped(ended []string, by perdure.RunStatus) expectation {
	e := expectation{
		status:   by,
		steps:    map[string]report.StepStatus{},
		verdicts: map[string]verdict{},
	}
	var done []string
	for _, id := range ended {
		e.steps[id] = report.StepIsDone
		if s.fails[id] > s.unit(id).extra {
			e.steps[id], e.failed = report.StepIsFailed, append(e.failed, id)
			continue
		}
		done = append(done, id)
	}
	s.compensate(&e, done, s.layers())
	for _, id := range done {
		if !e.verdicts[id].gone {
			e.kept = append(e.kept, id)
		}
	}
	slices.Sort(e.kept)
	return e
}

// stopDiffers returns the differences between the expectation and a stopped run's result and
// effects. A unit that was under way may or may not have had its effect.
func (e expectation) stopDiffers(s shape, r saga.Result, letters,
	effects []string) (found []string) {
	complain := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			found = append(found, fmt.Sprintf("%s: %s, want %s", what, g, w))
		}
	}
	complain("status", r.Status, e.status)
	complain("dead letters", letters, []string(nil))
	complain("failed", r.FailedSteps(), e.failed)
	left := slices.Clone(effects)
	for _, u := range s.units {
		step, begun := r.Step(u.id)
		switch want := e.steps[u.id]; {
		case want != "":
			complain("status of "+u.id, step.Status, want)
		case begun:
			complain("status of "+u.id, step.Status, journal.StepIsCancelled)
			left = slices.DeleteFunc(left, func(id string) bool { return id == u.id })
		}
	}
	complain("effects that are left", left, e.kept)
	return append(found, e.undoDiffers(s, r)...)
}

// blames sets the expected error of the saga, by the unit that has failed first in the result.
func (e *expectation) blames(r saga.Result) {
	if len(e.fatal) == 0 || r.Undo == nil {
		return
	}
	for _, u := range slices.Backward(r.Undo.Steps) {
		if slices.Contains(e.fatal, u.ID) {
			e.err = pattern.FailedUndo(u.ID, nil)
		}
	}
}

// differs returns the differences between the expectation and a result with its effects.
func (e expectation) differs(s shape, r saga.Result, letters, effects []string) (found []string) {
	complain := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			found = append(found, fmt.Sprintf("%s: %s, want %s", what, g, w))
		}
	}
	complain("status", r.Status, e.status)
	complain("error", blame(r.Err), blame(e.err))
	complain("failed", r.FailedSteps(), e.failed)
	complain("dead letters", letters, e.letters)
	complain("effects that are left", effects, e.kept)
	var undone []string
	for _, u := range s.units {
		step, _ := r.Step(u.id)
		want := e.steps[u.id]
		if want == "" {
			want = report.StepIsPending
		}
		complain("status of "+u.id, step.Status, want)
		complain("attempts of "+u.id, step.Attempts, e.attempts[u.id])
		complain("error of "+u.id, step.Err != nil, want == report.StepIsFailed ||
			want == report.StepIsCompensationFailed)
		if e.verdicts[u.id].undone {
			undone = append(undone, u.id)
		}
	}
	complain("undone", slices.Sorted(slices.Values(r.CompensatedSteps())),
		slices.Sorted(slices.Values(undone)))
	return append(found, e.undoDiffers(s, r)...)
}

func (e expectation) undoDiffers(s shape, r saga.Result) (found []string) {
	if (r.Undo != nil) != (len(e.order) > 0) {
		return []string{
			fmt.Sprintf("there is a report of compensations: %v, want %v", r.Undo != nil,
				len(e.order) > 0),
		}
	}
	if r.Undo == nil {
		return nil
	}
	all := true
	if r.Undo.Policy != string(s.policy) {
		found = append(found, "the policy of the report is "+r.Undo.Policy)
	}
	steps := r.Undo.Steps
	for _, group := range e.order {
		if len(steps) < len(group) {
			return append(found, fmt.Sprintf("the report has only %v", r.Undo.Steps))
		}
		for _, got := range steps[:len(group)] {
			want := e.verdicts[got.ID]
			all = all && want.undone
			if !slices.Contains(group, got.ID) {
				found = append(found, fmt.Sprintf("%s was undone where %v should have been", got.ID,
					group))
			}
			if got.Undone != want.undone || (got.Attempts > 0) != want.tried ||
				want.attempts > 0 && got.Attempts != want.attempts {
				found = append(found, fmt.Sprintf("compensation of %s: %+v, want %+v", got.ID, got,
					want))
			}
		}
		steps = steps[len(group):]
	}
	if len(steps) > 0 {
		found = append(found, fmt.Sprintf("the report has %v as well", steps))
	}
	if r.Undo.All != all {
		found = append(found, fmt.Sprintf("all are undone: %v, want %v", r.Undo.All, all))
	}
	return found
}

// blame returns the kind of an error and the step that it is about.
func blame(err error) string {
	var step *pattern.StepError
	var undo *pattern.CompensationError
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &undo):
		return "compensation of " + undo.Step
	case errors.As(err, &step):
		return "step " + step.Step
	}
	return err.Error()
}

// String shows the faults.
func (s shape) String() string {
	var parts []string
	for _, id := range slices.Sorted(maps.Keys(s.fails)) {
		parts = append(parts, fmt.Sprintf("%s fails %d", id, s.fails[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(s.undoFail)) {
		parts = append(parts, fmt.Sprintf("undo of %s fails %d", id, s.undoFail[id]))
	}
	return fmt.Sprintf("%s, %s, %s: %s", s.name, s.policy, s.handler, strings.Join(parts, ", "))
}
