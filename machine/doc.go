// Package machine declares step machines: each step decides what comes next.
//
//	var onboarding = machine.New[Order]("onboarding", "verify")
//
//	var (
//		_ = machine.Add(onboarding, "verify", machine.Do(verify)).To("provision")
//		_ = machine.Add(onboarding, "provision", provision).Undo(remove).To("welcome", "reject")
//		_ = machine.Add(onboarding, "welcome", machine.Do(welcome))
//		_ = machine.Add(onboarding, "reject", machine.Do(reject))
//	)
//
//	func provision(ctx context.Context, o Order) (machine.Action, error) {
//		box, err := cloud.Create(ctx, o.Plan)
//		if errors.Is(err, cloud.ErrNoRoom) {
//			return machine.Sleep(time.Hour), nil // then the step is called again
//		}
//		return machine.Complete(box).To("welcome"), err
//	}
//
// A machine is a workflow. Its run begins with the first step. A step is a function that returns
// one [Action]: to complete with an output, which is the input of the next step; to wait, and be
// called again; to split into branches; to fail. [Do] makes a step of a function that only returns
// an output.
//
// # Visits
//
// A visit is the time from when a run comes to a step until it leaves the step. In one visit the
// function of the step may be called several times: after a [Yield], after a wait, for another
// attempt, after a crash. All these calls have one idempotency key ([perdure.IdempotencyKey]) and
// one value for each key of [perdure.Once]. The next visit of the same step has others.
//
// # What is promised
//
//   - The function of a step is called at least once. What a call returns is durable before
//     anything follows from it.
//   - Signals that a call has read ([perdure.Signal.All], Latest and Has, [perdure.Inbox]) are
//     taken with the record of its Complete, Split, Fail or ContinueAsNew, and of no other action.
//     While a call goes on, calls of other branches do not see them.
//   - Events of a call ([perdure.Emit]) are published with the record of the same four actions.
//   - A step with a compensation is undone if the run fails, in the reverse order of completion,
//     also over branches. A compensation that fails for good parks the run as COMPENSATION_FAILED:
//     an operator lets it go on from there.
//   - A run stays on the version of the machine that it began with ([Machine.Version]).
//
// # What is not promised
//
// A step that fails is not undone: it must leave nothing behind. A call whose engine dies is
// repeated.
//
// # When to use it
//
// A machine fits a process that people draw as states: where it comes back to a state, waits in it,
// and where each state decides about the next. If the process is a sequence with a few conditions,
// a code workflow is shorter. If all that is asked for is the order of steps, use package dag.
package machine
