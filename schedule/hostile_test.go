package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/schedule"
)

// Anybody may send a signal to the run of a schedule.
//
// spec: B-10
func TestAMessageThatIsNoValidChangeChangesNothing(t *testing.T) {
	inTime(t, func(b bench) {
		b.set("s", schedule.Spec{Workflow: "job", Every: time.Hour, InitialDelay: time.Hour})
		send := func(payload string) {
			t.Helper()
			_, err := b.Engine.Send(b.t.Context(), "perdure.schedule:s", "perdure.schedule",
				[]byte(payload))
			world.NoError(b.t, err)
		}
		for _, spec := range []string{
			`{"workflow":"job","every":"1ns"}`, `{"workflow":"job","every":"-1h"}`,
			`{"workflow":"job"}`, `{"every":"1h"}`, `{"workflow":"perdure.schedule","every":"1h"}`,
			`{"workflow":"job","every":"1h","overlap":"often"}`,
		} {
			for _, what := range []string{"set", "declare"} {
				send(fmt.Sprintf(`{%q:%s}`, what, spec))
			}
		}
		send(`7`)
		send(`"s"`)
		if s := b.get("s"); s.Revision != 1 {
			t.Errorf("before they are taken in: %+v", s.Spec)
		}
		time.Sleep(150 * time.Minute)
		b.ran("s", "01 01:00 02:00")
		if s := b.get("s"); s.Revision != 1 || s.Spec.Every != time.Hour || s.Status != "active" {
			t.Errorf("afterwards: %s, %+v", s.Status, s.Spec)
		}
		send(`{"set":{"workflow":"job","every":"2h"}}`)
		time.Sleep(time.Minute)
		if s := b.get("s"); s.Spec.Overlap != schedule.Skip || s.Spec.CatchUp != schedule.Last {
			t.Errorf("a spec without its defaults: %+v", s.Spec)
		}
	}, job("job", time.Second))
}

// A backfill that was asked for by a signal ends too.
//
// spec: B-10
func TestABackfillStartsAtMostTenThousandRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts 10,000 runs")
	}
	inTime(t, func(b bench) {
		b.set("s", schedule.Spec{Workflow: "job", Cron: "* * * * *"})
		_, err := b.Engine.Send(b.t.Context(), "perdure.schedule:s", "perdure.schedule",
			[]byte(`{"backfill":{"from":"0001-01-01T00:00:00Z","to":"9999-01-01T00:00:00Z"}}`))
		world.NoError(b.t, err)
		time.Sleep(24 * time.Hour)
		s := b.get("s")
		if filled := s.Started - 24*60; len(s.Backfills) > 0 || filled < 9_000 || filled > 10_000 {
			t.Errorf("%d runs of the backfill, and %+v goes on", filled, s.Backfills)
		}
	}, job("job", time.Second))
}

// A schedule that was deleted has left its runs, and the next one of its name starts none of them
// again.
//
// spec: F-12, B-10
func TestATimeThatADeletedScheduleHasStartedDoesNotStartAgain(t *testing.T) {
	inTime(t, func(b bench) {
		ctx, day := b.t.Context(), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		spec := schedule.Spec{Workflow: "job", Cron: "0 * * * *"}
		b.set("s", spec)
		time.Sleep(150 * time.Minute)
		world.NoError(t, schedule.Delete(ctx, b.Engine, "s", schedule.Note{}))
		time.Sleep(50 * time.Hour)
		b.set("s", spec)
		time.Sleep(time.Minute)
		n := world.Must[int](t)(schedule.Backfill(ctx, b.Engine, "s", day, day.Add(4*time.Hour),
			schedule.Note{}))
		time.Sleep(10 * time.Minute)
		b.ran("s", "01 01:00 02:00 00:00 03:00 04:00")
		if n != 3 {
			t.Errorf("%d runs are asked for, want 3", n)
		}
	}, job("job", time.Second))
}
