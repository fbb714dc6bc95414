package operators

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// again ends the engine and begins another one on the same store, as a later build or
// another service would.
func again(w *world.World, o perdure.Options, workflows ...perdure.Definition) {
	w.T.Helper()
	w.End()
	o.Build = "another"
	w.Options, w.Workflows = o, workflows
	w.Begin()
}

func keeping(d time.Duration) perdure.Options {
	return perdure.Options{Retention: perdure.Retention{Period: d}, CleanUp: -1}
}

// An engine leaves runs alone whose workflow it does not have: their retention is another
// program's.
//
// spec: P-3
func TestRetentionIsOfWhoKnowsTheWorkflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger, other := endingAs("ledger", perdure.Retention{Period: -1}), endingAs("other")
		w := world.With(t, keeping(time.Hour), ledger, other)
		defer func() { w.End() }()
		world.StartAndSettle(w, ledger, "complete", perdure.ID("for-ever"), perdure.Dedup(0))
		world.StartAndSettle(w, other, "complete", perdure.ID("for-an-hour"), perdure.Dedup(0))
		time.Sleep(time.Minute)
		again(w, keeping(time.Minute), endingAs("unrelated"))
		time.Sleep(58 * time.Minute)
		w.Purged(0)
		time.Sleep(2 * time.Minute)
		w.Purged(1)
		if got := left(t, w); !slices.Equal(got, []string{"for-ever"}) {
			t.Errorf("left: %v", got)
		}
	})
}

// A run is kept as long as was said at its start, whatever is said later, also where it
// is unloaded and goes on with another build.
//
// spec: P-3
func TestRetentionIsThatOfTheStart(t *testing.T) {
	world.EachIdleTimeout(t, func(t *testing.T, o perdure.Options) {
		o.CleanUp, o.Retention = -1, perdure.Retention{Period: time.Hour}
		open := endingAs("open")
		w := world.With(t, o, open)
		defer func() { w.End() }()
		for i := range 3 {
			if _, err := w.Engine.Start(context.Background(), "open", []byte(`"stay"`),
				perdure.ID(fmt.Sprint("old", i)), perdure.Dedup(0)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		again(w, keeping(24*time.Hour), open)
		if _, err := w.Engine.Start(context.Background(), "open", []byte(`"stay"`),
			perdure.ID("new"),
			perdure.Dedup(0)); err != nil {
			t.Fatal(err)
		}
		for _, id := range left(t, w) {
			if _, err := world.GoSignal.Send(context.Background(), w.Engine, id, 1); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour - time.Second)
		w.Purged(0)
		time.Sleep(2 * time.Second)
		w.Purged(3)
		time.Sleep(23 * time.Hour)
		w.Purged(1)
	})
}

// A run that was started by a client that does not have its workflow gets the retention of the
// first engine that claims it and has the workflow.
//
// spec: P-3
func TestRetentionOfWhatClientsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, keeping(time.Minute), endingAs("unrelated"))
		defer func() { w.End() }()
		client, err := perdure.NewClient(t.Context(), w.DB.Beside())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Start(context.Background(), "late", []byte(`"complete"`),
			perdure.ID("by-a-client"), perdure.Dedup(0)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Engine.Start(context.Background(), "late", []byte(`"complete"`),
			perdure.ID("by-an-engine"), perdure.Dedup(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		again(w, keeping(2*time.Hour), endingAs("late"))
		time.Sleep(time.Minute)
		again(w, keeping(time.Minute), endingAs("unrelated"))
		time.Sleep(time.Hour + 58*time.Minute)
		w.Purged(0)
		time.Sleep(2 * time.Minute)
		w.Purged(2)
	})
}

// A clean-up that fails is reported, and tried again at its next time.
//
// spec: P-3
func TestFailedCleanUpIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{endingAs("w")},
			Options: perdure.Options{Build: "test"}}
		w.Wrap = func(s store.Store) store.Store {
			return storetest.NewFaulty(s, storetest.Plan{
				Method: storetest.Purge, Call: 2, Fault: storetest.FailBefore,
			})
		}
		w.Begin()
		defer w.End()
		time.Sleep(10*time.Hour + time.Minute)
		told := w.Seen(observe.PurgeFailed)
		if len(told) != 1 || told[0].Err == "" {
			t.Errorf("told: %+v", told)
		}
	})
}
