package dag_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/store/memory"
)

// The layers in a report are those that the run began with, also if another build has the graph in
// another shape, and whichever client has started the run.
//
// spec: F-3, F-25
func TestAReportHasTheLayersThatTheRunBeganWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := dag.New[int]("g")
		a := dag.Add(old, "a", does(1, nil))
		dag.Add(old, "b", does(1, nil)).After(a)
		dag.Add(old, "c", does(1, nil)).After(a).WaitTimer("long", 10*time.Hour)
		db := memory.New()
		unaware, err := perdure.NewClient(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unaware.Start(t.Context(), "g", []byte("1"),
			perdure.ID("by-name")); err != nil {
			t.Fatal(err)
		}
		eng, end := running(t, db, nil, old)
		if _, err := old.Workflow.Start(t.Context(), eng, 1, perdure.ID("by-type")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		check := func(when string) {
			for _, id := range []string{"by-name", "by-type"} {
				r, err := unaware.Report(t.Context(), id)
				if got := fmt.Sprint(r.Layers); err != nil || got != "[[a] [b c]]" {
					t.Errorf("%s, the layers of %s are %s, %v", when, id, got, err)
				}
			}
		}
		check("as it goes")
		end()
		changed := dag.New[int]("g")
		a = dag.Add(changed, "a", does(1, nil))
		b := dag.Add(changed, "b", does(1, nil)).After(a)
		dag.Add(changed, "c", does(1, nil)).After(b).WaitTimer("long", 10*time.Hour)
		_, end = running(t, db, nil, changed)
		defer end()
		check("after a deploy")
		time.Sleep(20 * time.Hour)
		check("at its end")
	})
}
