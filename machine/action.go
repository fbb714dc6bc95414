package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/pattern"
)

// An Action is the result of a call of a step: it decides what follows. The functions of this
// package make actions.
type Action struct {
	kind     kind
	next     string
	output   any // of Complete; the input of ContinueAsNew
	state    any
	kept     bool // it has a state
	after    time.Duration
	late     string // the step after a deadline that has passed
	reason   string
	data     any
	policy   perdure.Retry
	why      error
	ask      approval.Ask
	wanted   []Child
	branches []Branch
	same     bool
	events   []event
}

// An event is one that is handed over with an action.
type event struct {
	kind string
	data json.RawMessage
	err  error
}

// A kind is the kind of an action, by its name in the journal. Complete has none.
type kind string

const (
	completes kind = ""
	yields    kind = "YIELD"
	sleeps    kind = "SLEEP"
	suspends  kind = "SUSPEND"
	asks      kind = "APPROVAL"
	parents   kind = "CHILDREN"
	splits    kind = "SPLIT" // journal.ThenSplit
	continues kind = "CONTINUE_AS_NEW"
	retries   kind = "RETRY"
	fails     kind = "FAIL"
)

// Complete ends the visit with an output, which is the input of the next step. Signals that the
// call has read are taken.
func Complete(output any) Action { return Action{output: output} }

// Yield calls the step again at once, with a state that is durable by then: see [State]. A long
// step yields when [ShouldYield] says so, and goes on in the next call, on any node.
func Yield(state any) Action { return Action{kind: yields, state: state, kept: true} }

// Sleep calls the step again after that time.
func Sleep(d time.Duration) Action { return Action{kind: sleeps, after: d} }

// Suspend calls the step again when a signal of any name has come that had not come as the call
// began, or when an operator resumes the run.
func Suspend() Action { return Action{kind: suspends} }

// StartChild starts runs of other workflows as children of this run, and calls the step again when
// all of them have ended: [OutcomeOf] then returns how. A run starts one child for each key,
// however often a step asks for it.
func StartChild(children ...Child) Action { return Action{kind: parents, wanted: children} }

// Split runs branches beside each other. Each begins with a step, and ends with a step that has no
// next. When all have ended, the machine goes on with the target of this step. The input of that is
// a JSON object with the output of each branch by the branch's name. A branch that fails takes the
// error route of the machine, if there is one; else the machine fails when the other branches have
// ended. Signals that the call has read are taken.
func Split(branches ...Branch) Action { return Action{kind: splits, branches: branches} }

// ContinueAsNew ends the run, and starts a successor with an input, in the same commit: see
// [perdure.ContinueAsNew]. Signals that the call has read are taken; the others move along. The
// successor begins with the newest version of the machine.
func ContinueAsNew(input any) Action { return Action{kind: continues, output: input} }

// Retry calls the step again after the delay of the policy, if the policy allows another attempt;
// else the step has failed for good. No delay is longer than a day. why is the reason, and may be
// nil.
func Retry(policy perdure.Retry, why error) Action {
	return Action{kind: retries, policy: policy, why: why}
}

// Fail fails the step for good. The reason is shown to operators word for word. The data is kept
// with the failure, for compensations and for the step of an error route: see [FailureOf]. Signals
// that the call has read are taken.
func Fail(reason string, data any) Action { return Action{kind: fails, reason: reason, data: data} }

// To names the step that is next, for Complete and Split. It is one of the targets of the step
// ([Step.To]). If the step has a route ([Step.Route]), that decides and sees this name.
func (a Action) To(step string) Action {
	a.next = step
	return a
}

// Keep keeps a state for the next call of the visit: see [State]. It is for all actions after which
// the step is called again, except Retry.
func (a Action) Keep(state any) Action {
	a.state, a.kept = state, true
	return a
}

// Within limits the wait of Suspend and WaitForApproval. If the time passes, the machine goes on
// with the step late, which is one of the targets and gets the input of this step. If late is
// empty, this step is called again, and [Late] is true.
func (a Action) Within(d time.Duration, late string) Action {
	a.after, a.late = d, late
	return a
}

// SameVersion lets the successor of ContinueAsNew begin with the version of this run.
func (a Action) SameVersion() Action {
	a.same = true
	return a
}

// Emit hands over an event, which is published with the record of the action: of Complete, Split,
// Fail or ContinueAsNew. See [perdure.Emit], which does the same during the call.
func (a Action) Emit(kind string, v any) Action {
	data, err := pattern.Encode(v)
	a.events = append(slices.Clip(a.events), event{kind, data, err})
	return a
}

// A Child is a run that a step starts: see [ChildOf].
type Child struct {
	Workflow string          `json:"workflow"`
	Key      string          `json:"key"`
	ID       string          `json:"id,omitempty"` // the workflow ID; empty for one of its own
	Input    json.RawMessage `json:"input"`
	Ends     bool            `json:"ends,omitempty"` // it is cancelled however the machine ends
	err      error
}

// ChildOf returns a child that runs a workflow with an input. The key is known to the machine only,
// and has the form of a name.
func ChildOf[I, O any](w *perdure.Workflow[I, O], key string, in I) Child {
	if w == nil {
		return Child{Key: key, err: fmt.Errorf("child %s has no workflow", key)}
	}
	return ChildNamed(w.Name(), key, in)
}

// ChildNamed is [ChildOf] for a workflow that this program may not know.
func ChildNamed(workflow, key string, in any) Child {
	data, err := pattern.Encode(in)
	return Child{Workflow: workflow, Key: key, Input: data, err: err}
}

// A Branch is one branch of a [Split].
type Branch struct {
	Name  string          `json:"name"` // unique in the split; it has the form of a name
	Step  string          `json:"step"` // the step that it begins with: see [Step.Split]
	Input json.RawMessage `json:"input"`
	err   error
}

// BranchOf returns a branch that begins with a step and its input.
func BranchOf(name, step string, in any) Branch {
	data, err := pattern.Encode(in)
	return Branch{name, step, data, err}
}

// A record is the payload of an action after which the visit goes on.
type record struct {
	State    json.RawMessage `json:"state,omitempty"`
	After    time.Duration   `json:"after,omitempty"` // nanoseconds
	Late     string          `json:"late,omitempty"`
	Ask      *asking         `json:"ask,omitempty"`
	Children []Child         `json:"children,omitempty"`
	Branches []Branch        `json:"branches,omitempty"`
	Input    json.RawMessage `json:"input,omitempty"` // of a successor
	Same     bool            `json:"same,omitempty"`
}

// ends reports whether the events and signals of the call count.
func (k kind) ends() bool { return k == completes || k == splits || k == continues || k == fails }

// check returns an error if the action is not possible for the step.
func (a Action) check(s *step) error {
	wrong := func(format string, args ...any) error {
		format = "step " + s.id + " returns an action that is not possible: " + format
		return perdure.Permanent(fmt.Errorf(format, args...))
	}
	for _, e := range a.events {
		if e.err != nil {
			return wrong("event %s: %w", e.kind, e.err)
		}
	}
	switch {
	case a.next != "" && a.kind != completes && a.kind != splits:
		return wrong("%s has no next step", a.kind)
	case a.next != "" && !slices.Contains(s.targets, a.next):
		return wrong("step %q is not one of its targets %q: name it in To", a.next, s.targets)
	case a.late != "" && !slices.Contains(s.targets, a.late):
		return wrong("step %q, for the time after the deadline, is not one of its targets %q",
			a.late, s.targets)
	case a.after < 0:
		return wrong("it waits for %v", a.after)
	case a.kind == asks && a.ask.Form != nil:
		return wrong("the ask has a form: set it with Step.Form")
	case a.kind == suspends && a.late != "" && a.after == 0:
		return wrong("it has a step for the time after a deadline, and no deadline")
	case a.kind == fails && a.reason == "":
		return wrong("Fail needs a reason")
	case a.kind == parents:
		return a.checkChildren(wrong)
	case a.kind == splits:
		return a.checkBranches(s, wrong)
	case a.kind == retries:
		if err := a.policy.Validate(); err != nil {
			return wrong("%w", err)
		}
	}
	return nil
}

func (a Action) checkChildren(wrong func(string, ...any) error) error {
	if len(a.wanted) == 0 {
		return wrong("StartChild has no child")
	}
	seen := map[string]bool{}
	for _, c := range a.wanted {
		switch {
		case c.err != nil:
			return wrong("child %s: %w", c.Key, c.err)
		case seen[c.Key]:
			return wrong("two children have the key %q", c.Key)
		}
		if err := pattern.CheckName("key", c.Key, ""); err != nil {
			return wrong("%w", err)
		}
		if err := pattern.CheckName("workflow", c.Workflow, ""); err != nil {
			return wrong("%w", err)
		}
		seen[c.Key] = true
	}
	return nil
}

func (a Action) checkBranches(s *step, wrong func(string, ...any) error) error {
	seen := map[string]bool{}
	for _, b := range a.branches {
		switch {
		case b.err != nil:
			return wrong("branch %s: %w", b.Name, b.err)
		case seen[b.Name]:
			return wrong("two branches have the name %q", b.Name)
		case !slices.Contains(s.splits, b.Step):
			return wrong("branch %s begins with step %q, which is not one of %q: name it in Split",
				b.Name, b.Step, s.splits)
		}
		if err := pattern.CheckName("branch", b.Name, ""); err != nil {
			return wrong("%w", err)
		}
		seen[b.Name] = true
	}
	return nil
}

// record returns the payload of the action.
func (a Action) record() (json.RawMessage, error) {
	r := record{
		After: a.after, Late: a.late, Children: a.wanted, Branches: a.branches, Same: a.same,
	}
	var err error
	switch a.kind {
	case completes:
		return pattern.Encode(a.output)
	case fails:
		return pattern.Encode(a.data)
	case asks:
		r.Ask, r.After = a.asking(), 0
	case continues:
		if r.Input, err = pattern.Encode(a.output); err != nil {
			return nil, err
		}
	}
	if a.kept {
		if r.State, err = pattern.Encode(a.state); err != nil {
			return nil, err
		}
	}
	return pattern.Encode(r)
}
