package machine

import (
	"context"
	"encoding/json"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/pattern"
)

// A callKey is the key under which the context of a call has the call.
type callKey struct{}

// A call is a call of a step or compensation, with everything that it can learn about its place in
// the run.
type call struct {
	x       *execution
	v       *visit // nil in a compensation; a call reads only what never changes
	state   json.RawMessage
	late    bool
	decided map[string]approval.Outcome
	output  json.RawMessage // of the step, in a compensation
	failure *Failure        // nil for none
}

func callOf(ctx context.Context, what string) (*call, error) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c, nil
	}
	return nil, &perdure.Error{
		Code: perdure.CodeMisuse, Op: what,
		Message: "called outside the function of a step of a machine",
		Hint:    "pass on the context that the function was given",
	}
}

// State returns the state that the call before this one, in the same visit, has kept with [Yield]
// or [Action.Keep], and false if there is none. An action without a state leaves the one before.
func State[S any](ctx context.Context) (S, bool, error) {
	var zero S
	c, err := callOf(ctx, "state")
	if err != nil {
		return zero, false, err
	}
	if c.state == nil {
		return zero, false, nil
	}
	s, err := pattern.Decode[S](c.state)
	return s, err == nil, err
}

// ShouldYield reports whether a long step should hand over now: the call has used up the time slice
// of the step ([Step.Slice]), or its engine is stopping. Outside of a call it is false.
func ShouldYield(ctx context.Context) bool {
	c, err := callOf(ctx, "should yield")
	return err == nil && c.v != nil && pattern.ShouldYield(ctx, c.v.s.slice)
}

// Late reports whether the last wait of this visit has ended because its time had passed: see
// [Action.Within].
func Late(ctx context.Context) bool {
	c, err := callOf(ctx, "late")
	return err == nil && c.late
}

// OutcomeOf returns how the child of a key has ended, for any step after [StartChild], and false if
// it has not ended, or there is no such child.
func OutcomeOf[O any](ctx context.Context, key string) (perdure.Outcome[O], bool, error) {
	var out perdure.Outcome[O]
	c, err := callOf(ctx, "outcome of "+key)
	if err != nil {
		return out, false, err
	}
	c.x.mu.RLock()
	raw, found := c.x.outcomes[key]
	c.x.mu.RUnlock()
	if !found {
		return out, false, nil
	}
	out.Status, out.Err = raw.Status, raw.Err
	if raw.Output != nil {
		out.Output, err = pattern.Decode[O](raw.Output)
	}
	return out, err == nil, err
}

// OutputOf returns, in a compensation, the output of the step that it undoes. It returns false if
// the step has none.
func OutputOf[R any](ctx context.Context) (R, bool, error) {
	var zero R
	c, err := callOf(ctx, "output")
	if err != nil || c.output == nil {
		return zero, false, err
	}
	out, err := pattern.Decode[R](c.output)
	return out, err == nil, err
}

// A Failure is the failure of a step for good.
type Failure struct {
	Step   string
	Reason string          // as [Fail] has it; else the text of the error
	Data   json.RawMessage // as Fail has it; nil for none
	Err    error           // as the journal has it
}

// FailureOf returns the failure for which the run goes on with this step, by an error route, or for
// which it is undone, in a compensation. It returns false if there is none: a run that is
// cancelled, for example, is undone without a failure.
func FailureOf(ctx context.Context) (Failure, bool) {
	c, err := callOf(ctx, "failure")
	if err != nil || c.failure == nil {
		return Failure{}, false
	}
	return *c.failure, true
}
