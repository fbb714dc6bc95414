package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/server/auth"
)

// A StartedItem is the answer to one start of many: a run, or a problem.
type StartedItem struct {
	Run     *api.Started `json:"run,omitempty"`
	Problem *Problem     `json:"problem,omitempty"`
}

// A SignalItem is one signal of many.
type SignalItem struct {
	ID      string          `json:"id" maxLength:"512" doc:"a run ID or a workflow ID"`
	Payload json.RawMessage `json:"payload,omitempty" doc:"missing means null"`
	Key     string          `json:"key,omitempty" maxLength:"255" doc:"the same key sends one signal"`
}

// A DeliveredItem is the answer to one signal of many: a delivery, or a problem.
type DeliveredItem struct {
	Delivery *api.Delivery `json:"delivery,omitempty"`
	Problem  *Problem      `json:"problem,omitempty"`
}

// A StandingItem is the standing of one run of many. One that is not found has the ID alone.
type StandingItem struct {
	ID string `json:"id" doc:"as it was asked for"`
	Standing
	Run *api.Outcome `json:"run,omitempty"`
}

// Starts are many starts of one workflow.
type Starts struct {
	Items []startBody `json:"items" minItems:"1" maxItems:"1000"`
}

// Signals are many signals of one name.
type Signals struct {
	Items []SignalItem `json:"items" minItems:"1" maxItems:"1000"`
}

// IDs are run IDs and workflow IDs.
type IDs struct {
	IDs []string `json:"ids" minItems:"1" maxItems:"1000" doc:"run IDs and workflow IDs"`
}

type startsIn struct {
	WorkflowIn
	Body Starts
}

type signalsIn struct {
	Signal string `path:"signal" maxLength:"255" doc:"the name of a signal"`
	Body   Signals
}

// many registers what is done to many runs in one request. Its answers have an item for each item
// of the request, in that order.
func (s runRoutes) many() {
	const each = "The answer has an item for each item of the request, in that order. One that " +
		"fails has a problem, and does not stop the others."
	add(s.Server, operation{
		id: "start-executions", method: http.MethodPost, path: "/workflows/{name}/starts",
		group: "workflows", summary: "Start many runs", need: auth.Operator, about: each,
	}, s.startMany)
	add(s.Server, operation{
		id: "send-signals", method: http.MethodPost, path: "/signals/{signal}",
		group: "actions", summary: "Send many signals of one name", need: auth.Operator,
		about: each,
	}, s.signalMany)
	add(s.Server, operation{
		id: "get-statuses", method: http.MethodPost, path: "/statuses", group: "executions",
		summary: "How each of many runs stands; it changes nothing", reads: true,
		need: auth.Viewer,
		about: "The answer has an item for each ID, in that order. A run that is not found is no " +
			"error.",
	}, s.statuses)
}

func (s runRoutes) startMany(ctx context.Context, in *startsIn) (list[StartedItem], error) {
	items := in.Body.Items
	out := make([]StartedItem, len(items))
	var inputs [][]byte
	var opts [][]perdure.StartOption
	var at []int // in items
	lacking := s.unregistered(ctx, in.Name)
	for i, item := range items {
		own, err := item.options(s.now(), "")
		if err == nil && !item.Force {
			err = lacking
		}
		if err != nil {
			out[i].Problem = s.problemOf(ctx, err)
			continue
		}
		inputs, opts, at = append(inputs, orNull(item.Input)), append(opts, own), append(at, i)
	}
	runs, errs := s.client.StartAll(ctx, in.Name, inputs, func(i int) []perdure.StartOption {
		return opts[i]
	})
	for i, run := range runs {
		if errs[i] != nil {
			out[at[i]].Problem = s.problemOf(ctx, errs[i])
			continue
		}
		out[at[i]].Run = &api.Started{
			RunID: run.RunID(), WorkflowID: run.ID(), New: run.New(),
		}
	}
	return listOf(out, ""), nil
}

func (s runRoutes) signalMany(ctx context.Context, in *signalsIn) (list[DeliveredItem], error) {
	if err := foreignSignal(in.Signal); err != nil {
		return list[DeliveredItem]{}, err
	}
	items := in.Body.Items
	out := make([]DeliveredItem, len(items))
	payloads := make([][]byte, len(items))
	for i, item := range items {
		payloads[i] = orNull(item.Payload)
	}
	all, errs := s.client.SendAll(ctx, in.Signal, payloads,
		func(i int) (string, []perdure.SendOption) {
			if items[i].Key == "" {
				return items[i].ID, nil
			}
			return items[i].ID, []perdure.SendOption{perdure.SendKey(items[i].Key)}
		})
	for i := range items {
		if d, err := delivered(all[i], errs[i]); err != nil {
			out[i].Problem = s.problemOf(ctx, err)
		} else {
			out[i].Delivery = &d
		}
	}
	return listOf(out, ""), nil
}

func (s runRoutes) statuses(ctx context.Context, in *struct{ Body IDs }) (list[StandingItem],
	error) {
	all, err := s.client.Statuses(ctx, in.Body.IDs...)
	out := make([]StandingItem, len(all))
	for i, one := range all {
		out[i].ID = in.Body.IDs[i]
		if !one.Found {
			continue
		}
		run := outcomeOf(one)
		out[i].Run, out[i].Standing = &run, standingOf(run.Status)
	}
	return listOf(out, ""), err
}

// orNull returns a payload. A missing one is null.
func orNull(payload json.RawMessage) json.RawMessage {
	if len(payload) == 0 {
		return json.RawMessage("null")
	}
	return payload
}
