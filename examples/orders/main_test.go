package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/examples/internal/terminal"
	"github.com/perdure/perdure/examples/orders/order"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/perduretest"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	terminal.Main(m, func() {
		pace = 0
		main()
	})
}

// begin makes an outside world in which nothing was done yet.
func begin(t *testing.T) { outside = filepath.Join(t.TempDir(), "outside.txt") }

// done returns the actions that were done outside, without the keys.
func done(t *testing.T) (out []string) {
	text, err := os.ReadFile(outside)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		out = append(out, strings.Fields(line)[0])
	}
	return out
}

func teapot(country string) order.Order {
	return order.Order{ID: "ord-1", Item: "teapot", Cents: 4200, Country: country}
}

func TestAnOrderIsChargedOnceThoughTheAnswerIsLost(t *testing.T) {
	begin(t)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Fulfil.Workflow, teapot("IS"))
		run.Returns(json.RawMessage(
			`{"hold":"reserve-ord-1","charge":"charge-ord-1","tracking":"ship-ord-1"}`))
		run.Executed("charge", 2)
	}, Fulfil)
	if got := done(t); !slices.Equal(got, []string{"reserve", "charge", "ship"}) {
		t.Errorf("outside: %q", got)
	}
}

func TestARefusedOrderIsUndone(t *testing.T) {
	begin(t)
	perduretest.Test(t, func(env *perduretest.Env) {
		run := perduretest.Start(env, Fulfil.Workflow, teapot("AQ"))
		run.Fails(errRefused)
		run.Is(perdure.StatusFailed)
		run.Executed("ship", 1) // a second attempt would not help
	}, Fulfil)
	if got := done(t); !slices.Equal(got, []string{"reserve", "charge", "refund", "release"}) {
		t.Errorf("outside: %q", got)
	}
}

func TestARefundThatFailsWaitsForAnOperator(t *testing.T) {
	begin(t)
	perduretest.Test(t, func(env *perduretest.Env) {
		good := outside
		env.Step("undo:charge").Before(1, func(context.Context) error {
			outside = t.TempDir() // a directory cannot be written, so every action fails
			return nil
		})
		run := perduretest.Start(env, Fulfil.Workflow, teapot("AQ"))
		env.Sleep(24 * time.Hour)
		run.Is(journal.CompensationFailed)
		outside = good
		if err := env.Engine().Decide(env.Context(), run.ID(), "undo:charge",
			perdure.Decision{Choice: "retry"}); err != nil {
			t.Error(err)
		}
		run.Fails(errRefused)
		run.Is(perdure.StatusFailed)
	}, Fulfil)
	if got := done(t); !slices.Equal(got, []string{"reserve", "charge", "refund", "release"}) {
		t.Errorf("outside: %q", got)
	}
}

func TestOrdersBearCrashesEverywhere(t *testing.T) {
	for _, country := range []string{"IS", "AQ"} {
		t.Run(country, func(t *testing.T) {
			perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
				begin(t)
				run := perduretest.Start(env, Fulfil.Workflow, teapot(country))
				receipt, err := run.Result()
				return []any{receipt, errors.Is(err, errRefused), done(t)}
			}, Fulfil)
		})
	}
}

// spec: B-16
func TestAnOrderSurvivesAKill(t *testing.T) {
	at := terminal.Open(t)
	kill := at.Serve()
	at.Run("start", "order-fulfilment", "--id", "ord-1", "-i",
		`{"id":"ord-1","item":"cup","cents":700,"country":"IS"}`)
	at.Until(func() bool { return strings.Contains(at.File("outside.txt"), "charge") })
	kill()
	if text := at.Run("runs", "get", "ord-1"); !strings.Contains(text, "ord-1") {
		t.Errorf("while nothing runs: %s", text)
	}
	at.Serve()
	if receipt := at.Run("runs", "wait", "ord-1"); !strings.Contains(receipt,
		`"tracking":"ship-ord-1"`) {
		t.Errorf("receipt: %s", receipt)
	}
	for _, what := range []string{"reserve", "charge", "ship"} {
		if n := strings.Count(at.File("outside.txt"), what+" ord-1"); n != 1 {
			t.Errorf("%s %d times: %s", what, n, at.File("outside.txt"))
		}
	}
}
