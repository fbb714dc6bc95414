package waiting

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/storetest"
)

func TestEngineWithoutASweepAsksTheStoreOnlyWithAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		month := 30 * 24 * time.Hour
		wf := perdure.Define("sleeper", func(ctx context.Context, _ int) (int, error) {
			return 1, perdure.Sleep(ctx, month)
		})
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		var calls *storetest.Faulty
		w.Wrap = func(s store.Store) store.Store {
			calls = storetest.NewFaulty(s)
			return calls
		}
		w.Options = perdure.Options{Build: "test", IdleTimeout: -1, Sweep: -1, CleanUp: -1}
		w.Begin()
		defer w.End()
		began := time.Now()
		run, err := wf.Start(context.Background(), w.Engine, 0)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := run.Result(context.Background()); out != 1 || err != nil {
			t.Error(out, err)
		}
		if took := time.Since(began); took != month {
			t.Errorf("it took %v", took)
		}
		if n := calls.Calls(storetest.Claim); n > 20 {
			t.Errorf("the store was asked %d times in a month in which one timer fired", n)
		}
	})
}

func TestSweepThatCannotBeIsRefused(t *testing.T) {
	for _, o := range []perdure.Options{
		{Sweep: time.Millisecond},
		{Sweep: time.Hour},
		{Sweep: -1, SweepOnly: true},
	} {
		_, err := perdure.New(memory.New(), o)
		world.CodeIs(t, err, journal.CodeInvalid)
	}
}
