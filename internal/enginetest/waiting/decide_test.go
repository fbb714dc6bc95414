package waiting

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// An operator decides for one of several parts that ask under one name, by the path that the run's
// description shows. The answer is an error for a name that nobody asks under, for a name that
// several ask under, and for a choice that does not exist; none of these decides anything.
//
// spec: R-9, F-31
func TestDecideReachesOneWaitByItsPath(t *testing.T) {
	ask := func(ctx context.Context) (string, error) {
		d, err := perdure.Park(ctx, "refund", "no money", "retry", "skip")
		return d.Choice, err
	}
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		left, right := perdure.Go(ctx, "left", ask), perdure.Go(ctx, "right", ask)
		first, err := left.Await(ctx)
		second, err2 := right.Await(ctx)
		third, err3 := ask(ctx)
		fourth, err4 := ask(ctx)
		return strings.Join([]string{first, second, third, fourth}, " "),
			errors.Join(err, err2, err3, err4)
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		bg := context.Background()
		world.Start(w, wf, 0, perdure.ID("x"))
		decide := func(name, choice string) error {
			synctest.Wait()
			return w.Engine.Decide(bg, "x", name, perdure.Decision{Choice: choice})
		}
		refused := func(code journal.Code, hint, name, choice string) {
			t.Helper()
			var e *perdure.Error
			if err := decide(name, choice); !errors.As(err, &e) || e.Code != code ||
				!strings.Contains(e.Hint, hint) {
				t.Errorf("%s for %s: %v", choice, name, err)
			}
		}
		refused(journal.CodeConflict, "left/refund, right/refund", "refund", "skip")
		refused(journal.CodeNotFound, "left/refund, right/refund", "other", "skip")
		refused(journal.CodeNotFound, "left/refund, right/refund", "refund#2", "skip")
		refused(journal.CodeInvalid, "retry, skip", "right/refund", "odd")
		world.NoError(t, decide("right/refund", "skip"))
		// again: its caller has not heard of the answer
		world.NoError(t, decide("right/refund", "skip"))
		world.NoError(t, decide("refund", "retry")) // the one that is left
		refused(journal.CodeNotFound, "refund", "left/refund", "skip")
		world.NoError(t, decide("refund", "skip"))
		world.NoError(t, decide("refund#2", "retry"))
		gives(w, wf, "x", "retry skip skip retry")
		refused(journal.CodeWrongState, "", "refund", "skip")
		world.NoError(t, decide("refund#2", "retry"))
	}, wf)
}

// Two answers to one question: the second one is not taken for the answer to the next question.
//
// spec: R-9
func TestASecondAnswerDecidesNothing(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		first, err := perdure.Park(ctx, "ask", "why")
		if err != nil {
			return "", err
		}
		second, err := perdure.Park(ctx, "ask", "why")
		return first.Choice + " " + second.Choice, err
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		bg := context.Background()
		world.Start(w, wf, 0, perdure.ID("x"))
		synctest.Wait()
		world.NoError(t, w.Engine.Suspend(bg, "x", "so that it takes none"))
		for _, choice := range []string{"one", "two"} {
			world.NoError(t, w.Engine.Decide(bg, "x", "ask", perdure.Decision{Choice: choice}))
		}
		world.NoError(t, w.Engine.Resume(bg, "x"))
		synctest.Wait()
		world.NoError(t, w.Engine.Decide(bg, "x", "ask", perdure.Decision{Choice: "three"}))
		gives(w, wf, "x", "one three")
	}, wf)
}

// A decision is repeated by a caller that has not got the answer. Another decision is refused, even
// with the same choice.
//
// spec: R-9
func TestOnlyTheSameDecisionMayBeRepeated(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, _ int) (string, error) {
		d, err := perdure.Park(ctx, "ask", "why")
		return string(d.Data), err
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		bg := context.Background()
		world.Start(w, wf, 0, perdure.ID("x"))
		synctest.Wait()
		decide := func(data string) error {
			return w.Engine.Decide(bg, "x", "ask", perdure.Decision{
				Choice: "pay", Data: []byte(data),
			})
		}
		world.NoError(t, decide("1"))
		gives(w, wf, "x", "1")
		world.NoError(t, decide("1"))
		world.CodeIs(t, decide("2"), journal.CodeWrongState)
	}, wf)
}
