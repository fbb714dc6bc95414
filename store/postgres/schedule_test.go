package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/testpg"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// Two nodes, whose clocks differ, have the same schedules. One of them dies. Each nominal time
// starts at most one run, and the schedules go on.
//
// spec: F-12, R-34, B-10
func TestEachTimeOfAScheduleStartsOneRunOnNodesWhoseClocksDiffer(t *testing.T) {
	url := testpg.URL(t)
	job := func() perdure.Definition {
		return perdure.Define("job", func(ctx context.Context, _ struct{}) (int, error) {
			return perdure.Step(ctx, "work", func(context.Context) (int, error) { return 1, nil })
		})
	}
	node := func(behind time.Duration) (*perdure.Engine, *postgres.Store, func()) {
		s, err := postgres.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		of := store.Store(s)
		if behind != 0 {
			of = &skewed{s, behind}
		}
		eng, err := perdure.New(of, perdure.Options{
			Build: "test", IdleTimeout: -1, Logger: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			err = eng.Register(job(), schedule.Workflow())
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- eng.Run(ctx) }()
		return eng, s, func() { stop(); <-done; _ = s.Close() }
	}
	first, dies, end := node(0)
	defer end()
	second, _, stop := node(3 * time.Second)
	defer stop()
	for i, overlap := range []schedule.Overlap{schedule.Skip, schedule.Allow, schedule.Buffer} {
		for n, eng := range []*perdure.Engine{first, second} {
			err := schedule.Set(t.Context(), eng, fmt.Sprint("s", i, "-", n), schedule.Spec{
				Workflow: "job", Cron: "* * * * * *", Overlap: overlap, CatchUp: schedule.All,
			}, schedule.Note{})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := startedOnce(t, second, 30); n < 30 {
		t.Errorf("%d runs", n)
	}
	_ = dies.Close() // it does not leave: as if its process had died
	startedOnce(t, second, 90)
}

// startedOnce waits until the workflow has so many runs, and returns how many it has. A workflow
// ID that two of them have fails the test.
func startedOnce(t *testing.T, c *perdure.Engine, most int) int {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		seen := map[string]bool{}
		q := perdure.Query{Workflow: "job", Limit: 1000}
		heads, _, err := c.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range heads {
			if seen[h.WorkflowID] {
				t.Fatalf("%s has started twice", h.WorkflowID)
			}
			seen[h.WorkflowID] = true
		}
		if len(seen) >= most {
			return len(seen)
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
	}
}
