package patterns

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/report"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tcc"
)

// A journey observes runs in progress, and notes the statuses that it has seen.
type journey struct {
	*world.World
	runs  map[journal.Status]bool
	steps map[journal.StepStatus]bool
}

// look notes the current statuses of a run; steps are read by name, too.
func (s *journey) look(id string, steps ...string) report.Run {
	s.T.Helper()
	r, err := s.Engine.Report(context.Background(), id)
	if err != nil {
		s.T.Fatal(err)
	}
	s.runs[r.Status] = true
	for _, step := range r.Steps {
		s.steps[step.Status] = true
	}
	for _, id := range steps {
		one, _ := r.Step(id)
		s.steps[one.Status] = true
	}
	return r
}

// follow looks at a run twice a second until it has ended or done returns true.
func (s *journey) follow(id string, done func(report.Run) bool) {
	s.T.Helper()
	for range 10_000 {
		if r := s.look(id, "last"); r.Status.IsTerminal() || done != nil && done(r) {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	s.T.Fatalf("%s does not end", id)
}

// unhurried returns a body of a step that takes a second, and then fails if fails is true.
func unhurried[A any](fails bool) func(context.Context, A) (int, error) {
	return func(ctx context.Context, _ A) (int, error) {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		if fails {
			return 0, world.ErrOdd
		}
		return 1, nil
	}
}

func orderOf(name string, undoFails bool) *saga.Saga[int] {
	s := saga.New[int](name)
	a := saga.Add(s, "a", unhurried[int](false)).Undo(func(ctx context.Context, in, _ int) error {
		_, err := unhurried[int](undoFails)(ctx, in)
		return err
	})
	saga.Add(s, "last", unhurried[int](true)).After(a).
		Retry(perdure.Retry{Attempts: 2, First: 3 * time.Second})
	return s
}

func transferOf(name string, fails ...perdure.Phase) *tcc.TCC[int] {
	t := tcc.New[int](name).Retry(perdure.NoRetry)
	for _, id := range []string{"a", "last"} {
		then := func(phase perdure.Phase) func(context.Context, int, int) error {
			return func(ctx context.Context, in, _ int) error {
				_, err := unhurried[int](slices.Contains(fails, phase))(ctx, in)
				return err
			}
		}
		tcc.Add(t, id, unhurried[int](id == "last" && slices.Contains(fails, perdure.PhaseTry))).
			Confirm(then(perdure.PhaseConfirm)).Cancel(then(perdure.PhaseCancel))
	}
	return t
}

// Every status that a run or a step may have is reached by some run, as its report shows.
//
// spec: F-1, F-3, F-7
func TestEveryStatusIsReached(t *testing.T) {
	undone, stuck := orderOf("undone", false), orderOf("stuck", true).ParkOnUndoError()
	good, refused := transferOf("good"), transferOf("refused", perdure.PhaseTry)
	broken := transferOf("broken", perdure.PhaseConfirm, perdure.PhaseCancel)
	graph := dag.New[int]("graph", perdure.NoRetry)
	first := dag.Add(graph, "first", unhurried[struct{}](false))
	no := pattern.If(func(context.Context, pattern.View) (bool, error) { return false, nil })
	dag.Add(graph, "skipped", unhurried[struct{}](false)).When(no)
	dag.Add(graph, "aside", func(ctx context.Context, _ struct{}) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}).Async()
	dag.Add(graph, "late", unhurried[struct{}](false)).Timeout(100 * time.Millisecond).Async()
	dag.Add(graph, "last", unhurried[struct{}](false)).After(first).WaitSignal("go", 0)
	again := dag.New[int]("again").Again(func(k pattern.View) (int, bool) {
		return 2, string(k.Input) == "1"
	})
	dag.Add(again, "last", unhurried[struct{}](false))
	own := perdure.Define("own", func(ctx context.Context, _ int) (int, error) {
		return 0, pattern.End(ctx, journal.Compensated, 0, world.ErrOdd)
	})
	naps := perdure.Define("naps", func(ctx context.Context, _ int) (int, error) {
		return 0, perdure.Sleep(ctx, time.Hour)
	}, perdure.Timeout(time.Minute))

	synctest.Test(t, func(t *testing.T) {
		ctx, db := context.Background(), memory.New()
		s := &journey{&world.World{T: t, DB: db,
			Workflows: []perdure.Definition{
				undone, stuck, good, refused, broken, graph, again, own, naps,
			}},
			map[journal.Status]bool{}, map[journal.StepStatus]bool{}}
		client, err := perdure.NewClient(ctx, db)
		if err == nil {
			_, err = naps.Start(ctx, client, 1, perdure.ID("times-out"))
		}
		if err != nil {
			t.Fatal(err)
		}
		all, err := client.Statuses(ctx, "times-out")
		if err != nil {
			t.Fatal(err)
		}
		s.runs[all[0].Head.Status] = true // no engine has taken it yet
		s.Begin()
		defer func() { s.End() }()
		s.follow("times-out", nil)
		start := func(id string, begin func() error) {
			if err := begin(); err != nil {
				t.Fatal(id, err)
			}
		}
		start("undone", func() error {
			_, err := undone.Start(ctx, s.Engine, 1, perdure.ID("undone"))
			return err
		})
		s.follow("undone", nil)
		start("stuck", func() error {
			_, err := stuck.Start(ctx, s.Engine, 1, perdure.ID("stuck"))
			return err
		})
		s.follow("stuck", func(r report.Run) bool { return r.Status == journal.CompensationFailed })
		world.NoError(t, s.Engine.Decide(ctx, "stuck", "undo:a", perdure.Decision{Choice: "skip"}))
		s.follow("stuck", nil)
		for id, def := range map[string]*tcc.TCC[int]{
			"good":    good,
			"refused": refused,
			"broken":  broken,
		} {
			start(id, func() error {
				_, err := def.Start(ctx, s.Engine, 1, perdure.ID(id))
				return err
			})
			s.follow(id, nil)
		}
		start("graph", func() error {
			_, err := graph.Workflow.Start(ctx, s.Engine, 1, perdure.ID("graph"))
			return err
		})
		s.follow("graph", func(r report.Run) bool {
			first, _ := r.Step("first")
			return first.Status == journal.StepIsDone
		})
		world.NoError(t, s.Engine.Suspend(ctx, "graph", "for a while"))
		s.look("graph")
		world.NoError(t, s.Engine.Resume(ctx, "graph"))
		_, err = s.Engine.Send(ctx, "graph", "go", nil)
		world.NoError(t, err)
		s.follow("graph", nil)
		start("again", func() error {
			run, err := again.Workflow.Start(ctx, s.Engine, 1, perdure.ID("again"))
			if err == nil {
				s.follow(run.RunID(), nil)
			}
			return err
		})
		start("own", func() error {
			_, err := own.Start(ctx, s.Engine, 1, perdure.ID("own"))
			return err
		})
		s.follow("own", nil)
		start("cancelled", func() error {
			_, err := naps.Start(ctx, s.Engine, 1, perdure.ID("cancelled"))
			return err
		})
		world.NoError(t, s.Engine.Cancel(ctx, "cancelled", "enough"))
		s.follow("cancelled", nil)
		for _, status := range journal.Statuses() {
			if !s.runs[status] {
				t.Errorf("no run was %v", status)
			}
		}
		for _, status := range journal.StepStatuses() {
			if !s.steps[status] {
				t.Errorf("no step was %v", status)
			}
		}
	})
}
