package steps

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// A client call with the context of workflow code would be repeated on every replay. With the
// context of a step it is made once for each attempt.
func TestAClientIsNotCalledWithTheContextOfWorkflowCode(t *testing.T) {
	var (
		eng    *perdure.Engine
		inStep error
		news   = perdure.NewSignal[int]("news")
		other  = perdure.Define("other", world.Nothing)
	)
	def := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		_, byType := other.Start(ctx, eng, 1)
		_, byName := eng.Start(ctx, "other", []byte("1"))
		_, sent := news.Send(ctx, eng, "x", 1)
		_, raw := eng.Send(ctx, "x", "news", []byte("1"))
		_, both := perdure.SendWithStart(ctx, eng, news, 1, other, 1, perdure.ID("x"))
		_, retried := eng.Retry(ctx, "x")
		_, delivered := eng.Deliver(ctx, 1, "x")
		operator := admin.New(eng)
		_, letter := operator.AddDeadLetter(ctx,
			deadletter.Letter{Workflow: "mail", Error: "bounced"})
		for what, err := range map[string]error{
			"start":   byType,
			"by name": byName,
			"send":    sent,
			"raw":     raw,
			"both":    both,

			"cancel":       eng.Cancel(ctx, "x", ""),
			"suspend":      eng.Suspend(ctx, "x", ""),
			"resume":       eng.Resume(ctx, "x"),
			"retry":        retried,
			"decide":       eng.Decide(ctx, "x", "d", perdure.Decision{}),
			"cancel timer": eng.CancelTimer(ctx, "x", "t", ""),
			"deliver":      delivered,

			"add letter":    letter,
			"handle letter": operator.MarkHandled(ctx, "x", ""),
			"delete letter": operator.DeleteDeadLetter(ctx, "x", admin.Note{}),
		} {
			var e *perdure.Error
			if !errors.As(err, &e) || e.Code != journal.CodeMisuse || e.Hint == "" {
				t.Errorf("%s: %v", what, err)
			}
		}
		return perdure.Step(ctx, "send", func(ctx context.Context) (int, error) {
			_, sent := news.Send(ctx, eng, "x", 1)
			_, letter := admin.New(eng).AddDeadLetter(ctx,
				deadletter.Letter{Workflow: "mail", WorkflowID: "m", Error: "bounced"})
			inStep = errors.Join(sent, letter)
			return 0, nil
		})
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		eng = w.Engine
		run, err := def.Start(t.Context(), eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(t.Context()); err != nil || inStep != nil {
			t.Error(err, inStep)
		}
	}, def, other)
}

// A run of a definition that was not registered is refused: the engine would execute the
// registered definition.
func TestAnotherDefinitionOfANameIsToldApart(t *testing.T) {
	eng, err := perdure.New(memory.New(), perdure.Options{})
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := perdure.Define("w", world.Nothing), perdure.Define("w", world.Nothing),
		perdure.Define("v", world.Nothing)
	if err := eng.Register(one); err != nil {
		t.Fatal(err)
	}
	for def, says := range map[*perdure.Workflow[int, int]]string{
		two: "another definition", three: "does not know",
	} {
		if _, err := def.Start(t.Context(), eng,
			1); journal.CodeOf(err) != journal.CodeUnregistered ||
			!strings.Contains(err.Error(), says) {
			t.Error(err)
		}
	}
}

// If the first delay is above the default of the longest delay, it is also the longest delay.
func TestTheFirstDelayIsNotCutByADefault(t *testing.T) {
	for _, c := range []struct {
		retry perdure.Retry
		want  time.Duration
	}{
		{perdure.Retry{First: time.Hour}, time.Hour},
		{perdure.Retry{First: time.Hour, Cap: time.Minute}, time.Minute},
		{perdure.Retry{First: 4 * time.Minute}, 5 * time.Minute},
	} {
		if got := c.retry.Delay(2); got != c.want {
			t.Errorf("%+v waits %v, want %v", c.retry, got, c.want)
		}
	}
}

// A signal that cancels the run is never taken by a wait, so a wait for it is refused.
func TestNobodyWaitsForASignalThatCancels(t *testing.T) {
	def := perdure.Define("w", func(ctx context.Context, name string) (int, error) {
		return perdure.NewSignal[int](name).Wait(ctx)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		for _, name := range []string{"Cancel", "CancelWorkflow"} {
			run, err := def.Start(t.Context(), w.Engine, name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := run.Result(t.Context()); journal.CodeOf(err) != journal.CodeInvalid {
				t.Errorf("%s: %v", name, err)
			}
		}
	}, def)
}
