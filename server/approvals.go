package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/callback"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/server/auth"
)

// A Decide is the decision of the caller about an ask.
type Decide struct {
	Approved bool            `json:"approved"`
	Role     string          `json:"role,omitempty" maxLength:"255" doc:"the role in which the caller decides"`
	For      string          `json:"for,omitempty" maxLength:"255" doc:"the person who has decided; missing for the caller"`
	Reason   string          `json:"reason,omitempty" maxLength:"1000"`
	Data     json.RawMessage `json:"data,omitempty" doc:"as the form of the ask says"`
}

// A ByToken is the decision that a signed token carries.
type ByToken struct {
	Token  string          `json:"token" maxLength:"4096"`
	Reason string          `json:"reason,omitempty" maxLength:"1000"`
	Data   json.RawMessage `json:"data,omitempty" doc:"as the form of the ask says"`
}

// A Shown is a signed token that somebody shows.
type Shown struct {
	Token string `json:"token" maxLength:"4096"`
}

// An Answer is the answer that somebody outside gives to a wait.
type Answer struct {
	Token  string          `json:"token" maxLength:"4096"`
	Data   json.RawMessage `json:"data,omitempty" doc:"the payload of a success; missing means null"`
	Reason string          `json:"reason,omitempty" maxLength:"1000" doc:"of a failure"`
	Extend string          `json:"extend,omitempty" maxLength:"40" doc:"of a heartbeat: by how long, such as 10m"`
}

// decideWithin is how long a decision may take: the run itself judges it.
const decideWithin = 30 * time.Second

func (s adminRoutes) approvals() {
	const group = "approvals"
	add(s.Server, operation{
		id: "list-approvals", method: http.MethodGet, path: "/approvals", group: group,
		summary: "Decisions that runs wait for, the oldest first", need: auth.Viewer,
	}, s.listApprovals)
	add(s.Server, operation{
		id: "decide-approval", method: http.MethodPost, path: "/approvals/{id}/{key}",
		group: group, summary: "Decide about an ask of a run", need: auth.Operator,
		about: "The decision names the caller as the one who asserts it.",
	}, func(ctx context.Context, in *struct {
		RunIn
		Key   string `path:"key" maxLength:"1024" doc:"the key of the ask"`
		Again string `header:"Idempotency-Key" maxLength:"255" doc:"the same key has the same receipt"`
		Body  Decide
	}) (api.Receipt, error) {
		ctx, cancel := context.WithTimeout(ctx, decideWithin)
		defer cancel()
		d := approval.Decision{
			Approved: in.Body.Approved, By: in.Body.For, Role: in.Body.Role,
			Reason: in.Body.Reason, Data: in.Body.Data, AssertedBy: who(ctx).Name,
		}
		if d.By == "" {
			d.By = who(ctx).Name
		}
		var opts []perdure.SendOption
		if in.Again != "" {
			opts = append(opts, perdure.SendKey(in.Again))
		}
		r, err := approval.Decide(ctx, s.client, in.ID, in.Key, d, opts...)
		return present.Receipt(r), err
	})
	add(s.Server, operation{
		id: "decide-by-token", method: http.MethodPost, path: "/approval-tokens", group: group,
		summary: "Make the decision that a signed token carries", need: auth.Public,
		about: "The token is the credential.",
	}, func(ctx context.Context, in *struct{ Body ByToken }) (api.Receipt, error) {
		ctx, cancel := context.WithTimeout(ctx, decideWithin)
		defer cancel()
		r, err := approval.DecideByToken(ctx, s.client, in.Body.Token, in.Body.Reason, in.Body.Data)
		return present.Receipt(r), tokenProblem(err)
	})
	add(s.Server, operation{
		id: "show-token", method: http.MethodPost, path: "/approval-tokens/show", group: group,
		summary: "Show the decision that a signed token carries; it changes nothing",
		need:    auth.Public, reads: true, about: "The token is the credential.",
	}, func(ctx context.Context, in *struct{ Body Shown }) (api.Carried, error) {
		c, err := approval.ByToken(ctx, s.client, in.Body.Token)
		return present.Carried(c), tokenProblem(err)
	})
	for _, action := range []string{"succeed", "fail", "heartbeat", "show"} {
		add(s.Server, operation{
			id: action + "-callback", method: http.MethodPost, path: "/callbacks/" + action,
			group: "callbacks", summary: callbackSummaries[action], need: auth.Public,
			reads: action == "show", about: "The token is the credential.",
		}, func(ctx context.Context, in *struct{ Body Answer }) (api.Callback, error) {
			if err := s.answer(ctx, action, in.Body); err != nil {
				return api.Callback{}, tokenProblem(err)
			}
			c, err := callback.Get(ctx, s.client, in.Body.Token)
			return present.Callback(c), tokenProblem(err)
		})
	}
}

var callbackSummaries = map[string]string{
	"succeed":   "End a wait with a payload",
	"fail":      "End a wait with a failure",
	"heartbeat": "Put off the limit of a wait",
	"show":      "Show the wait of a token; it changes nothing",
}

func (s adminRoutes) answer(ctx context.Context, action string, a Answer) error {
	switch action {
	case "succeed":
		if a.Data == nil {
			a.Data = json.RawMessage("null")
		}
		return callback.Succeed(ctx, s.client, a.Token, a.Data)
	case "fail":
		return callback.Fail(ctx, s.client, a.Token, a.Reason)
	case "heartbeat":
		d, err := span("extend", a.Extend)
		if err != nil {
			return err
		}
		return callback.Heartbeat(ctx, s.client, a.Token, d)
	}
	return nil
}

// tokenProblem answers a token that is forged or malformed with 401, as for any other credential.
// One that has expired was good: its answer says so.
func tokenProblem(err error) error {
	if errors.Is(err, approval.ErrExpired) {
		p := problemOf(err)
		return problem(http.StatusGone, codeExpired, "the token has expired", p.Hint)
	}
	if !errors.Is(err, callback.ErrMalformed) && !errors.Is(err, callback.ErrForged) {
		return err
	}
	return problem(http.StatusUnauthorized, codeUnauthenticated, "the token is not valid",
		"use the token as it was given")
}

func (s adminRoutes) listApprovals(ctx context.Context, in *struct {
	Role     string `query:"role" maxLength:"255" doc:"that this role may decide now"`
	Workflow string `query:"workflow" maxLength:"255" doc:"of this workflow"`
	ID       string `query:"id" maxLength:"512" doc:"of a run: a run ID or a workflow ID"`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"the longest page"`
	Cursor   string `query:"cursor" maxLength:"600" doc:"next of the page before"`
}) (list[api.Approval], error) {
	about := strings.Join([]string{"approvals", in.Role, in.Workflow, in.ID}, "\x00")
	text, err := bare(in.Cursor, about)
	if err != nil {
		return list[api.Approval]{}, err
	}
	after, err := approval.ParseCursor(text)
	if err != nil {
		return list[api.Approval]{}, err
	}
	all, next, err := approval.List(ctx, s.client, approval.Query{
		Role: in.Role, Workflow: in.Workflow, ID: in.ID, After: after, Limit: in.Limit,
	})
	var out []api.Approval
	for _, p := range all {
		out = append(out, present.Approval(p))
	}
	return listOf(out, cursorText(next, about)), err
}
