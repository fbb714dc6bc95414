package alert

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/rules"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A Setting is a rule that an operator has set.
type Setting struct {
	Workflow string // Default for the default
	Rule     Rule
	Note     admin.Note
	At       time.Time
}

// clientOf returns the client of a caller, whose engine alerts if it has one.
func clientOf(ctx context.Context, op string, c perdure.Caller) (*sealed.Client, error) {
	out, err := sealed.ClientOf(op, c)
	if err != nil {
		return nil, err
	}
	if out.Live != nil && out.Live.Lookup(workflowName) == nil {
		return nil, &perdure.Error{
			Code: journal.CodeUnregistered, Op: op, Message: "this engine does not alert",
			Hint: "pass alert.Workflow() to Register",
		}
	}
	return out, out.Outside(ctx, op)
}

func shown(workflow string) string {
	if workflow == Default {
		return "by default"
	}
	return "for " + workflow
}

func checkName(op, workflow string) error {
	switch {
	case workflow != Default && !journal.ValidName(workflow):
		return failure.Within(op, failure.BadName("workflow", workflow))
	case rules.IsOwn(workflow):
		return invalid(op, "workflow %s is not valid: nobody is alerted about the workflows of "+
			"the engine", workflow)
	}
	return nil
}

// Set sets the rule of a workflow, which need not exist yet, or the [Default]. It replaces the rule
// that was set before, and is durable on return. Engines obey it within the time that they need to
// hear of a message. Runs that stand still already are found by the first look.
func Set(ctx context.Context, c perdure.Caller, workflow string, r Rule, by admin.Note) error {
	op := "set alert " + shown(workflow)
	if err := checkName(op, workflow); err != nil {
		return err
	}
	if err := r.check(op); err != nil {
		return err
	}
	value, err := r.encode()
	if err != nil {
		return invalid(op, "%v", err)
	}
	return put(ctx, op, c, workflow, value, by)
}

// Reset removes the rule of a workflow: then the [Default] applies to it. It does nothing if there
// is no rule.
func Reset(ctx context.Context, c perdure.Caller, workflow string, by admin.Note) error {
	op := "reset alert " + shown(workflow)
	if err := checkName(op, workflow); err != nil {
		return err
	}
	return put(ctx, op, c, workflow, nil, by)
}

func put(ctx context.Context, op string, c perdure.Caller, workflow string, value []byte,
	by admin.Note) error {
	client, err := clientOf(ctx, op, c)
	if err != nil {
		return err
	}
	if err := by.Validate(); err != nil {
		return failure.Within(op, err)
	}
	if err := kernel.PutSetting(ctx, client.FrontEnd, op, store.Setting{
		Kind: rules.AlertSetting, Name: workflow, Value: value, By: by.By, Reason: by.Reason,
	}); err != nil || value == nil {
		return err
	}
	return post(ctx, client, news{}, "")
}

// List returns the rules that are set, by workflow, the default first.
func List(ctx context.Context, c perdure.Caller) ([]Setting, error) {
	const op = "list alerts"
	client, err := clientOf(ctx, op, c)
	if err != nil {
		return nil, err
	}
	return settings(ctx, op, client.FrontEnd)
}

func settings(ctx context.Context, op string, f *kernel.FrontEnd) (out []Setting, err error) {
	all, err := kernel.Settings(ctx, f, rules.AlertSetting)
	for _, s := range all {
		r, err := ruleOf(s.Value)
		if err != nil {
			return nil, invalid(op, "the rule %s is not readable: set it anew, or reset it",
				shown(s.Name))
		}
		out = append(out, Setting{s.Name, r, admin.Note{By: s.By, Reason: s.Reason}, s.At.UTC()})
	}
	return out, err
}

// A Testing is a test on its way to a recipient. Its run COMPLETES when the test is sent.
type Testing struct{ To, RunID string }

// Test sends a test to each recipient of the rule that applies to a workflow, also if it is
// switched off. It returns when the runs that send the tests are started.
func Test(ctx context.Context, c perdure.Caller, workflow string) (all []Testing, err error) {
	op := "test alert " + shown(workflow)
	if err := checkName(op, workflow); err != nil {
		return nil, err
	}
	client, err := clientOf(ctx, op, c)
	if err != nil {
		return nil, err
	}
	set, err := settings(ctx, op, client.FrontEnd)
	if err != nil {
		return nil, err
	}
	r, found := ruleIn(set, workflow)
	if !found {
		return nil, &perdure.Error{
			Code: journal.CodeNotFound, Op: op, Message: "no rule applies to it",
			Hint: "perdure alerts set sets one",
		}
	}
	for _, to := range r.To {
		data, err := json.Marshal(delivery{to, Alert{
			Cause: CauseTest, Workflow: workflow, At: client.FrontEnd.Now().Round(0).UTC(),
			Text: "this is a test of the alerts " + shown(workflow),
		}})
		if err != nil {
			return all, err
		}
		started, err := client.Runs.Start(ctx, kernel.Start{
			Workflow: deliveryName, Input: data, Pattern: journal.PatternWorkflow,
		})
		if err != nil {
			return all, err
		}
		all = append(all, Testing{to, string(started.Head.ID)})
	}
	return all, nil
}

// ruleIn returns the rule that applies to a workflow.
func ruleIn(all []Setting, workflow string) (r Rule, found bool) {
	for _, s := range all { // the default is first
		if s.Workflow == workflow || s.Workflow == Default {
			r, found = s.Rule, true
		}
	}
	return r, found
}
