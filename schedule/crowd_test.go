package schedule_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

// Schedules that wait for their times are rows of the store: the engine owns none of them, has no
// timer for each, and does not ask for them.
//
// spec: R-34, B-10
func TestSchedulesCostNothingWhileNothingIsDue(t *testing.T) {
	n := 30_000
	if testing.Short() {
		n = 5000
	}
	synctest.Test(t, func(t *testing.T) {
		var calls *storetest.Faulty // counts them
		w := &world.World{T: t, DB: memory.New()}
		w.Workflows = []perdure.Definition{job("job", time.Second), schedule.Workflow()}
		w.Options.Build = "test"
		w.Wrap = func(below store.Store) store.Store {
			calls = storetest.NewFaulty(below)
			return calls
		}
		w.Begin()
		b := bench{w, t}
		for i := range n {
			spec := schedule.Spec{Workflow: "job", Cron: "0 0 1 1 *"}
			if i%(n/10) == 0 {
				spec.Cron = "0 12 * * *"
			}
			b.set(fmt.Sprint("s", i), spec)
		}
		time.Sleep(5 * time.Second)
		heads, _, err := w.DB.Find(t.Context(), store.Filter{Owner: 1, Limit: 10})
		if world.NoError(t, err); len(heads) > 0 {
			t.Errorf("the engine owns %d of them", len(heads))
		}
		asked := calls.Calls(storetest.Any)
		time.Sleep(time.Hour)
		if asked = calls.Calls(storetest.Any) - asked; asked > 200 { // sweeps, each 30 s
			t.Errorf("the store was asked %d times in an hour", asked)
		}
		time.Sleep(12 * time.Hour)
		started := 0
		for i := 0; i < n; i += n / 10 {
			started += len(b.heads(fmt.Sprint("s", i)))
		}
		if started != 10 {
			t.Errorf("%d runs were started, want 10", started)
		}
		w.End()
	})
}

// A schedule that has started many runs has a short journal, and its earlier runs are removed, and
// so are those that it has started.
//
// spec: R-34
func TestALongLivedScheduleStaysSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{
			CleanUp: time.Hour, Retention: perdure.Retention{Period: time.Hour},
		}, job("job", time.Second), schedule.Workflow())
		b := bench{w, t}
		b.set("s", schedule.Spec{Workflow: "job", Cron: "*/5 * * * *"})
		time.Sleep(7*24*time.Hour + 31*time.Minute)
		if s := b.get("s"); s.Started != 7*24*12+6 {
			t.Errorf("it has started %d runs", s.Started)
		}
		if n := len(b.History("perdure.schedule:s")); n > 120 {
			t.Errorf("its journal has %d entries", n)
		}
		heads, _, err := w.DB.Find(b.t.Context(), store.Filter{
			Workflow: "perdure.schedule", Statuses: []journal.Status{journal.ContinuedAsNew},
			Limit: 1000,
		})
		if world.NoError(t, err); len(heads) > 30 {
			t.Errorf("%d earlier runs of it are kept", len(heads))
		}
		if n := len(b.heads("s")); n > 330 { // a day keeps their workflow IDs
			t.Errorf("%d of the runs that it has started are kept", n)
		}
		w.End()
	})
}
