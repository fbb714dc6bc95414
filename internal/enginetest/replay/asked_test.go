package replay

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
)

// spec: B-1
func TestAnUndecidedRunThatIsToEndSaysSo(t *testing.T) {
	tidied := func(first string) *perdure.Workflow[int, int] {
		return perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			if err := perdure.OnCancel(ctx, "tidy", func(ctx context.Context) error {
				_, err := perdure.Step(ctx, "tidied", world.Work("tidied", time.Second, nil))
				return err
			}); err != nil {
				return 0, err
			}
			for _, name := range []string{first, "second"} {
				if _, err := perdure.Step(ctx, name, world.Work(name, 60*time.Second,
					nil)); err != nil {
					return 0, err
				}
			}
			return 0, perdure.Sleep(ctx, time.Hour)
		}, perdure.Timeout(3*time.Hour))
	}
	for _, c := range []struct {
		name   string
		end    func(w *world.World) error
		says   string
		status journal.Status
	}{
		{"cancelled", func(w *world.World) error {
			return w.Engine.Cancel(context.Background(), "x", "no need")
		}, "since 2000-01-01T01:10:00Z it is to end as CANCELLED", journal.Cancelled},
		{"timed out", func(w *world.World) error {
			time.Sleep(4 * time.Hour)
			return nil
		}, "since 2000-01-01T03:00:00Z it is to end as TIMED_OUT", journal.TimedOut},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.New(t, tidied("first"))
				defer func() { w.End() }()
				if _, err := w.Engine.Start(context.Background(), "w", []byte("0"),
					perdure.ID("x")); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				w.Deploy("another", tidied("renamed"))
				time.Sleep(time.Hour)
				d, err := w.Engine.Describe(context.Background(), "x")
				if err != nil || d.Head.Status != journal.Suspended {
					t.Fatal(d.Head.Status, d.Why, err)
				}
				if err := c.end(w); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				d, err = w.Engine.Describe(context.Background(), "x")
				if err != nil || d.Head.Status != journal.Suspended ||
					!strings.HasPrefix(d.Why, c.says) || !strings.Contains(d.Why, "undecided: ") {
					t.Error(d.Head.Status, d.Why, err)
				}
				if err := w.Engine.Resume(context.Background(), "x"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if d, err = w.Engine.Describe(context.Background(), "x"); err != nil ||
					d.Head.Status != c.status {
					t.Error(d.Head.Status, d.Why, err)
				}
			})
		})
	}
}
