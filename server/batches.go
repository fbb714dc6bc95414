package server

import (
	"context"
	"net/http"
	"time"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/filter"
	"github.com/perdure/perdure/server/auth"
)

// A BatchIn names a batch in a path.
type BatchIn struct {
	ID string `path:"id" maxLength:"512" doc:"the ID of a batch"`
}

type batchBody struct{ Body batch.Spec }

// spec returns the batch of the caller, whoever the body says it is by.
func (s *Server) spec(ctx context.Context, in *batchBody) (batch.Spec, error) {
	in.Body.Order.By = who(ctx).Name
	q, err := filter.Parse(in.Body.Filter, time.Now())
	if err == nil {
		err = s.hidden(ctx).mayFilter(q.Attributes)
	}
	return in.Body, err
}

// A Plan describes the runs that a batch would have.
type Plan struct {
	Filter   string         `json:"filter,omitempty"` // with the conditions that it is completed by
	Count    int            `json:"count"`
	More     bool           `json:"more,omitempty"` // there are more than count
	Statuses map[string]int `json:"statuses"`       // of the counted runs
	// runs that meet the conditions, and are left out because their workflow ID has a later run
	LeftOut int       `json:"left_out,omitempty"`
	First   []api.Run `json:"first"`
	Unknown []string  `json:"unknown,omitempty"` // IDs that no run has
}

func (s adminRoutes) batches() {
	const group = "batches"
	add(s.Server, operation{
		id: "list-batches", method: http.MethodGet, path: "/batches", group: group,
		summary: "Batches, newest first", need: auth.Viewer,
	}, func(ctx context.Context, in *struct {
		PageIn
		Open bool `query:"open" doc:"only those that have not ended"`
	}) (list[batch.Batch], error) {
		about := "all"
		if in.Open {
			about = "open"
		}
		after, err := cursorOf(in.Cursor, about)
		if err != nil {
			return list[batch.Batch]{}, err
		}
		all, next, err := batch.List(ctx, s.client, batch.Query{
			Open: in.Open, After: after, Limit: in.Limit,
		})
		return listOf(all, cursorText(next, about)), err
	})
	add(s.Server, operation{
		id: "get-batch", method: http.MethodGet, path: "/batches/{id}", group: group,
		summary: "A batch, and how far it is", need: auth.Viewer,
	}, func(ctx context.Context, in *BatchIn) (batch.Batch, error) {
		return batch.Get(ctx, s.client, in.ID)
	})
	add(s.Server, operation{
		id: "start-batch", method: http.MethodPost, path: "/batches", group: group,
		summary: "Carry out one action on many runs", status: http.StatusCreated,
		need: auth.Operator,
	}, func(ctx context.Context, in *batchBody) (batch.Batch, error) {
		spec, err := s.spec(ctx, in)
		if err != nil {
			return batch.Batch{}, err
		}
		return batch.Start(ctx, s.client, spec)
	})
	add(s.Server, operation{
		id: "preview-batch", method: http.MethodPost, path: "/batch-previews", group: group,
		summary: "The runs that a batch would have; it changes nothing", reads: true,
		need: auth.Viewer,
	}, func(ctx context.Context, in *batchBody) (Plan, error) {
		spec, err := s.spec(ctx, in)
		if err != nil {
			return Plan{}, err
		}
		p, err := batch.Preview(ctx, s.client, spec)
		out := Plan{
			Filter: p.Filter, Count: p.Count, More: p.More, Unknown: p.Unknown, First: []api.Run{},
			Statuses: map[string]int{}, LeftOut: p.LeftOut,
		}
		for status, n := range p.Statuses {
			out.Statuses[status.String()] = n
		}
		for _, h := range p.First {
			out.First = append(out.First, api.RunOf(h))
		}
		return out, err
	})
	add(s.Server, operation{
		id: "stop-batch", method: http.MethodPost, path: "/batches/{id}/stop", group: group,
		summary: "Stop a batch; the rest of the runs stays as it is", need: auth.Operator,
	}, func(ctx context.Context, in *struct {
		BatchIn
		ReasonIn
	}) (Done, error) {
		return Done{true}, batch.Stop(ctx, s.client, in.ID, who(ctx).Name, in.Reason)
	})
}
