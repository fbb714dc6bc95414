package pattern_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/perduretest"
)

// A visit observes a signal. While its body goes on, a wait of the same run takes the signal. Then
// the visit does not take it once more.
//
// spec: R-18
func TestAVisitDoesNotTakeWhatAWaitHasTaken(t *testing.T) {
	item := perdure.NewSignal[int]("item")
	w := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
		beside := perdure.Go(ctx, "beside", func(ctx context.Context) (int, error) {
			_, err := pattern.Visit{Name: "look", Call: func(ctx context.Context) (pattern.Visited,
				error) {
				all, err := item.All(ctx)
				if err == nil && len(all) != 1 {
					t.Errorf("the body sees %v", all)
				}
				time.Sleep(time.Minute)
				return pattern.Visited{Over: true}, err
			}}.Run(ctx)
			return 0, err
		})
		if err := perdure.Sleep(ctx, 10*time.Second); err != nil {
			return 0, err
		}
		got, err := item.Wait(ctx)
		if err != nil {
			return 0, err
		}
		if err := perdure.Sleep(ctx, 10*time.Second); err != nil { // so that it is durable
			return 0, err
		}
		_, err = beside.Await(ctx)
		return got, err
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		perduretest.Send(env, item, "x", 7)
		run := perduretest.Start(env, w, 1, perdure.ID("x"))
		env.Sleep(2 * time.Minute)
		run.Is(journal.Completed)
		taken := 0
		var entries []journal.Entry
		if err := env.Do(func(eng *perdure.Engine) error {
			data, err := perduretest.Export(env.Context(), eng.Client, "x")
			if err == nil {
				entries, err = journal.Read(bytes.NewReader(data))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Detail != nil && e.Detail.Mail != 0 {
				taken++
			}
		}
		if taken != 1 {
			t.Errorf("the signal was taken %d times", taken)
		}
	}, w)
}
