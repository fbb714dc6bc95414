package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
	"github.com/perdure/perdure/server/auth"
)

type namedIn struct {
	ReasonIn
	SettingIn
}

// named returns the name that a path has. A hyphen stands for the default, whose name is empty.
func named(part string) string {
	if part == "-" {
		return ""
	}
	return part
}

// settings registers what operators set for all engines.
func (s adminRoutes) settings() {
	s.limits()
	s.pauses()
	s.alerts()
	s.keys()
}

// Bounds are the numbers of a limit. A missing one leaves the number of the code; 0 means no limit.
type Bounds struct {
	Concurrency *int   `json:"concurrency,omitempty" minimum:"0"`
	PerKey      *int   `json:"per_key,omitempty" minimum:"0"`
	Slots       *int   `json:"slots,omitempty" minimum:"0"`
	Rate        string `json:"rate,omitempty" maxLength:"40" doc:"such as 10/1m; 0 for no limit"`
	Burst       int    `json:"burst,omitempty" minimum:"0"`
}

func (b Bounds) limit() (limit.Bounds, error) {
	out := limit.Bounds{Concurrency: b.Concurrency, PerKey: b.PerKey, Slots: b.Slots}
	if b.Rate == "" {
		return out, nil
	}
	r, ok := present.ParseRate(b.Rate)
	if !ok {
		return out, invalid("rate is not valid: allowed are a number and a time, such as 10/1s, " +
			"and 0 for no limit")
	}
	r.Burst = b.Burst
	out.Rate = &r
	return out, nil
}

func (s adminRoutes) limits() {
	const group = "limits"
	add(s.Server, operation{
		id: "list-limits", method: http.MethodGet, path: "/limits", group: group,
		summary: "Limits that are set, and those that runs hold or wait for", need: auth.Viewer,
	}, func(ctx context.Context, _ *nothing) (list[api.Limit], error) {
		all, err := s.admin.Limits(ctx)
		var out []api.Limit
		for _, l := range all {
			out = append(out, present.Limit(l))
		}
		return listOf(out, ""), err
	})
	add(s.Server, operation{
		id: "list-limit-runs", method: http.MethodGet, path: "/limits/{name}/runs", group: group,
		summary: "The runs that have a limit, and those in line for it", need: auth.Viewer,
	}, func(ctx context.Context, in *struct {
		Name  string `path:"name" maxLength:"255" doc:"the name of a limit"`
		Of    string `query:"of" enum:"runs,key,rate,lock,one" default:"runs" doc:"the part of it, as in its uses"`
		Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"the most runs"`
	}) (list[api.LimitRun], error) {
		all, err := s.admin.LimitRuns(ctx, in.Name, in.Of, in.Limit)
		var out []api.LimitRun
		for _, r := range all {
			out = append(out, present.LimitRun(r))
		}
		return listOf(out, ""), err
	})
	add(s.Server, operation{
		id: "set-limit", method: http.MethodPut, path: "/limits/{name}", group: group,
		summary: "Set the numbers of a limit while runs go on", need: auth.Operator,
	}, func(ctx context.Context, in *struct {
		ReasonIn
		SettingIn
		Body Bounds
	}) (Done, error) {
		b, err := in.Body.limit()
		if err != nil {
			return Done{}, err
		}
		return Done{true}, s.admin.SetLimit(ctx, named(in.Name), b, by(ctx, in.Reason))
	})
	add(s.Server, operation{
		id: "reset-limit", method: http.MethodDelete, path: "/limits/{name}", group: group,
		summary: "Let the numbers of the code hold again", need: auth.Operator,
	}, func(ctx context.Context, in *namedIn) (Done, error) {
		return Done{true}, s.admin.ResetLimit(ctx, named(in.Name), by(ctx, in.Reason))
	})
}

func (s adminRoutes) pauses() {
	const group = "pauses"
	add(s.Server, operation{
		id: "list-pauses", method: http.MethodGet, path: "/pauses", group: group,
		summary: "Workflows that are paused", need: auth.Viewer,
	}, func(ctx context.Context, _ *nothing) (list[api.Pause], error) {
		all, err := s.admin.Pauses(ctx)
		var out []api.Pause
		for _, p := range all {
			out = append(out, present.Pause(p))
		}
		return listOf(out, ""), err
	})
	add(s.Server, operation{
		id: "pause-workflow", method: http.MethodPut, path: "/pauses/{name}", group: group,
		summary: "Pause a workflow: its runs are not taken up until it goes on",
		need:    auth.Operator,
	}, func(ctx context.Context, in *namedIn) (Done, error) {
		return Done{true}, s.admin.PauseWorkflow(ctx, named(in.Name), by(ctx, in.Reason))
	})
	add(s.Server, operation{
		id: "resume-workflow", method: http.MethodDelete, path: "/pauses/{name}", group: group,
		summary: "Let a paused workflow go on", need: auth.Operator,
	}, func(ctx context.Context, in *namedIn) (Done, error) {
		return Done{true}, s.admin.ResumeWorkflow(ctx, named(in.Name), by(ctx, in.Reason))
	})
}

// An AlertRule describes when to alert about the runs of a workflow, and whom.
type AlertRule struct {
	Off         bool     `json:"off,omitempty"`
	Causes      []string `json:"causes,omitempty" maxItems:"20"`
	Statuses    []string `json:"statuses,omitempty" maxItems:"20"`
	InARow      int      `json:"in_a_row,omitempty" minimum:"0" maximum:"1000"`
	Times       int      `json:"times,omitempty" minimum:"0" maximum:"1000"`
	Within      string   `json:"within,omitempty" maxLength:"40"`
	Longest     string   `json:"longest,omitempty" maxLength:"40"`
	LongestWait string   `json:"longest_wait,omitempty" maxLength:"40"`
	To          []string `json:"to,omitempty" maxItems:"20"`
}

func (r AlertRule) rule() (alert.Rule, error) {
	out := alert.Rule{Off: r.Off, InARow: r.InARow, Times: r.Times, To: r.To}
	for _, c := range r.Causes {
		out.Causes = append(out.Causes, alert.Cause(c))
	}
	for _, name := range r.Statuses {
		status, ok := journal.ParseStatus(strings.ToUpper(name))
		if !ok {
			return out, invalid("a status in statuses is not known")
		}
		out.Statuses = append(out.Statuses, perdure.RunStatus(status))
	}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{
		{"within", r.Within, &out.Within}, {"longest", r.Longest, &out.Longest},
		{"longest_wait", r.LongestWait, &out.LongestWait},
	} {
		if d.text == "" {
			continue
		}
		var err error
		if *d.to, err = span(d.name, d.text); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (s adminRoutes) alerts() {
	const group = "alerts"
	add(s.Server, operation{
		id: "list-alerts", method: http.MethodGet, path: "/alerts", group: group,
		summary: "The rules of alerts", need: auth.Viewer,
	}, func(ctx context.Context, _ *nothing) (list[api.Alert], error) {
		all, err := alert.List(ctx, s.client)
		var out []api.Alert
		for _, a := range all {
			out = append(out, present.Alert(a))
		}
		return listOf(out, ""), err
	})
	add(s.Server, operation{
		id: "set-alert", method: http.MethodPut, path: "/alerts/{name}", group: group,
		summary: "Set the rule of a workflow, or the default", need: auth.Operator,
	}, func(ctx context.Context, in *struct {
		ReasonIn
		SettingIn
		Body AlertRule
	}) (Done, error) {
		r, err := in.Body.rule()
		if err != nil {
			return Done{}, err
		}
		return Done{true}, alert.Set(ctx, s.client, named(in.Name), r, by(ctx, in.Reason))
	})
	add(s.Server, operation{
		id: "reset-alert", method: http.MethodDelete, path: "/alerts/{name}", group: group,
		summary: "Remove the rule of a workflow", need: auth.Operator,
	}, func(ctx context.Context, in *namedIn) (Done, error) {
		return Done{true}, alert.Reset(ctx, s.client, named(in.Name), by(ctx, in.Reason))
	})
	add(s.Server, operation{
		id: "test-alert", method: http.MethodPost, path: "/alerts/{name}/test", group: group,
		summary: "Send a test to the recipients of the rule that applies", need: auth.Operator,
	}, func(ctx context.Context, in *SettingIn) (list[api.AlertTest], error) {
		sent, err := alert.Test(ctx, s.client, named(in.Name))
		var out []api.AlertTest
		for _, t := range sent {
			out = append(out, api.AlertTest(t))
		}
		return listOf(out, ""), err
	})
}

func (s adminRoutes) keys() {
	const group = "keys"
	add(s.Server, operation{
		id: "list-keys", method: http.MethodGet, path: "/keys", group: group,
		summary: "The keys that sign tokens, without their secrets", need: auth.Admin,
	}, func(ctx context.Context, _ *nothing) (list[api.Key], error) {
		all, err := s.admin.Keys(ctx)
		var out []api.Key
		for _, k := range all {
			out = append(out, present.Key(k))
		}
		return listOf(out, ""), err
	})
	add(s.Server, operation{
		id: "rotate-key", method: http.MethodPost, path: "/keys/rotate", group: group,
		summary: "Make a new key that signs; the old one still verifies", need: auth.Admin,
	}, func(ctx context.Context, in *ReasonIn) (Done, error) {
		return Done{true}, s.admin.RotateKey(ctx, by(ctx, in.Reason))
	})
	add(s.Server, operation{
		id: "revoke-key", method: http.MethodDelete, path: "/keys/{name}", group: group,
		summary: "Remove a key: the tokens that it has signed are not valid any more",
		need:    auth.Admin,
	}, func(ctx context.Context, in *namedIn) (Done, error) {
		return Done{true}, s.admin.RevokeKey(ctx, in.Name, by(ctx, in.Reason))
	})
}
