// Package staff has the onboarding of a colleague: a machine with a split, a child, an approval
// with a deadline, and a rollback.
package staff

import (
	"context"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/machine"
)

// A Hire is a new colleague.
type Hire struct {
	Name   string        `json:"name"`
	Within time.Duration `json:"within"` // for the decision of the manager, in nanoseconds
}

// An Office hands out things, if it has them, and takes them back, once for each key.
type Office interface {
	Give(ctx context.Context, key, name, thing string) (has bool, err error)
	Take(ctx context.Context, key, name, thing string) error
	Check(ctx context.Context, name string) (fine bool, err error)
}

type onboarding struct {
	office Office
	check  *perdure.Workflow[string, bool] // the child
}

// Onboard returns the machine and the workflow of its child.
func Onboard(office Office) (*machine.Machine[Hire], *perdure.Workflow[string, bool]) {
	retry := perdure.Retry{Attempts: 10, First: 20 * time.Millisecond}
	o := onboarding{office, perdure.Define("background-check",
		func(ctx context.Context, name string) (bool, error) {
			return perdure.Step(ctx, "check", func(ctx context.Context) (bool, error) {
				return office.Check(ctx, name)
			}, retry)
		})}
	m := machine.New[Hire]("onboarding", "open", retry)
	machine.Add(m, "open", o.give("account")).Undo(o.take("account")).To("provision")
	machine.Add(m, "provision", provision).Split("mail", "laptop", "access").To("background")
	machine.Add(m, "mail", o.give("mail")).Undo(o.take("mail"))
	machine.Add(m, "laptop", o.give("laptop")).Undo(o.take("laptop"))
	machine.Add(m, "access", o.give("access")).Undo(o.take("access"))
	machine.Add(m, "background", o.background).To("approve")
	machine.Add(m, "approve", approve).To("welcome", "late")
	machine.Add(m, "welcome", o.give("welcome"))
	machine.Add(m, "late", func(context.Context, Hire) (machine.Action, error) {
		return machine.Fail("nobody has decided in time", nil), nil
	})
	return m, o.check
}

func (o onboarding) give(thing string) func(context.Context, Hire) (machine.Action, error) {
	return func(ctx context.Context, h Hire) (machine.Action, error) {
		has, err := o.office.Give(ctx, perdure.IdempotencyKey(ctx), h.Name, thing)
		if err == nil && !has {
			return machine.Fail("no "+thing+" is left", nil), nil
		}
		return machine.Complete(h), err
	}
}

func (o onboarding) take(thing string) func(context.Context, Hire) error {
	return func(ctx context.Context, h Hire) error {
		return o.office.Take(ctx, perdure.IdempotencyKey(ctx), h.Name, thing)
	}
}

func provision(_ context.Context, h Hire) (machine.Action, error) {
	return machine.Split(machine.BranchOf("mail", "mail", h),
		machine.BranchOf("laptop", "laptop", h), machine.BranchOf("access", "access", h)), nil
}

// background gets the outputs of the branches. It is called again when the child has ended.
func (o onboarding) background(ctx context.Context, in map[string]Hire) (machine.Action, error) {
	h := in["mail"]
	out, ended, err := machine.OutcomeOf[bool](ctx, "check")
	switch {
	case err != nil || !ended:
		return machine.StartChild(machine.ChildOf(o.check, "check", h.Name)), err
	case !out.Output:
		return machine.Fail("the background is not fine", nil), out.Err
	}
	return machine.Complete(h), nil
}

// approve waits for the manager. When the time is over, the machine goes on with step late.
func approve(ctx context.Context, h Hire) (machine.Action, error) {
	out, decided := machine.DecisionOf(ctx, "start")
	switch {
	case !decided:
		ask := approval.Ask{Key: "start", Title: h.Name + " is to start", Role: "manager"}
		return machine.WaitForApproval(ask).Within(h.Within, "late"), nil
	case !out.IsApproved():
		return machine.Fail("rejected by "+out.Last().By+": "+out.Last().Reason, nil), nil
	}
	return machine.Complete(h).To("welcome"), nil
}
