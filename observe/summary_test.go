package observe_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

var errNo = errors.New("no")

func fine(context.Context, int) (int, error) { return 1, nil }

// refuses fails, and is not called again.
func refuses(context.Context, int) (int, error) { return 0, perdure.Permanent(errNo) }

// trip is a saga whose second step fails; one of its two compensations fails, too.
func trip() *saga.Saga[int] {
	trip := saga.New[int]("trip").Policy(saga.BestEffortParallel)
	seat := saga.Add(trip, "seat", fine).Undo(func(context.Context, int, int) error { return nil })
	room := saga.Add(trip, "room", fine).Undo(func(context.Context, int, int) error {
		return perdure.Permanent(errNo)
	})
	saga.Add(trip, "pay", refuses).After(seat, room)
	return trip
}

// spec: P-9
func TestTheSummarySaysWhatHasHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nod := perdure.NewSignal[int]("nod")
		code := perdure.Define("code", func(ctx context.Context, n int) (int, error) {
			_, err := perdure.Step(ctx, "s", func(ctx context.Context) (int, error) {
				if s, _ := perdure.StepOf(ctx); s.Attempt <= n {
					return 0, errNo
				}
				return 0, nil
			}, perdure.Retry{First: time.Second})
			if err == nil {
				_, err = nod.Wait(ctx)
			}
			return 0, err
		})
		book, pay := trip(), tcc.New[int]("pay")
		tcc.Add(pay, "debit", fine).Confirm(func(context.Context, int, int) error { return nil }).
			Cancel(func(context.Context, int, int) error { return nil })
		s := observe.NewSummary()
		w := world.With(t, perdure.Options{
			Observers: []observe.Observer{s.Observer()}, IdleTimeout: 24 * time.Hour,
		}, code, book, pay)
		defer w.End()
		world.Start(w, code, 0, perdure.ID("waits"))
		world.Start(w, code, 2, perdure.ID("retries"))
		world.Start(w, book.Workflow, 1)
		world.Start(w, pay.Workflow, 1)
		time.Sleep(time.Hour + 2*time.Minute + 3500*time.Millisecond)
		if _, err := nod.Send(t.Context(), w.Engine, "retries", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for pattern, want := range map[string]string{
			"": `{"executions":{"total":4,"active":1,"completed":2,"failed":1},` +
				`"patterns":{"SAGA":{"total":1,"completed":0,"failed":1},` +
				`"TCC":{"total":1,"completed":1,"failed":0},` +
				`"WORKFLOW":{"total":2,"completed":1,"failed":0}},` +
				`"steps":{"total":7,"failed":1,"retried":2},` +
				`"compensation":{"total":2,"failed":1},"dlq":{"entries":1},` +
				`"uptime":"PT1H2M3.5S"}`,
			"saga": `{"executions":{"total":1,"active":0,"completed":0,"failed":1},` +
				`"patterns":{"SAGA":{"total":1,"completed":0,"failed":1}},` +
				`"steps":{"total":3,"failed":1,"retried":0},` +
				`"compensation":{"total":2,"failed":1},"dlq":{"entries":1},` +
				`"uptime":"PT1H2M3.5S"}`,
			"WORKFLOW": `{"executions":{"total":2,"active":1,"completed":1,"failed":0},` +
				`"patterns":{"WORKFLOW":{"total":2,"completed":1,"failed":0}},` +
				`"steps":{"total":2,"failed":0,"retried":2},` +
				`"compensation":{"total":0,"failed":0},"dlq":{"entries":0},` +
				`"uptime":"PT1H2M3.5S"}`,
			"MACHINE": `{"executions":{"total":0,"active":0,"completed":0,"failed":0},` +
				`"patterns":{"MACHINE":{"total":0,"completed":0,"failed":0}},` +
				`"steps":{"total":0,"failed":0,"retried":0},` +
				`"compensation":{"total":0,"failed":0},"dlq":{"entries":0},` +
				`"uptime":"PT1H2M3.5S"}`,
		} {
			got, err := s.Read(w.Engine.Load(), pattern)
			if err != nil {
				t.Error(err)
			}
			if text, err := json.Marshal(got); string(text) != want || err != nil {
				t.Errorf("%q: %v\n%s, want\n%s", pattern, err, text, want)
			}
		}
	})
}

// spec: P-9
func TestTheSummaryOfAPatternThatDoesNotExistIsAnError(t *testing.T) {
	_, err := observe.NewSummary().Read(observe.Load{}, "saga2")
	if journal.CodeOf(err) != journal.CodeNotFound || !strings.Contains(err.Error(), "SAGA, TCC") {
		t.Error(err)
	}
}

// spec: P-9
func TestTheUptimeIsADurationOfISO8601(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "PT0S", 90 * time.Millisecond: "PT0.09S", 1500 * time.Millisecond: "PT1.5S",
		time.Minute: "PT1M0S", 50*time.Hour + time.Millisecond: "PT50H0M0.001S",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := observe.NewSummary()
			time.Sleep(d + time.Microsecond)
			if got, err := s.Read(observe.Load{}, ""); got.Uptime != want || err != nil {
				t.Errorf("after %v it is %s, %v, want %s", d, got.Uptime, err, want)
			}
		})
	}
}
