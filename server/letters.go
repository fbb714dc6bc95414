package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/server/auth"
)

// A LettersIn selects dead letters.
type LettersIn struct {
	Workflow   string `query:"workflow" maxLength:"255" doc:"of this workflow"`
	WorkflowID string `query:"workflow_id" maxLength:"255" doc:"of this workflow ID"`
	Handled    bool   `query:"handled" doc:"those that were marked as handled, instead of the open ones"`
}

func (in *LettersIn) query() admin.DeadLetterQuery {
	return admin.DeadLetterQuery{
		Workflow: in.Workflow, WorkflowID: in.WorkflowID, Handled: in.Handled,
	}
}

// A LetterIn names a dead letter in a path.
type LetterIn struct {
	Entry string `path:"entry" maxLength:"512" doc:"the ID of a dead letter"`
}

type letterActIn struct {
	LetterIn
	Body *Note
}

// A Count is the number of some things.
type Count struct {
	Count int  `json:"count"`
	More  bool `json:"more,omitempty" doc:"there may be more"`
}

// letters registers the routes of the dead-letter queue.
func (s adminRoutes) letters() {
	const group = "dead letters"
	add(s.Server, operation{
		id: "list-dead-letters", method: http.MethodGet, path: "/dlq", group: group,
		summary: "Dead letters, newest first", need: auth.Viewer,
	}, func(ctx context.Context, in *struct {
		LettersIn
		PageIn
		Like string `query:"like" maxLength:"8192" doc:"with this error, or one that differs from it in numbers and IDs only: the message of a group of errors; a page may then have fewer items than its limit"`
	}) (list[deadletter.Letter], error) {
		q, about := in.query(), fmt.Sprintf("%+v %q", in.LettersIn, in.Like)
		var err error
		if q.After, err = cursorOf(in.Cursor, about); err != nil {
			return list[deadletter.Letter]{}, err
		}
		q.Limit = in.Limit
		all, next, err := s.admin.DeadLetters(ctx, q)
		if in.Like != "" {
			like := keyOf(in.Like)
			all = slices.DeleteFunc(all, func(l deadletter.Letter) bool {
				return keyOf(l.Error) != like
			})
		}
		return listOf(all, cursorText(next, about)), err
	})
	add(s.Server, operation{
		id: "count-dead-letters", method: http.MethodGet, path: "/dlq/count", group: group,
		summary: "How many dead letters there are", need: auth.Viewer,
	}, func(ctx context.Context, in *LettersIn) (Count, error) {
		n, more, err := s.admin.CountDeadLetters(ctx, in.query())
		return Count{n, more}, err
	})
	add(s.Server, operation{
		id: "list-dead-letter-errors", method: http.MethodGet, path: "/dlq/errors", group: group,
		summary: "Dead letters, grouped by their errors", need: auth.Viewer,
	}, s.letterErrors)
	add(s.Server, operation{
		id: "get-dead-letter", method: http.MethodGet, path: "/dlq/{entry}", group: group,
		summary: "A dead letter", need: auth.Viewer,
	}, func(ctx context.Context, in *LetterIn) (deadletter.Letter, error) {
		return s.admin.DeadLetter(ctx, in.Entry)
	})
	add(s.Server, operation{
		id: "delete-dead-letter", method: http.MethodDelete, path: "/dlq/{entry}", group: group,
		summary: "Delete a dead letter; its run stays", need: auth.Operator,
	}, func(ctx context.Context, in *struct {
		LetterIn
		ReasonIn
	}) (api.Deleted, error) {
		return api.Deleted{ID: in.Entry}, s.admin.DeleteDeadLetter(ctx, in.Entry,
			by(ctx, in.Reason))
	})
	add(s.Server, operation{
		id: "retry-dead-letter", method: http.MethodPost, path: "/dlq/{entry}/retry", group: group,
		summary: "Retry the run of a dead letter from the failed step", need: auth.Operator,
	}, func(ctx context.Context, in *letterActIn) (api.Started, error) {
		acted, err := s.admin.ActOnDeadLetter(ctx, in.Entry, admin.Order{
			Action: journal.ActionRetry, By: who(ctx).Name, Reason: in.Body.reason(),
		})
		return api.Started{
			RunID: acted.RunID, WorkflowID: acted.WorkflowID, New: acted.New,
		}, err
	})
	add(s.Server, operation{
		id: "handle-dead-letter", method: http.MethodPost, path: "/dlq/{entry}/handle",
		group: group, summary: "Mark a dead letter as handled, without a retry",
		need: auth.Operator,
	}, func(ctx context.Context, in *letterActIn) (Done, error) {
		note := who(ctx).Name
		if r := in.Body.reason(); r != "" {
			note += ": " + r
		}
		return Done{true}, s.admin.MarkHandled(ctx, in.Entry, note)
	})
}
