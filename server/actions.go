package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
)

type actIn struct {
	RunIn
	Body *actBody
}

type actBody struct {
	Reason     string          `json:"reason,omitempty" maxLength:"255"`
	Step       string          `json:"step,omitempty" maxLength:"4096" doc:"of a fork or skip: the path of the step"`
	Output     json.RawMessage `json:"output,omitempty" doc:"of a skip: the output of the step; missing means null"`
	Input      json.RawMessage `json:"input,omitempty" doc:"of a retry, skip or fork: the input of the new run; missing means that of the old run"`
	Compensate bool            `json:"compensate,omitempty" doc:"of a cancel: undo what is done"`
}

// order returns the order of a caller.
func (in *actIn) order(ctx context.Context, action journal.Action) admin.Order {
	body := in.Body
	if body == nil {
		body = &actBody{}
	}
	return admin.Order{
		Action: action, Step: body.Step, Output: body.Output, Input: body.Input,
		Compensate: body.Compensate, By: who(ctx).Name, Reason: body.Reason,
	}
}

// actionSummaries are the operator's actions on a run.
var actionSummaries = map[journal.Action]string{
	journal.ActionCancel:     "Cancel a run: it cleans up, and sagas and TCCs undo their steps",
	journal.ActionSuspend:    "Suspend a run until it is resumed",
	journal.ActionResume:     "Let a suspended run go on",
	journal.ActionTerminate:  "End a run at once, without a clean-up and without undoing anything",
	journal.ActionRetry:      "Start a run that goes on where another one has failed",
	journal.ActionSkip:       "Start a run that goes on behind the failed step",
	journal.ActionFork:       "Start a run that does a step again, and what came after it",
	journal.ActionCompensate: "Start a run that undoes the steps of a completed one",
}

func (s runRoutes) actions() {
	const group = "actions"
	for _, action := range journal.Actions() {
		add(s.Server, operation{
			id: string(action) + "-execution", method: http.MethodPost,
			path: "/executions/{id}/" + string(action), group: group,
			summary: actionSummaries[action], need: auth.Operator,
		}, func(ctx context.Context, in *actIn) (api.Acted, error) {
			acted, err := s.admin.Act(ctx, in.ID, in.order(ctx, action))
			return api.Acted{
				RunID: acted.RunID, WorkflowID: acted.WorkflowID, New: acted.New,
				NotUndone: acted.NotUndone,
			}, err
		})
		if !action.GoesOn() {
			continue
		}
		add(s.Server, operation{
			id: "preview-" + string(action), method: http.MethodPost,
			path: "/executions/{id}/" + string(action) + "/preview", group: group,
			summary: "What that action would keep and do again; it changes nothing", reads: true,
			need: auth.Viewer,
		}, func(ctx context.Context, in *actIn) (api.Preview, error) {
			p, err := s.admin.Preview(ctx, in.ID, in.order(ctx, action))
			return api.PreviewOf(p), err
		})
	}
	add(s.Server, operation{
		id: "signal-execution", method: http.MethodPost, path: "/executions/{id}/signal/{signal}",
		group: group, summary: "Send a run a signal", need: auth.Operator,
		about: "The body has the payload. A signal for a workflow ID without an open run is kept " +
			"for one. A signal for a run that has ended is refused.",
	}, s.signal)
	add(s.Server, operation{
		id: "cancel-timer", method: http.MethodDelete, path: "/executions/{id}/timers/{timer}",
		group: group, summary: "End a timer of a run before its time", need: auth.Operator,
	}, func(ctx context.Context, in *timerIn) (Done, error) {
		return Done{true}, s.client.CancelTimer(ctx, in.ID, in.Timer, in.Reason)
	})
	add(s.Server, operation{
		id: "decide-execution", method: http.MethodPost, path: "/executions/{id}/decide/{question}",
		group: group, summary: "Answer a run that waits for an operator's decision",
		need: auth.Operator,
	}, func(ctx context.Context, in *decideIn) (Done, error) {
		return Done{true}, s.client.Decide(ctx, in.ID, in.Question, perdure.Decision{
			Choice: in.Body.Choice, Data: in.Body.Data, By: who(ctx).Name, Reason: in.Body.Reason,
		})
	})
	add(s.Server, operation{
		id: "list-unrouted", method: http.MethodGet, path: "/signals/unrouted", group: group,
		summary: "Signals that have found no run", need: auth.Viewer,
	}, s.unrouted)
	add(s.Server, operation{
		id: "deliver-unrouted", method: http.MethodPost,
		path: "/signals/unrouted/{number}/deliver/{id}", group: group,
		summary: "Give a signal that has found no run to a run", need: auth.Operator,
	}, func(ctx context.Context, in *deliverIn) (api.Delivery, error) {
		d, err := s.client.Deliver(ctx, in.Number, in.ID)
		return delivered(d, err)
	})
}

// Done is the answer to an action that has nothing else to say.
type Done struct {
	Done bool `json:"done"`
}

type signalIn struct {
	RunIn
	Signal string `path:"signal" maxLength:"255" doc:"the name of the signal"`
	Key    string `header:"Idempotency-Key" maxLength:"255" doc:"the same key sends one signal"`
	Body   *json.RawMessage
}

func (s runRoutes) signal(ctx context.Context, in *signalIn) (api.Delivery, error) {
	var opts []perdure.SendOption
	if in.Key != "" {
		opts = append(opts, perdure.SendKey(in.Key))
	}
	if err := foreignSignal(in.Signal); err != nil {
		return api.Delivery{}, err
	}
	var payload json.RawMessage
	if in.Body != nil {
		payload = *in.Body
	}
	return delivered(s.client.Send(ctx, in.ID, in.Signal, orNull(payload), opts...))
}

// foreignSignal refuses a signal by which Perdure talks to its own workflows: these name who acts,
// and have routes of their own.
func foreignSignal(name string) error {
	if present.IsReserved(name) {
		return invalid("signals whose names begin with perdure. are Perdure's own")
	}
	return nil
}

// delivered returns the form of a delivery, and an error if nothing was delivered or kept.
func delivered(d perdure.Delivery, err error) (api.Delivery, error) {
	if err != nil || !d.NotDelivered {
		return present.Delivery(d), err
	}
	if d.Status == 0 {
		return api.Delivery{}, &perdure.Error{
			Code: journal.CodeNotFound, Op: "signal", Message: "there is no such run",
		}
	}
	return api.Delivery{}, &perdure.Error{
		Code: journal.CodeWrongState, Op: "signal",
		Message: "the signal is not delivered: the run has ended as " + d.Status.String(),
		Hint:    "start a new run, or send the signal to the workflow ID of one that is open",
	}
}

type timerIn struct {
	RunIn
	Timer string `path:"timer" maxLength:"4096" doc:"the path of the timer"`
	ReasonIn
}

type decideIn struct {
	RunIn
	Question string `path:"question" maxLength:"4096" doc:"the path of the question"`
	Body     Choice
}

// A Choice is the answer of an operator to a question of a run.
type Choice struct {
	Choice string          `json:"choice" maxLength:"255"`
	Data   json.RawMessage `json:"data,omitempty"`
	Reason string          `json:"reason,omitempty" maxLength:"255"`
}

type unroutedIn struct {
	From  int64 `query:"from" minimum:"0" default:"0" doc:"the number of the first signal: next of the page before"`
	Limit int   `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"the longest page"`
}

func (s runRoutes) unrouted(ctx context.Context, in *unroutedIn) (list[api.Message], error) {
	all, err := s.client.Unrouted(ctx, in.From, in.Limit)
	var out []api.Message
	for _, m := range all {
		out = append(out, present.Message(m))
	}
	next := ""
	if len(all) == in.Limit {
		next = strconv.FormatInt(all[len(all)-1].Number+1, 10)
	}
	return listOf(out, next), err
}

type deliverIn struct {
	Number int64 `path:"number" minimum:"1" doc:"the number of the signal"`
	RunIn
}
