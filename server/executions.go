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
	"github.com/perdure/perdure/server/auth"
)

type runsIn struct {
	PageIn
	ConditionsIn
}

// A ConditionsIn selects runs.
type ConditionsIn struct {
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
	add(s.Server, read("count-executions", "/counts", "How many runs there are, by status"),
		s.countRuns)
	add(s.Server, read("list-errors", "/errors", "Failed runs, grouped by their errors"),
		s.runErrors)
	add(s.Server, read("get-execution", "/{id}", "Everything about a run"),
		func(ctx context.Context, in *RunIn) (Execution, error) {
			d, err := s.describe(ctx, in)
			return Execution{d, standingOf(d.Status)}, err
		})
	add(s.Server, read("get-why", "/{id}/why", "Why a run does not go on"),
		func(ctx context.Context, in *RunIn) (api.Reason, error) {
			d, err := s.describe(ctx, in)
			return present.Reason(d), err
		})
	add(s.Server, read("get-history", "/{id}/history", "The journal of a run, in order"), s.history)
	add(s.Server, read("get-report", "/{id}/report", "How a run went, step by step"),
		func(ctx context.Context, in *RunIn) (api.Report, error) {
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

// query returns the query of the runs that the caller selects.
func (s runRoutes) query(ctx context.Context, in *ConditionsIn) (perdure.Query, error) {
	q, err := in.query(s.now())
	if err == nil {
		err = s.hidden(ctx).mayFilter(q.Attributes)
	}
	return q, err
}

// query returns the query as it is written.
func (in *ConditionsIn) query(now time.Time) (perdure.Query, error) {
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
	q, err := s.query(ctx, &in.ConditionsIn)
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

// A cursor of the API is the cursor of a package with a digest of the list that it is of: a cursor
// that somebody has changed, or that is of another list, is refused.

func cursorText(c fmt.Stringer, about string) string {
	text := c.String()
	if text == "" {
		return ""
	}
	return text + "." + digest(text, about)
}

func cursorOf(text, about string) (journal.Cursor, error) {
	text, err := bare(text, about)
	if err != nil {
		return journal.Cursor{}, err
	}
	return journal.ParseCursor(text)
}

// bare returns a cursor of the API without its digest.
func bare(text, about string) (string, error) {
	if text == "" {
		return "", nil
	}
	i := strings.LastIndexByte(text, '.')
	if i < 0 || digest(text[:i], about) != text[i+1:] {
		return "", invalid("the cursor is not of this list")
	}
	return text[:i], nil
}

func digest(cursor, about string) string {
	sum := sha256.Sum256([]byte(cursor + "\x00" + about))
	return hex.EncodeToString(sum[:6])
}

func (s runRoutes) describe(ctx context.Context, in *RunIn) (api.Description, error) {
	return present.Describe(ctx, s.client, in.ID)
}

type historyIn struct {
	RunIn
	From  int64  `query:"from" minimum:"1" default:"1" doc:"the number of the first entry"`
	Limit int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"the longest page"`
	Step  string `query:"step" maxLength:"4096" doc:"only the entries of the step with this path, and of its phases"`
}

func (s runRoutes) history(ctx context.Context, in *historyIn) (list[api.Entry], error) {
	run, err := s.client.Get(ctx, in.ID)
	if err != nil {
		return list[api.Entry]{}, err
	}
	out, next := []api.Entry{}, ""
	most := in.Limit + 1
	if in.Step != "" {
		most = pageOfEvents // most entries are of other steps
	}
	err = s.walk(ctx, run.RunID(), in.From, most, func(e api.Entry) bool {
		switch {
		case in.Step != "" && !isOf(e.Operation, in.Step):
		case len(out) == in.Limit:
			next = strconv.FormatInt(e.Seq, 10)
			return false
		default:
			out = append(out, e)
		}
		return true
	})
	if err != nil {
		return list[api.Entry]{}, err
	}
	return list[api.Entry]{out, next}, nil
}

// isOf reports whether an operation is a step, or a phase of it, such as undo:NAME.
func isOf(operation, step string) bool {
	if operation == step {
		return true
	}
	at := strings.LastIndexByte(step, '/') + 1
	scope, name := step[:at], step[at:]
	phase, isIn := strings.CutPrefix(operation, scope)
	if !isIn {
		return false
	}
	_, of, isPhase := strings.Cut(phase, ":")
	return isPhase && of == name
}

// walk calls do for the entries of a run from a number on, in order, until it returns false. No
// read has more than most entries.
func (s *Server) walk(ctx context.Context, run string, from int64, most int,
	do func(api.Entry) bool) error {
	statuses, err := s.client.Statuses(ctx, run)
	if err != nil {
		return err
	}
	of := api.JournalOf(statuses[0].Head)
	for {
		entries, err := s.client.History(ctx, run, from, min(most, pageOfEvents))
		if err != nil || len(entries) == 0 {
			return err
		}
		for _, e := range entries {
			shown, err := s.entry(ctx, run, of, e)
			if err != nil || !do(shown) {
				return err
			}
			from = e.Seq + 1
		}
	}
}

// entry returns the form of an entry of a run. The name of its scope is in the entry that has
// opened the scope: it is read if it is not among those that are shown.
func (s *Server) entry(ctx context.Context, run string, of *api.Journal,
	e journal.Entry) (api.Entry, error) {
	if at := of.Lacks(e); at != 0 {
		opened, err := s.client.History(ctx, run, at, 1)
		if err == nil && len(opened) > 0 && opened[0].Seq == at {
			_, err = s.entry(ctx, run, of, opened[0])
		}
		if err != nil {
			return api.Entry{}, err
		}
	}
	return of.Entry(e), nil
}

func (s runRoutes) timers(ctx context.Context, in *RunIn) (list[api.Wait], error) {
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
	RunIn
	Wait string `query:"wait" maxLength:"40" default:"0s" doc:"how long to wait for the end, up to 5m"`
}

// maxWait bounds a long poll: proxies cut connections that are silent for longer.
const maxWait = 5 * time.Minute

// walkWithin is how long the walk along a chain may take, after the wait.
const walkWithin = 5 * time.Second

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
	last, err := s.lastOf(ctx, run.RunID(), time.Now().Add(walkWithin))
	if err != nil {
		return Result{}, 0, err
	}
	out := Result{outcomeOf(last), standingOf(last.Head.Status.String())}
	if last.Head.Status == journal.ContinuedAsNew {
		out.Standing = Standing{Found: true} // the chain goes on
	}
	if !out.IsTerminal {
		return out, http.StatusAccepted, nil
	}
	return out, http.StatusOK, nil
}

// lastOf returns the last run of the chain that begins with a run: a run that continues as new has
// the result of its successor. If the walk does not come to the end in time, because the chain is
// very long or grows as fast, it returns the run that it has come to.
func (s runRoutes) lastOf(ctx context.Context, id string, until time.Time) (perdure.Status, error) {
	for {
		all, err := s.client.Statuses(ctx, id)
		if err == nil && !all[0].Found {
			_, err = s.client.Get(ctx, id) // the error has the reason
		}
		if err != nil {
			return perdure.Status{}, err
		}
		h := all[0].Head
		if h.Status != journal.ContinuedAsNew || time.Now().After(until) {
			return all[0], nil
		}
		last, err := s.client.History(ctx, id, h.Last, 1)
		if err != nil {
			return perdure.Status{}, err
		}
		if len(last) == 0 || last[0].Detail == nil {
			return all[0], nil // it is damaged
		}
		id = string(last[0].Detail.Other)
	}
}

// outcomeOf returns a run with its result, if it has ended.
func outcomeOf(s perdure.Status) api.Outcome {
	out := api.Outcome{Run: api.RunOf(s.Head), Output: api.Data(s.Output)}
	if s.Err != nil {
		out.Error = &api.Error{Code: string(journal.CodeOf(s.Err)), Message: s.Err.Error()}
	}
	return out
}
