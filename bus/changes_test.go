package bus_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/bus"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/observe"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store/sqlite"
)

// fulfils returns a workflow with steps that complete, are tried again, fail or time out, and whose
// changes are published.
func fulfils(o bus.Changes) *perdure.Workflow[string, int] {
	return perdure.Define("fulfil", func(ctx context.Context, how string) (int, error) {
		_, err := perdure.Step(ctx, "reserve", func(ctx context.Context) (int, error) {
			if n, _, err := perdure.Attempt(ctx); err != nil || n == 1 && how != "at once" {
				return 0, errNo
			}
			return 1, nil
		})
		if err != nil {
			return 0, err
		}
		switch how {
		case "fails":
			return 0, perdure.Do(ctx, "ship", func(context.Context) error {
				return perdure.Permanent(errNo)
			})
		case "waits":
			return 0, perdure.Sleep(ctx, time.Hour)
		case "times out":
			return 0, perdure.Do(ctx, "ship", func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}, perdure.Timeout(time.Second), perdure.NoRetry)
		case "again":
			return 0, perdure.ContinueAsNew(ctx, "at once")
		}
		return 7, nil
	}, o)
}

// spec: L-21
func TestEachChangeOfStateIsANamedEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus.Local{}
		w := world.With(t, perdure.Options{Publisher: outbound(b)}, fulfils(bus.Changes{
			Prefix: "shop.", Name: "orderFulfilment", Steps: map[string]string{"ship": "shipOrder"},
			Publish: true,
		}))
		for _, how := range []string{"completes", "fails", "waits", "times out", "again"} {
			id := strings.ReplaceAll(how, " ", "-")
			if _, err := w.Engine.Start(t.Context(), "fulfil", fmt.Appendf(nil, "%q", how),
				perdure.ID(id)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		w.Crash()
		if err := w.Engine.Cancel(t.Context(), "waits", "the customer"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := w.Engine.Retry(t.Context(), "fails"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		got, reasons := map[string][]string{}, map[string]string{}
		runs := map[string][]string{} // by workflow ID
		for _, e := range heard(t, b, "out") {
			var c struct{ Outcome, Reason string }
			if err := json.Unmarshal(e.Data, &c); err != nil ||
				!strings.HasSuffix(e.Type, c.Outcome) ||
				e.Extensions[bus.ExtKind] != bus.ChangeKind {
				t.Errorf("%+v, %v", e, err)
			}
			run := e.Extensions[bus.ExtRun] // the events of one run are in order
			if got[run] == nil {
				runs[e.Subject] = append(runs[e.Subject], run)
			}
			got[run] = append(got[run], strings.TrimPrefix(e.Type, "shop."))
			if c.Reason != "" {
				reasons[e.Subject+" "+c.Outcome] = c.Reason
			}
		}
		w.End()
		const begins = "OrderFulfilmentStarted ReserveRetrying ReserveStarted ReserveCompleted "
		for id, want := range map[string]string{
			"completes": begins + "OrderFulfilmentCompleted",
			"fails": begins + "ShipOrderFailed OrderFulfilmentFailed OrderFulfilmentStarted " +
				"ShipOrderFailed OrderFulfilmentFailed",
			"waits":     begins + "OrderFulfilmentCancelled",
			"times-out": begins + "ShipOrderStarted ShipOrderTimedOut OrderFulfilmentFailed",
			"again": begins + "OrderFulfilmentStarted ReserveCompleted " +
				"OrderFulfilmentCompleted",
		} {
			slices.Sort(runs[id])
			var all []string
			for _, run := range runs[id] {
				all = append(all, got[run]...)
			}
			if all := strings.Join(all, " "); all != want {
				t.Errorf("%s: %s\nwant %s", id, all, want)
			}
		}
		for what, want := range map[string]string{
			"completes Retrying": "no", "fails Failed": "no", "waits Cancelled": "the customer",
			"times-out TimedOut": "timeout",
		} {
			if !strings.Contains(reasons[what], want) {
				t.Errorf("the reason of %s is %q, want %q", what, reasons[what], want)
			}
		}
	})
}

// spec: L-21
func TestObserversAlwaysSeeTheNamesOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bus.Local{}
		w := world.With(t, perdure.Options{Publisher: outbound(b)}, fulfils(bus.Changes{}))
		if _, err := w.Engine.Start(t.Context(), "fulfil", []byte(`"fails"`)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		var all []string
		for _, n := range w.Told() {
			if n.Change != "" {
				all = append(all, n.Change)
			} else if n.Kind == observe.StepStarted {
				t.Errorf("%+v has no name", n)
			}
		}
		want := []string{
			"FulfilStarted", "ReserveStarted", "ReserveRetrying", "ReserveStarted",
			"ReserveCompleted", "ShipStarted", "ShipFailed", "FulfilFailed",
		}
		if !slices.Equal(all, want) {
			t.Errorf("observers see %q", all)
		}
		if events := heard(t, b, "out"); len(events) != 0 {
			t.Errorf("without Publish, the broker gets %+v", events)
		}
		w.End()
	})
}

// Changes that are published change nothing of a run, wherever it crashes.
//
// spec: L-21
func TestARunWithChangesBearsCrashesEverywhere(t *testing.T) {
	for _, how := range []string{"completes", "fails", "again"} {
		w := fulfils(bus.Changes{Publish: true})
		perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
			run := perduretest.Start(env, w, how, perdure.ID("x"))
			out, err := run.Result()
			return fmt.Sprint(out, err)
		}, w)
	}
}

// A step with a transaction has its event in the commit of the transaction, also if it is tried
// again: the transaction and its Completed are there once.
//
// spec: L-21
func TestAStepWithATransactionHasItsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, books := &bus.Local{}, &world.Till{}
		def := perdure.Define("books", func(ctx context.Context, _ int) (int, error) {
			return perdure.StepTx(ctx, "book", books, func(ctx context.Context, tx *sql.Tx) (int,
				error) {
				if n, _, _ := perdure.Attempt(ctx); n == 1 {
					return 0, errNo
				}
				return world.Book(ctx, tx, 7)
			})
		}, bus.Changes{Publish: true})
		w := world.NewShop(t, perdure.Options{
			Drain: time.Second, Publisher: outbound(b),
		}, def)
		books.Transactions = sqlite.Transactions(w.DB)
		run := world.Must[*perdure.Run[int]](t)(def.Start(t.Context(), w.Engine, 0))
		if n, err := run.Result(t.Context()); n != 7 || err != nil || w.Invoices() != 1 {
			t.Errorf("the run gives %d, %v, with %d invoices", n, err, w.Invoices())
		}
		time.Sleep(time.Minute)
		var all []string
		for _, e := range heard(t, b, "out") {
			all = append(all, e.Type)
		}
		want := "BooksStarted BookRetrying BookStarted BookCompleted BooksCompleted"
		if got := strings.Join(all, " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

func TestTheNamesOfChangesAreChecked(t *testing.T) {
	for _, c := range []bus.Changes{
		{Prefix: "a b"}, {Name: "a b"}, {Steps: map[string]string{"ship": "a b"}},
		{Steps: map[string]string{"ship": ""}},
	} {
		if err := perdure.Check(fulfils(c)); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
