package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/server/auth"
)

type scheduleActIn struct {
	ScheduleIn
	Body *Note
}

// because returns the note of a change of a schedule, in the name of the caller.
func because(ctx context.Context, reason string) schedule.Note {
	return schedule.Note{By: who(ctx).Name, Why: reason}
}

// A Period is the time from one instant to another, both included.
type Period struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// A StartedID is the workflow ID of a run that a schedule starts.
type StartedID struct {
	WorkflowID string `json:"workflow_id"`
}

func (s adminRoutes) schedules() {
	const group = "schedules"
	add(s.Server, operation{
		id: "list-schedules", method: http.MethodGet, path: "/schedules", group: group,
		summary: "Schedules, newest first", need: auth.Viewer,
	}, s.listSchedules)
	add(s.Server, operation{
		id: "get-schedule", method: http.MethodGet, path: "/schedules/{name}", group: group,
		summary: "A schedule as it is now", need: auth.Viewer,
	}, func(ctx context.Context, in *ScheduleIn) (schedule.Schedule, error) {
		return schedule.Get(ctx, s.client, in.Name)
	})
	add(s.Server, operation{
		id: "list-schedule-times", method: http.MethodGet, path: "/schedules/{name}/times",
		group: group, summary: "The next nominal times of a schedule", need: auth.Viewer,
	}, func(ctx context.Context, in *struct {
		ScheduleIn
		Limit int `query:"limit" minimum:"1" maximum:"100" default:"10" doc:"the longest page"`
	}) (list[schedule.Time], error) {
		one, err := schedule.Get(ctx, s.client, in.Name)
		if err != nil {
			return list[schedule.Time]{}, err
		}
		times, err := one.Coming(in.Limit)
		return listOf(times, ""), err
	})
	add(s.Server, operation{
		id: "preview-schedule", method: http.MethodPost, path: "/schedule-previews", group: group,
		summary: "The next times of a schedule that is set now; it changes nothing", reads: true,
		need: auth.Viewer,
	}, func(_ context.Context, in *struct{ Body api.ScheduleSpec }) (list[schedule.Time], error) {
		spec, err := specOf(in.Body)
		if err != nil {
			return list[schedule.Time]{}, err
		}
		times, err := schedule.Preview(spec, time.Now(), previewed)
		return listOf(times, ""), err
	})
	add(s.Server, operation{
		id: "set-schedule", method: http.MethodPut, path: "/schedules/{name}", group: group,
		summary: "Create or change a schedule", need: auth.Operator,
	}, func(ctx context.Context, in *struct {
		ScheduleIn
		ReasonIn
		Body api.ScheduleSpec
	}) (schedule.Schedule, error) {
		spec, err := specOf(in.Body)
		if err != nil {
			return schedule.Schedule{}, err
		}
		if err := schedule.Set(ctx, s.client, in.Name, spec, because(ctx, in.Reason)); err != nil {
			return schedule.Schedule{}, err
		}
		return schedule.Get(ctx, s.client, in.Name)
	})
	s.scheduleActs(group)
}

// previewed is the number of times that a preview of a schedule has.
const previewed = 10

func specOf(body api.ScheduleSpec) (spec schedule.Spec, err error) {
	text, err := json.Marshal(body)
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	if err != nil {
		return spec, invalid("the schedule is not valid: " + err.Error())
	}
	return spec, nil
}

var scheduleSummaries = map[string]string{
	"pause": "Pause a schedule", "resume": "Let a paused schedule go on",
}

func (s adminRoutes) scheduleActs(group string) {
	type act = func(context.Context, perdure.Caller, string, schedule.Note) error
	for name, do := range map[string]act{"pause": schedule.Pause, "resume": schedule.Resume} {
		add(s.Server, operation{
			id: name + "-schedule", method: http.MethodPost, path: "/schedules/{name}/" + name,
			group: group, summary: scheduleSummaries[name], need: auth.Operator,
		}, func(ctx context.Context, in *scheduleActIn) (Done, error) {
			return Done{true}, do(ctx, s.client, in.Name, because(ctx, in.Body.reason()))
		})
	}
	add(s.Server, operation{
		id: "delete-schedule", method: http.MethodDelete, path: "/schedules/{name}", group: group,
		summary: "Delete a schedule; its runs stay", need: auth.Operator,
	}, func(ctx context.Context, in *struct {
		ScheduleIn
		ReasonIn
	}) (Done, error) {
		return Done{true}, schedule.Delete(ctx, s.client, in.Name, because(ctx, in.Reason))
	})
	add(s.Server, operation{
		id: "run-schedule", method: http.MethodPost, path: "/schedules/{name}/run", group: group,
		summary: "Start a run of a schedule now, beside its times", need: auth.Operator,
	}, func(ctx context.Context, in *scheduleActIn) (StartedID, error) {
		id, err := schedule.RunNow(ctx, s.client, in.Name, because(ctx, in.Body.reason()))
		return StartedID{id}, err
	})
	add(s.Server, operation{
		id: "backfill-schedule", method: http.MethodPost, path: "/schedules/{name}/backfill",
		group: group, summary: "Start the runs of past times that have not started theirs",
		need: auth.Operator,
	}, func(ctx context.Context, in *backfillIn) (Count, error) {
		n, err := schedule.Backfill(ctx, s.client, in.Name, in.Body.From, in.Body.To,
			because(ctx, in.Reason))
		return Count{Count: n}, err
	})
	add(s.Server, operation{
		id: "preview-backfill", method: http.MethodPost,
		path: "/schedules/{name}/backfill/preview", group: group,
		summary: "The times that a backfill would start; it changes nothing", reads: true,
		need: auth.Viewer,
	}, func(ctx context.Context, in *backfillIn) (list[schedule.Planned], error) {
		all, err := schedule.PreviewBackfill(ctx, s.client, in.Name, in.Body.From, in.Body.To)
		return listOf(all, ""), err
	})
}

type backfillIn struct {
	ScheduleIn
	ReasonIn
	Body Period
}

func (s adminRoutes) listSchedules(ctx context.Context, in *struct {
	PageIn
	Workflow string `query:"workflow" maxLength:"255" doc:"those that start it"`
	All      bool   `query:"all" doc:"finished and deleted ones too"`
}) (list[schedule.Schedule], error) {
	about := in.Workflow
	if in.All {
		about += "\x00all"
	}
	after, err := cursorOf(in.Cursor, about)
	if err != nil {
		return list[schedule.Schedule]{}, err
	}
	all, next, err := schedule.List(ctx, s.client, schedule.Query{
		Workflow: in.Workflow, All: in.All, After: after, Limit: in.Limit,
	})
	return listOf(all, cursorText(next, about)), err
}
