package schedule_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store/memory"
)

// spec: F-12, R-34
func TestABadSpecIsRefusedWithTheAllowedValues(t *testing.T) {
	for _, c := range []struct {
		spec schedule.Spec
		want string
	}{
		{schedule.Spec{}, `workflow "" is not valid`},
		{schedule.Spec{Workflow: "job"}, "cron, every and after"},
		{schedule.Spec{Workflow: "job", Cron: "@daily", Every: time.Hour}, "cron, every and after"},
		{schedule.Spec{Workflow: "job", Cron: "0 0 30 2 *"}, "no day fits"},
		{schedule.Spec{Workflow: "job", Cron: "61 * * * *"}, "allowed are 0 to 59"},
		{schedule.Spec{Workflow: "job", Cron: strings.Repeat("0,", 1<<20)}, "at most 1000"},
		{schedule.Spec{Workflow: "job", Cron: "\xff * * * *"}, "allowed are 0 to 59"},
		{schedule.Spec{Workflow: "job", Cron: "@daily", Zone: "Mars/Base"}, "no time zone"},
		{schedule.Spec{Workflow: "job", Cron: "@daily", Zone: "../../etc/passwd"}, "no time zone"},
		{schedule.Spec{Workflow: "job", Every: time.Hour, Zone: "UTC"}, "for a cron expression"},
		{schedule.Spec{Workflow: "job", Every: -time.Hour}, "allowed are 1s to"},
		{schedule.Spec{Workflow: "job", Every: time.Millisecond}, "allowed are 1s to"},
		{schedule.Spec{Workflow: "job", After: 1 << 62}, "allowed are 1s to"},
		{schedule.Spec{Workflow: "job", Every: time.Hour, Jitter: -1}, "allowed are 0s to"},
		{schedule.Spec{Workflow: "job", Every: time.Hour, Window: -1}, "allowed are 0s to"},
		{schedule.Spec{Workflow: "job", Every: time.Hour, InitialDelay: -1}, "allowed are 0s to"},
		{schedule.Spec{Workflow: "job", Every: time.Hour, Overlap: "x"}, "allowed are skip, allow"},
		{schedule.Spec{Workflow: "job", Every: time.Hour, CatchUp: "x"}, "allowed are last, none"},
		{schedule.Spec{Workflow: "job", After: time.Hour, Overlap: schedule.Allow}, "with a delay"},
		{schedule.Spec{Workflow: "job", Every: time.Hour, Times: -1}, "allowed are 0 (no limit)"},
		{schedule.Spec{Workflow: "job", Every: time.Hour, Input: []byte("{")}, "not JSON"},
		{schedule.Spec{Workflow: "perdure.x", Every: time.Hour}, "perdure."},
		{schedule.Spec{
			Workflow: "job", Every: time.Hour, Headers: map[string]string{"perdure:x": "1"},
		}, "reserved"},
		{schedule.Spec{
			Workflow: "job", Every: time.Hour, Attributes: map[string]string{"a b": "1"},
		}, "is not valid"},
		{schedule.Spec{
			Workflow: "job", Every: time.Hour,
			Attributes: map[string]string{"perdure.schedule": "other"},
		}, "is reserved"},
	} {
		err := c.spec.Check()
		if journal.CodeOf(err) != journal.CodeInvalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
		}
	}
	good := schedule.Spec{Workflow: "job", Cron: "0 0 30 2,3 *", Zone: "Europe/Berlin"}
	world.NoError(t, good.Check())
}

func TestAChangeOfABadNameOrForNoEngineIsRefused(t *testing.T) {
	ctx, by := t.Context(), schedule.Note{}
	spec := schedule.Spec{Workflow: "job", Every: time.Hour}
	eng := world.Must[*perdure.Engine](t)(perdure.New(memory.New(), perdure.Options{}))
	world.CodeIs(t, schedule.Set(ctx, eng, "s", spec, by), journal.CodeUnregistered)
	world.CodeIs(t, schedule.Set(ctx, nil, "s", spec, by), journal.CodeInvalid)
	world.CodeIs(t, schedule.Set(ctx, (*perdure.Engine)(nil), "s", spec, by), journal.CodeInvalid)
	client := world.Must[*perdure.Client](t)(perdure.NewClient(ctx, memory.New(),
		perdure.Define("job", func(context.Context, int) (int, error) { return 0, nil })))
	for _, name := range []string{"", "a b", "\xff", strings.Repeat("n", 201)} {
		world.CodeIs(t, schedule.Set(ctx, client, name, spec, by), journal.CodeInvalid)
		_, err := schedule.Get(ctx, client, name)
		world.CodeIs(t, err, journal.CodeInvalid)
	}
	// the workflow is known here, and its input is a number
	world.CodeIs(t, schedule.Set(ctx, client, "s", spec, by), journal.CodeInvalid)
	spec.Input = json.RawMessage("1")
	world.NoError(t, schedule.Set(ctx, client, "s", spec, by))
	s := world.Must[schedule.Schedule](t)(schedule.Get(ctx, client, "s"))
	if s.Status != schedule.Active || s.Next == nil {
		t.Errorf("a client reads %+v, not what it has set", s)
	}
	world.NoError(t, schedule.Pause(ctx, client, "s", by))
	s = world.Must[schedule.Schedule](t)(schedule.Get(ctx, client, "s"))
	if s.Status != schedule.Paused {
		t.Errorf("a client reads %+v, not that it is paused", s)
	}
	world.NoError(t, schedule.Resume(ctx, client, "s", by))
	day := time.Now().Add(-24 * time.Hour)
	_, err := schedule.PreviewBackfill(ctx, client, "s", day, day.Add(-1))
	world.CodeIs(t, err, journal.CodeInvalid)
	_, err = schedule.PreviewBackfill(ctx, client, "s", day.AddDate(-9, 0, 0), day)
	world.CodeIs(t, err, journal.CodeInvalid)
	_, err = schedule.Preview(spec, day, 0)
	world.CodeIs(t, err, journal.CodeInvalid)
	eng = world.Must[*perdure.Engine](t)(perdure.New(memory.New(), perdure.Options{}))
	err = eng.Register(perdure.Define("job", func(context.Context, int) (int, error) {
		return 0, nil
	}, schedule.Declare("s", schedule.Spec{Cron: "nonsense"})))
	if code := journal.CodeOf(err); code != journal.CodeInvalid {
		t.Errorf("%v: the code is %v", err, code)
	}
}

// spec: B-10
func TestJitterFollowsFromTheNameAndIsNeverLongerThanTheGap(t *testing.T) {
	inTime(t, func(b bench) {
		for _, name := range []string{"a", "b", "c", "d"} {
			b.set(name, schedule.Spec{Workflow: "job", Cron: "*/10 * * * *", Jitter: time.Hour})
		}
		time.Sleep(24 * time.Hour)
		delays := map[time.Duration]bool{}
		for _, name := range []string{"a", "b", "c", "d"} {
			if n := b.get(name).Missed; n > 0 {
				t.Errorf("schedule %s has missed %d times", name, n)
			}
			for _, h := range b.heads(name) {
				_, text, _ := strings.Cut(h.WorkflowID, "@")
				at := world.Must[time.Time](t)(time.Parse(time.RFC3339, text))
				d := h.Created.Sub(at)
				if delays[d] = true; d < 0 || d > 10*time.Minute {
					t.Errorf("%s is delayed by %v", h.WorkflowID, d)
				}
			}
		}
		if len(delays) < 500 {
			t.Errorf("only %d delays differ", len(delays))
		}
	}, job("job", time.Second))
}
