package perdure_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// What random histories have found, each as a case of its own.

var caseSignal = perdure.NewSignal[int]("a")

// spec: R-17
//
// What is posted right after the request to resume a run is not taken in its place.
func TestAMessageAfterTheRequestToResumeIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sum := perdure.Define("sum", func(ctx context.Context, _ int) (int, error) {
			one, err := caseSignal.Wait(ctx)
			if err != nil {
				return 0, err
			}
			two, err := caseSignal.Wait(ctx)
			return one + two, err
		})
		ctx := context.Background()
		w, other := newWorldOfTwo(t, sum)
		run, err := sum.Start(ctx, w.eng, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.eng.Suspend(ctx, run.ID(), "for now"); err != nil {
			t.Fatal(err)
		}
		if err := other.Resume(ctx, run.ID()); err != nil {
			t.Fatal(err)
		}
		for _, v := range []int{1, 2} {
			if _, err := caseSignal.Send(ctx, other, run.ID(), v); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		d, err := w.eng.Describe(ctx, run.ID())
		if err != nil || d.Head.Status != journal.Completed || len(d.Unread) != 0 {
			t.Errorf("the run is %v and has not read %v; %v", d.Head.Status, d.Unread, err)
		}
		w.end()
	})
}

// newWorldOfTwo gives a world whose database another process uses too.
func newWorldOfTwo(t *testing.T, workflows ...perdure.Definition) (*world, *perdure.Client) {
	t.Helper()
	first := memory.New()
	w := &world{t: t, db: first.Reopen(), workflows: workflows}
	w.opts.Build = "test"
	other, err := perdure.NewClient(t.Context(), first.Reopen())
	if err != nil {
		t.Fatal(err)
	}
	w.begin()
	return w, other
}
