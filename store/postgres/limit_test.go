package postgres

import (
	"testing"

	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/store"
)

// A limit that nobody has or waits for leaves no row, also if the one who asked for it had the
// answer to that number from another limit.
//
// spec: R-32
func TestALimitThatNobodyUsesHasNoRow(t *testing.T) {
	s := mustOpen(t, testpg.URL(t), Options{})
	engine := joined(t, s)
	begin := started(t, s, engine, 1)
	run := begin.Changes[0].Run
	asks := func(limit string) store.Change {
		return store.Change{Run: run, Asks: []store.Ask{{Slot: 1, Limit: limit, Max: 1}}}
	}
	for _, c := range []store.Change{
		begin.Changes[0], asks("mail"), asks("other"), {Run: run, Frees: []int64{1}},
	} {
		g := &store.Group{Engine: engine, Now: begin.Now, Changes: []store.Change{c}}
		if err := s.Commit(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	rows := -1
	err := s.pool.QueryRow(t.Context(), "select count(*) from perdure.limits").Scan(&rows)
	if err != nil || rows != 0 {
		t.Errorf("%d limits have rows, %v", rows, err)
	}
}
