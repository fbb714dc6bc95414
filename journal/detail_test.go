package journal_test

import (
	"testing"

	"github.com/perdure/perdure/journal"
)

// spec: P-14
func TestADetailHasThePartsOfItsKind(t *testing.T) {
	for _, c := range []struct {
		kind   journal.Kind
		detail *journal.Detail
		want   string
	}{
		{journal.StepCompleted, nil, ""},
		{journal.StepCompleted, &journal.Detail{Reason: "enough"}, ""},
		{journal.RunClaimed, &journal.Detail{CodeDetail: journal.CodeDetail{Build: "b"}}, ""},
		{
			journal.StepCompleted, &journal.Detail{CodeDetail: journal.CodeDetail{Build: "b"}},
			"CodeDetail",
		},
		{journal.RunClaimed, &journal.Detail{StartDetail: journal.StartDetail{CleansUp: true}}, ""},
		{
			journal.RunClaimed, &journal.Detail{StartDetail: journal.StartDetail{Keys: "k"}},
			"StartDetail",
		},
		{
			journal.StepFailed, &journal.Detail{StartDetail: journal.StartDetail{CleansUp: true}},
			"StartDetail",
		},
		{
			journal.DeadLettered, &journal.Detail{
				StartDetail: journal.StartDetail{DeadLetters: []string{"l"}},
			}, "",
		},
		{
			journal.RunClaimed, &journal.Detail{
				StartDetail: journal.StartDetail{DeadLetters: []string{"l"}},
			}, "StartDetail",
		},
		{journal.ScopeOpened, &journal.Detail{ScopeDetail: journal.ScopeDetail{Branch: true}}, ""},
		{
			journal.StepStarted, &journal.Detail{ScopeDetail: journal.ScopeDetail{Branch: true}},
			"ScopeDetail",
		},
		{journal.CheckpointSaved, &journal.Detail{StepDetail: journal.StepDetail{Once: "o"}}, ""},
		{
			journal.TimerFired, &journal.Detail{StepDetail: journal.StepDetail{Async: true}},
			"StepDetail",
		},
		{
			journal.StepOutput,
			&journal.Detail{StepDetail: journal.StepDetail{
				OutputDetail: journal.OutputDetail{Stream: "s"},
			}}, "",
		},
		{
			journal.StepLogged,
			&journal.Detail{StepDetail: journal.StepDetail{
				OutputDetail: journal.OutputDetail{Stream: "s"},
			}}, "OutputDetail",
		},
		{
			journal.KeyAdded, &journal.Detail{VariableDetail: journal.VariableDetail{ByStep: true}},
			"",
		},
		{
			journal.StepCompleted, &journal.Detail{
				VariableDetail: journal.VariableDetail{ByStep: true},
			}, "VariableDetail",
		},
		{
			journal.SignalConsumed, &journal.Detail{MessageDetail: journal.MessageDetail{Mail: 1}},
			"",
		},
		{
			journal.SuspendAsked, &journal.Detail{
				MessageDetail: journal.MessageDetail{Message: "m"},
			}, "",
		},
		{
			journal.StepCompleted, &journal.Detail{MessageDetail: journal.MessageDetail{Mail: 1}},
			"MessageDetail",
		},
		{journal.EventEmitted, &journal.Detail{EventDetail: journal.EventDetail{Topic: "t"}}, ""},
		{
			journal.RunCompleted, &journal.Detail{EventDetail: journal.EventDetail{Topic: "t"}},
			"EventDetail",
		},
		{journal.VersionMarked, &journal.Detail{Version: 1}, ""},
		{journal.StepCompleted, &journal.Detail{Version: 1}, "Version"},
		{journal.ChildStarted, &journal.Detail{Policy: "cancel"}, ""},
		{journal.ChildCompleted, &journal.Detail{Policy: "cancel"}, "Policy"},
		{journal.CompensationStarted, &journal.Detail{Policy: "robust"}, ""},
		{journal.RunRetrying, &journal.Detail{Failures: 1}, ""},
		{journal.StepRetrying, &journal.Detail{Failures: 1}, "Failures"},
		{journal.SignalConsumed, &journal.Detail{Choices: []string{"retry"}}, ""},
		{journal.StepCompleted, &journal.Detail{Choices: []string{"retry"}}, "Choices"},
	} {
		e := journal.Entry{Kind: c.kind, Detail: c.detail}
		if got := e.Misplaced(); got != c.want {
			t.Errorf("%v with %+v: misplaced is %q, want %q", c.kind, c.detail, got, c.want)
		}
	}
}
