package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/filter"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/server/auth"
)

type runIn struct {
	ID string `path:"id" maxLength:"512" doc:"a run ID or a workflow ID"`
}

type listIn struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"the longest page"`
	Cursor string `query:"cursor" maxLength:"200" doc:"next of the page before"`
}

type runsIn struct {
	Limit     int      `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"the longest page"`
	Cursor    string   `query:"cursor" maxLength:"200" doc:"next of the page before"`
	Filter    string   `query:"filter" maxLength:"65536" doc:"conditions as text, such as: status=failed since=24h"`
	Statuses  []string `query:"status,explode" maxItems:"20" doc:"any of these"`
	Workflows []string `query:"workflow,explode" maxItems:"100" doc:"any of these"`
	Patterns  []string `query:"pattern,explode" maxItems:"20" doc:"any of these"`
	Open      bool     `query:"open" doc:"only runs that have not ended"`
}

func (s runRoutes) executions() {
	const group = "executions"
	read := func(id, path, summary string) operation {
		return operation{
			id: id, method: http.MethodGet, path: "/executions" + path, group: group,
			summary: summary, need: auth.Viewer,
		}
	}
	add(s.Server, read("list-executions", "", "Runs, newest first"), s.listRuns)
	add(s.Server, read("get-execution", "/{id}", "Everything about a run"),
		func(ctx context.Context, in *runIn) (Execution, error) {
			d, err := s.describe(ctx, in)
			return Execution{d, standingOf(d.Status)}, err
		})
	add(s.Server, read("get-why", "/{id}/why", "Why a run does not go on"),
		func(ctx context.Context, in *runIn) (api.Reason, error) {
			d, err := s.describe(ctx, in)
			return present.Reason(d), err
		})
	add(s.Server, read("get-history", "/{id}/history", "The journal of a run, in order"), s.history)
	add(s.Server, read("get-report", "/{id}/report", "How a run went, step by step"),
		func(ctx context.Context, in *runIn) (api.Report, error) {
			r, err := s.client.Report(ctx, in.ID)
			return present.Report(r), err
		})
	add(s.Server, read("get-graph", "/{id}/graph", "The topology of its workflow, and its steps"),
		s.graph)
	add(s.Server, read("list-timers", "/{id}/timers", "The open timers of a run"), s.timers)
	result := read("get-result", "/{id}/result", "The result of a run, waited for")
	result.other = http.StatusAccepted
	result.about = "The answer has status 200 if the run has ended, and 202 if it goes on after " +
		"the wait."
	addStatus(s.Server, result, s.result)
}

// query returns the query of a list of runs.
func (in *runsIn) query(now time.Time) (perdure.Query, error) {
	q, err := filter.Parse(in.Filter, now)
	if err != nil {
		return q, err
	}
	for _, name := range in.Statuses {
		status, ok := journal.ParseStatus(strings.ToUpper(name))
		if !ok {
			return q, invalid(fmt.Sprintf("status %q is not known", name))
		}
		q.Statuses = append(q.Statuses, status)
	}
	for _, name := range in.Patterns {
		pattern, ok := journal.ParsePattern(strings.ToUpper(name))
		if !ok {
			return q, invalid(fmt.Sprintf("pattern %q is not known", name))
		}
		q.Patterns = append(q.Patterns, pattern)
	}
	q.Workflows = append(q.Workflows, in.Workflows...)
	q.Open = q.Open || in.Open
	return q, nil
}

func (s runRoutes) listRuns(ctx context.Context, in *runsIn) (list[api.Run], error) {
	q, err := in.query(s.now())
	if err != nil {
		return list[api.Run]{}, err
	}
	about := strings.Join([]string{
		in.Filter, fmt.Sprint(in.Statuses, in.Workflows, in.Patterns, in.Open),
	}, "\x00")
	if q.After, err = cursorOf(in.Cursor, about); err != nil {
		return list[api.Run]{}, err
	}
	q.Limit = in.Limit
	heads, next, err := s.client.List(ctx, q)
	if err != nil {
		return list[api.Run]{}, err
	}
	runs := make([]api.Run, len(heads))
	for i, h := range heads {
		runs[i] = api.RunOf(h)
	}
	return listOf(runs, cursorText(next, about)), nil
}

// A cursor of the API is the cursor of the store with a digest of the list that it is of: a cursor
// that somebody has changed, or that is of another list, is refused.

func cursorText(c journal.Cursor, about string) string {
	if c.IsZero() {
		return ""
	}
	return c.String() + "." + digest(c.String(), about)
}

func cursorOf(text, about string) (journal.Cursor, error) {
	if text == "" {
		return journal.Cursor{}, nil
	}
	i := strings.LastIndexByte(text, '.')
	if i < 0 || digest(text[:i], about) != text[i+1:] {
		return journal.Cursor{}, invalid("the cursor is not of this list")
	}
	return journal.ParseCursor(text[:i])
}

func digest(cursor, about string) string {
	sum := sha256.Sum256([]byte(cursor + "\x00" + about))
	return hex.EncodeToString(sum[:6])
}

func (s runRoutes) describe(ctx context.Context, in *runIn) (api.Description, error) {
	return present.Describe(ctx, s.client, in.ID)
}

type historyIn struct {
	ID    string `path:"id" maxLength:"512" doc:"a run ID or a workflow ID"`
	From  int64  `query:"from" minimum:"1" default:"1" doc:"the number of the first entry"`
	Limit int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"the longest page"`
}

func (s runRoutes) history(ctx context.Context, in *historyIn) (list[api.Entry], error) {
	run, err := s.client.Get(ctx, in.ID)
	if err != nil {
		return list[api.Entry]{}, err
	}
	statuses, err := s.client.Statuses(ctx, run.RunID())
	if err != nil {
		return list[api.Entry]{}, err
	}
	// The names of scopes are in the entries that opened them, so the journal is read from its
	// beginning.
	of, out := api.JournalOf(statuses[0].Head), []api.Entry{}
	for seen := int64(0); ; {
		entries, err := s.client.History(ctx, run.RunID(), seen+1, pageOfEvents)
		if err != nil {
			return list[api.Entry]{}, err
		}
		for _, e := range entries {
			shown := of.Entry(e)
			if seen = e.Seq; seen < in.From {
				continue
			}
			if len(out) == in.Limit {
				return list[api.Entry]{out, strconv.FormatInt(seen, 10)}, nil
			}
			out = append(out, shown)
		}
		if len(entries) < pageOfEvents {
			return list[api.Entry]{out, ""}, nil
		}
	}
}

// A RunGraph is the topology of a run's workflow, with the steps of the run.
type RunGraph struct {
	Topology
	Steps   []api.Step `json:"steps"`
	Visited []string   `json:"visited,omitempty"` // the states of a step machine, in order
}

func (s runRoutes) graph(ctx context.Context, in *runIn) (RunGraph, error) {
	d, err := s.describe(ctx, in)
	if err != nil {
		return RunGraph{}, err
	}
	t, err := s.topology(ctx, &workflowIn{d.Workflow})
	if journal.CodeOf(err) == journal.CodeNotFound {
		t, err = Topology{Workflow: d.Workflow}, nil
	}
	out := RunGraph{Topology: t, Steps: d.Steps}
	if out.Steps == nil {
		out.Steps = []api.Step{}
	}
	if err != nil || t.Diagram == nil {
		return out, err
	}
	r, err := s.client.Report(ctx, d.RunID)
	if err == nil {
		out.Visited = machine.Visited(r)
		out.Mermaid = t.Diagram.Mermaid(out.Visited...)
	}
	return out, err
}

func (s runRoutes) timers(ctx context.Context, in *runIn) (list[api.Wait], error) {
	d, err := s.describe(ctx, in)
	var out []api.Wait
	for _, w := range d.Waits {
		if w.Kind == string(journal.WaitTimer) {
			out = append(out, w)
		}
	}
	return listOf(out, ""), err
}

// A Standing is how a run stands.
type Standing struct {
	Found      bool `json:"found"`
	IsTerminal bool `json:"is_terminal" doc:"the run has ended"`
	IsSuccess  bool `json:"is_success" doc:"the run has ended as its author hoped"`
}

// standingOf returns the standing of a run with a status.
func standingOf(status string) Standing {
	s, found := journal.ParseStatus(status)
	return Standing{found, s.IsTerminal(), s.IsSuccess()}
}

// An Execution is everything about a run.
type Execution struct {
	api.Description
	Standing
}

// A Result is a run with its result, if it has ended.
type Result struct {
	api.Outcome
	Standing
}

type resultIn struct {
	ID   string `path:"id" maxLength:"512" doc:"a run ID or a workflow ID"`
	Wait string `query:"wait" maxLength:"40" default:"0s" doc:"how long to wait for the end, up to 5m"`
}

// maxWait bounds a long poll: proxies cut connections that are silent for longer.
const maxWait = 5 * time.Minute

func (s runRoutes) result(ctx context.Context, in *resultIn) (Result, int, error) {
	wait, err := span("wait", in.Wait)
	if err != nil {
		return Result{}, 0, err
	}
	run, err := s.client.Get(ctx, in.ID)
	if err != nil {
		return Result{}, 0, err
	}
	if wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, min(wait, maxWait))
		_, err = run.Outcome(waiting)
		cancel()
		if err != nil && waiting.Err() == nil {
			return Result{}, 0, err
		}
	}
	d, err := s.lastOf(ctx, run.RunID())
	out := Result{d.Outcome, standingOf(d.Status)}
	if err == nil && !out.IsTerminal {
		return out, http.StatusAccepted, nil
	}
	return out, http.StatusOK, err
}

// lastOf returns the last run of the chain that begins with a run: a run that continues as new has
// the result of its successor.
func (s runRoutes) lastOf(ctx context.Context, id string) (api.Description, error) {
	for {
		d, err := s.describe(ctx, &runIn{id})
		if err != nil || d.Successor == "" {
			return d, err
		}
		id = d.Successor
	}
}
