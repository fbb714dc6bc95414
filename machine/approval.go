package machine

import (
	"context"
	"time"

	"github.com/perdure/perdure/approval"
)

// WaitForApproval asks for a decision of people, and calls the step again when it is made, or when
// the time of the ask is over: [DecisionOf] then returns the outcome. See [approval.Ask]. The form
// of the data is set with [Step.Form], and not in the ask.
func WaitForApproval(ask approval.Ask) Action { return Action{kind: asks, ask: ask} }

// Form sets the form of decisions that the step asks for: see [approval.Form].
func (s *Step[A]) Form(f approval.Form) *Step[A] {
	s.s.form = f
	return s
}

// DecisionOf returns the outcome of the ask of that key in this visit, and false if there is none
// yet.
func DecisionOf(ctx context.Context, key string) (approval.Outcome, bool) {
	c, err := callOf(ctx, "decision of "+key)
	if err != nil {
		return approval.Outcome{}, false
	}
	out, found := c.decided[key]
	return out, found
}

// An asking is an ask as the journal has it.
type asking struct {
	Key      string                `json:"key"`
	Title    string                `json:"title,omitempty"`
	Role     string                `json:"role,omitempty"`
	Within   time.Duration         `json:"within,omitempty"` // nanoseconds, as those below
	Until    time.Time             `json:"until,omitzero"`
	Escalate []approval.Escalation `json:"escalate,omitempty"`
	Remind   time.Duration         `json:"remind,omitempty"`
	Quorum   int                   `json:"quorum,omitempty"`
	Of       int                   `json:"of,omitempty"`
}

func (a Action) asking() *asking {
	k := a.ask
	within := k.Within
	if a.after > 0 && (within == 0 || a.after < within) {
		within = a.after
	}
	return &asking{
		k.Key, k.Title, k.Role, within, k.Until, k.Escalate, k.Remind, k.Quorum, k.Of,
	}
}

// approve waits for a decision. in is false if its time is over.
func (v *visit) approve(ctx context.Context, k asking) (in bool, err error) {
	out, err := approval.Wait(ctx, approval.Ask{
		Key: k.Key, Title: k.Title, Role: k.Role, Form: v.s.form, Within: k.Within, Until: k.Until,
		Escalate: k.Escalate, Remind: k.Remind, Quorum: k.Quorum, Of: k.Of,
	})
	if err != nil {
		return false, err
	}
	if v.decided == nil {
		v.decided = map[string]approval.Outcome{}
	}
	v.decided[k.Key] = out
	return out.Status != approval.Expired, nil
}
