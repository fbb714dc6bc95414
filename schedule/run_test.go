package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
)

// job returns a workflow of that name whose runs last that long.
func job(name string, d time.Duration) *perdure.Workflow[map[string]int, int] {
	return perdure.Define(name, func(ctx context.Context, _ map[string]int) (int, error) {
		return 0, perdure.Sleep(ctx, d)
	})
}

// A bench is a world in virtual time with schedules.
type bench struct {
	*world.World
	t *testing.T
}

// inTime runs a test in virtual time, from 1 January 2000, 00:00 UTC, on.
func inTime(t *testing.T, test func(b bench), workflows ...perdure.Definition) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, append(workflows, schedule.Workflow())...)
		test(bench{w, t})
		w.End()
	})
}

func (b bench) set(name string, spec schedule.Spec) {
	b.t.Helper()
	world.NoError(b.t, schedule.Set(b.t.Context(), b.Engine, name, spec, schedule.Note{By: "ann"}))
}

// get returns a schedule with every change that is durable, also if the schedule has not heard it.
func (b bench) get(name string) schedule.Schedule {
	b.t.Helper()
	return world.Must[schedule.Schedule](b.t)(schedule.Get(b.t.Context(), b.Engine, name))
}

// heads returns the runs of a schedule, oldest first.
func (b bench) heads(name string) (all []journal.Head) {
	b.t.Helper()
	q := perdure.Query{Attributes: map[string]string{"perdure.schedule": name}, Limit: 1000}
	for {
		heads, next, err := b.Engine.List(b.t.Context(), q)
		world.NoError(b.t, err)
		all = append(all, heads...)
		if q.After = next; next.IsZero() {
			slices.Reverse(all)
			return all
		}
	}
}

// ran checks the nominal times of the runs of a schedule, in the order of their starts, as in
// "01 01:00 02:00": a day of the month, and times on it.
func (b bench) ran(name, want string) {
	b.t.Helper()
	var got []string
	day := ""
	for _, h := range b.heads(name) {
		_, text, _ := strings.Cut(h.WorkflowID, "@")
		at, err := time.Parse(time.RFC3339Nano, strings.TrimSuffix(text, "!"))
		world.NoError(b.t, err)
		if d := at.Format("02"); d != day {
			got, day = append(got, d), d
		}
		got = append(got, at.Format("15:04"))
	}
	if strings.Join(got, " ") != want {
		b.t.Errorf("runs at %s, want %s", strings.Join(got, " "), want)
	}
}

// spec: F-12, R-34
func TestAScheduleStartsARunAtEachOfItsTimes(t *testing.T) {
	inTime(t, func(b bench) {
		b.set("cron", schedule.Spec{Workflow: "job", Cron: "0 */6 * * *"})
		b.set("zone", schedule.Spec{Workflow: "job", Cron: "0 0 6 * * *", Zone: "Asia/Tokyo"})
		b.set("every", schedule.Spec{Workflow: "job", Every: 7 * time.Hour})
		b.set("after", schedule.Spec{Workflow: "job", After: 7 * time.Hour})
		b.set("late", schedule.Spec{
			Workflow: "job", Every: 10 * time.Hour, InitialDelay: 5 * time.Hour,
		})
		time.Sleep(24*time.Hour + time.Minute)
		b.ran("cron", "01 06:00 12:00 18:00 02 00:00")
		b.ran("zone", "01 21:00")
		b.ran("every", "01 00:00 07:00 14:00 21:00")
		b.ran("after", "01 00:00 08:00 16:00 02 00:00") // each run lasts an hour
		b.ran("late", "01 05:00 15:00")
		if n := world.Must[int](t)(schedule.Count(b.t.Context(), b.Engine)); n != 5 {
			t.Errorf("%d schedules, want 5", n)
		}
	}, job("job", time.Hour))
}

// spec: R-34, B-10
func TestAnOpenRunCountsAsTheRuleSays(t *testing.T) {
	const all = "01 01:00 02:00 03:00 04:00 05:00 06:00 07:00 08:00"
	for _, c := range []struct {
		overlap schedule.Overlap
		want    string
		missed  int64
		status  journal.Status // of the second run
	}{
		{"", "01 01:00 04:00 07:00", 4, journal.Completed},
		{schedule.Skip, "01 01:00 04:00 07:00", 4, journal.Completed},
		{schedule.Allow, all, 0, journal.Completed},
		{schedule.Buffer, "01 01:00 03:00 06:00 08:00", 4, journal.Completed},
		{schedule.Cancel, all, 0, journal.Cancelled},
	} {
		t.Run(string(c.overlap), func(t *testing.T) {
			inTime(t, func(b bench) {
				b.set("s", schedule.Spec{Workflow: "job", Cron: "0 * * * *", Overlap: c.overlap})
				time.Sleep(8*time.Hour + 45*time.Minute)
				b.ran("s", c.want)
				if n := b.get("s").Missed; n != c.missed {
					t.Errorf("%d times missed, want %d", n, c.missed)
				}
				if h := b.heads("s")[1]; h.Status != c.status {
					t.Errorf("the second run is %v, want %v", h.Status, c.status)
				}
			}, job("job", 150*time.Minute))
		})
	}
}

// spec: R-34, B-10
func TestTimesWithoutAnEngineAreCaughtUp(t *testing.T) {
	for _, c := range []struct {
		catchUp schedule.CatchUp
		window  time.Duration
		overlap schedule.Overlap
		want    string
	}{
		{"", 0, "", "01 01:00 06:00 07:00"},
		{schedule.Last, 20 * time.Minute, "", "01 01:00 07:00"},
		{schedule.Last, 40 * time.Minute, "", "01 01:00 06:00 07:00"},
		{schedule.None, 0, "", "01 01:00 07:00"},
		{schedule.All, 0, "", "01 01:00 02:00 03:00 04:00 05:00 06:00 07:00"},
		{schedule.All, 0, schedule.Allow, "01 01:00 02:00 03:00 04:00 05:00 06:00 07:00"},
		{schedule.All, 3 * time.Hour, "", "01 01:00 04:00 05:00 06:00 07:00"},
	} {
		t.Run(string(c.catchUp)+c.window.String()+string(c.overlap), func(t *testing.T) {
			inTime(t, func(b bench) {
				b.set("s", schedule.Spec{
					Workflow: "job", Cron: "0 * * * *", CatchUp: c.catchUp, Window: c.window,
					Overlap: c.overlap,
				})
				time.Sleep(90 * time.Minute)
				b.Kill()
				time.Sleep(5 * time.Hour)
				b.Begin()
				time.Sleep(time.Hour)
				b.ran("s", c.want)
			}, job("job", 2*time.Minute))
		})
	}
}

// spec: R-34
func TestAScheduleIsPausedAndResumed(t *testing.T) {
	inTime(t, func(b bench) {
		ctx, by := b.t.Context(), schedule.Note{By: "ann", Why: "the bank is down"}
		b.set("s", schedule.Spec{Workflow: "job", Cron: "0 * * * *"})
		time.Sleep(150 * time.Minute)
		world.CodeIs(t, schedule.Resume(ctx, b.Engine, "s", by), journal.CodeWrongState)
		world.NoError(t, schedule.Pause(ctx, b.Engine, "s", by))
		s := b.get("s")
		if s.Status != schedule.Paused || s.Paused.Note != by || s.Next != nil {
			t.Errorf("it is %+v", s)
		}
		time.Sleep(4 * time.Hour)
		id := world.Must[string](t)(schedule.RunNow(ctx, b.Engine, "s", by))
		time.Sleep(time.Minute)
		if h := b.heads("s"); h[len(h)-1].WorkflowID != id {
			t.Errorf("the newest run is %s, want %s", h[len(h)-1].WorkflowID, id)
		}
		world.NoError(t, schedule.Resume(ctx, b.Engine, "s", by))
		time.Sleep(time.Hour)
		b.ran("s", "01 01:00 02:00 06:30 07:00")
		world.NoError(t, schedule.Delete(ctx, b.Engine, "s", by))
		time.Sleep(2 * time.Hour)
		b.ran("s", "01 01:00 02:00 06:30 07:00")
		if s := b.get("s"); s.Status != schedule.Deleted {
			t.Errorf("it is %s", s.Status)
		}
		world.CodeIs(t, schedule.Pause(ctx, b.Engine, "s", by), journal.CodeWrongState)
		world.CodeIs(t, schedule.Pause(ctx, b.Engine, "unknown", by), journal.CodeNotFound)
		b.set("s", schedule.Spec{Workflow: "job", Cron: "30 * * * *"})
		time.Sleep(time.Hour)
		b.ran("s", "01 01:00 02:00 06:30 07:00 10:30")
	}, job("job", time.Second))
}

// spec: R-34, B-10
func TestAChangedScheduleBeginsWithItsNextFutureTime(t *testing.T) {
	inTime(t, func(b bench) {
		b.set("s", schedule.Spec{Workflow: "job", Every: time.Hour})
		time.Sleep(150 * time.Minute)
		b.set("s", schedule.Spec{Workflow: "job", Every: 20 * time.Minute})
		time.Sleep(time.Hour)
		b.ran("s", "01 00:00 01:00 02:00 02:40 03:00 03:20")
		b.set("s", schedule.Spec{Workflow: "job", Cron: "15 * * * *", Times: 2})
		time.Sleep(5 * time.Hour)
		b.ran("s", "01 00:00 01:00 02:00 02:40 03:00 03:20 04:15 05:15")
		if s := b.get("s"); s.Status != schedule.Finished || s.Revision != 3 {
			t.Errorf("it is %s, revision %d", s.Status, s.Revision)
		}
	}, job("job", time.Second))
}

// spec: F-12
func TestAFailingRunDoesNotStopItsSchedule(t *testing.T) {
	failing := perdure.Define("failing", func(context.Context, struct{}) (int, error) {
		return 0, errors.New("no")
	})
	inTime(t, func(b bench) {
		b.set("s", schedule.Spec{Workflow: "failing", Cron: "0 * * * *"})
		b.set("unknown", schedule.Spec{Workflow: "not-there", Cron: "0 * * * *"})
		time.Sleep(200 * time.Minute)
		b.ran("s", "01 01:00 02:00 03:00")
		b.ran("unknown", "01 01:00")
		s := b.get("s")
		if s.Previous == nil || s.Previous.Status != "FAILED" || s.Success != nil {
			t.Errorf("previous %+v, success %+v", s.Previous, s.Success)
		}
	}, failing)
}

// spec: B-10
func TestABackfillStartsTheMissingTimesOnly(t *testing.T) {
	for _, overlap := range []schedule.Overlap{schedule.Skip, schedule.Allow} {
		inTime(t, func(b bench) {
			ctx, day := b.t.Context(), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			b.set("s", schedule.Spec{Workflow: "job", Cron: "0 * * * *", Overlap: overlap})
			time.Sleep(150 * time.Minute)
			world.NoError(t, schedule.Pause(ctx, b.Engine, "s", schedule.Note{}))
			time.Sleep(3 * time.Hour)
			world.NoError(t, schedule.Resume(ctx, b.Engine, "s", schedule.Note{}))
			time.Sleep(time.Hour)
			from, to := day.Add(-2*time.Hour), day.Add(4*time.Hour)
			all := world.Must[[]schedule.Planned](t)(schedule.PreviewBackfill(ctx, b.Engine, "s",
				from, to))
			started := 0
			for _, p := range all {
				if p.Started {
					started++
				}
			}
			if len(all) != 7 || started != 2 {
				t.Errorf("planned %+v", all)
			}
			fill := func() int {
				return world.Must[int](t)(schedule.Backfill(ctx, b.Engine, "s", from, to,
					schedule.Note{}))
			}
			n := fill()
			if n != 5 {
				t.Errorf("%d runs are asked for, want 5", n)
			}
			time.Sleep(10 * time.Minute)
			want := "01 01:00 02:00 06:00 31 22:00 23:00 01 00:00 03:00 04:00"
			b.ran("s", want)
			n = fill()
			time.Sleep(10 * time.Minute)
			b.ran("s", want)
			if n != 0 || len(b.get("s").Backfills) != 0 {
				t.Errorf("%d runs are asked for, and backfills %v go on", n, b.get("s").Backfills)
			}
		}, job("job", time.Second))
	}
}

// spec: R-36
func TestARunReadsItsTimesAndThoseOfItsPredecessor(t *testing.T) {
	type seen struct{ time, previous, success time.Time }
	var mu sync.Mutex
	var all []seen
	fails := map[int]bool{2: true}
	poll := perdure.Define("poll", func(ctx context.Context, _ struct{}) (int, error) {
		return perdure.Step(ctx, "poll", func(ctx context.Context) (int, error) {
			times, is, err := schedule.TimesOf(ctx)
			if err != nil || !is {
				t.Error("no times:", is, err)
			}
			s := seen{time: times.Time}
			if times.Previous != nil {
				s.previous = times.Previous.Time
			}
			if times.Success != nil {
				s.success = times.Success.Time
			}
			mu.Lock()
			defer mu.Unlock()
			if all = append(all, s); fails[len(all)] {
				return 0, errors.New("no")
			}
			return len(all), nil
		}, perdure.NoRetry)
	})
	for _, overlap := range []schedule.Overlap{schedule.Skip, schedule.Allow} {
		all = nil
		inTime(t, func(b bench) {
			b.set("s", schedule.Spec{Workflow: "poll", Cron: "0 * * * *", Overlap: overlap})
			time.Sleep(200 * time.Minute)
			at := func(hour int) time.Time { return time.Date(2000, 1, 1, hour, 0, 0, 0, time.UTC) }
			never := time.Time{}
			want := []seen{{at(1), never, never}, {at(2), at(1), at(1)}, {at(3), at(2), at(1)}}
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(all, want) {
				t.Errorf("%s: seen %v, want %v", overlap, all, want)
			}
			run := b.heads("s")[0]
			d := b.Describe(string(run.ID))
			if len(d.State.Attributes) != 1 {
				t.Errorf("attributes %v", d.State.Attributes)
			}
		}, poll)
	}
}

// A change is in the inbox of the schedule's run, then in its journal. Who reads meanwhile must see
// it in one of them.
//
// spec: F-12
func TestAChangeIsSeenAtOnceWhileTheScheduleTakesItIn(t *testing.T) {
	inTime(t, func(b bench) {
		b.set("a", schedule.Spec{Workflow: "job", Every: time.Hour})
		for range 100 {
			world.NoError(b.t, schedule.Pause(b.t.Context(), b.Engine, "a", schedule.Note{}))
			if s := b.get("a"); s.Paused == nil {
				b.t.Fatal("it is not paused")
			}
			world.NoError(b.t, schedule.Resume(b.t.Context(), b.Engine, "a", schedule.Note{}))
			if s := b.get("a"); s.Paused != nil {
				b.t.Fatal("it is paused")
			}
		}
	}, job("job", time.Second))
}

// spec: F-12, B-10
func TestADeclaredScheduleKeepsWhatAnOperatorHasChanged(t *testing.T) {
	code := func(cron string) perdure.Definition {
		return perdure.Define("job", func(context.Context, struct{}) (int, error) { return 0, nil },
			schedule.Declare("a", schedule.Spec{Cron: cron}),
			schedule.Declare("b", schedule.Spec{Every: 24 * time.Hour}))
	}
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, code("0 * * * *"))
		b := bench{w, t}
		deploy := func(cron string) {
			w.Deploy("build "+cron, code(cron))
			time.Sleep(time.Second)
		}
		is := func(cron string, revision int) {
			t.Helper()
			s := b.get("a")
			if s.Spec.Cron != cron || s.Revision != revision {
				t.Errorf("%s, revision %d; want %s, revision %d", s.Spec.Cron, s.Revision, cron,
					revision)
			}
		}
		time.Sleep(90 * time.Minute)
		b.ran("a", "01 01:00")
		b.ran("b", "01 00:00")
		deploy("0 * * * *") // the same: nothing changes
		is("0 * * * *", 1)
		deploy("1 * * * *")
		is("1 * * * *", 2)
		b.set("a", schedule.Spec{Workflow: "job", Cron: "2 * * * *"})
		is("2 * * * *", 3)
		deploy("3 * * * *")
		is("2 * * * *", 3)
		if s := b.get("a"); s.Declared == nil || s.Declared.Cron != "3 * * * *" {
			t.Errorf("declared %+v", s.Declared)
		}
		b.set("a", *b.get("a").Declared)
		is("3 * * * *", 4)
		deploy("4 * * * *")
		is("4 * * * *", 5)
		world.NoError(t, schedule.Delete(t.Context(), w.Engine, "a", schedule.Note{}))
		time.Sleep(time.Second)
		deploy("4 * * * *")
		is("4 * * * *", 1)
		w.End()
	})
}

// The run of a schedule ends on a node that does not have schedules, while no other node is there.
// The times after its end are not times of an open run: the rule for late times counts for them.
//
// spec: R-34
func TestTimesAfterTheEndOfARunCountAsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := job("long", 25*time.Minute)
		c := world.NewCluster(t, 1, long, schedule.Workflow())
		defer c.End()
		c.Node(long).Begin()
		first := c.Nodes[0]
		world.NoError(t, schedule.Set(t.Context(), first.Engine, "s", schedule.Spec{
			Workflow: "long", Cron: "*/10 * * * *",
		}, schedule.Note{}))
		time.Sleep(15 * time.Minute) // the run of 00:10 goes on
		c.Kill(first)
		time.Sleep(50 * time.Minute) // it ends at 00:35
		first.Begin()
		time.Sleep(time.Minute)
		s := world.Must[schedule.Schedule](t)(schedule.Get(t.Context(), first.Engine, "s"))
		var misses []string
		for _, m := range s.Misses {
			to := m.To.Format("15:04")
			misses = append(misses, fmt.Sprintf("%d until %s: %s", m.N, to, m.Why))
		}
		want := []string{
			"2 until 00:30: a run of the schedule was open",
			"2 until 00:50: no engine had the schedule at the time",
		}
		if !slices.Equal(misses, want) || s.Open == nil || s.Open.Time.Format("15:04") != "01:00" {
			t.Errorf("missed %q, open %+v", misses, s.Open)
		}
	})
}
