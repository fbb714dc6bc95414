package ends

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store/memory"
)

// A list finds the runs that have failed by the text of the failure, also after a crash, and its
// first 240 bytes are enough to do so. A run that reached its goal has no such text.
//
// spec: P-1
func TestAFailedRunIsFoundByItsError(t *testing.T) {
	long := strings.Repeat("ä", 200) + "\x00\xff"
	wf := perdure.Define("w", func(ctx context.Context, why string) (int, error) {
		switch why {
		case "":
			return 0, nil
		case "wait", "cancel":
			return 0, perdure.Sleep(ctx, 5*time.Hour)
		case "long":
			return 0, errors.New(long)
		}
		_, err := perdure.Step(ctx, "charge", func(context.Context) (int, error) {
			return 0, errors.New(why)
		}, perdure.NoRetry)
		return 0, err
	}, perdure.Timeout(time.Hour))
	synctest.Test(t, func(t *testing.T) {
		w := &world.World{T: t, DB: memory.New(), Workflows: []perdure.Definition{wf}}
		w.Begin()
		defer w.End()
		ctx := context.Background()
		for _, why := range []string{"", "card declined", "wait", "cancel", "long"} {
			id := "run-" + strings.ReplaceAll(why, " ", "-")
			if _, err := wf.Start(ctx, w.Engine, why, perdure.ID(id)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := w.Engine.Cancel(ctx, "run-cancel", "no need"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		w.Crash()
		found := func(q perdure.Query) (ids, texts []string) {
			heads, next, err := w.Engine.List(ctx, q)
			if err != nil || !next.IsZero() {
				t.Errorf("%+v: %v, %v", q, next, err)
			}
			for _, h := range heads {
				ids, texts = append(ids, h.WorkflowID), append(texts, h.Error)
			}
			return ids, texts
		}
		_, texts := found(perdure.Query{})
		want := []string{
			strings.Repeat("ä", 120), "workflow cancelled: no need", "workflow timed out",
			"step charge: card declined", "",
		}
		if !slices.Equal(texts, want) {
			t.Errorf("the texts are %q, want %q", texts, want)
		}
		for _, c := range []struct {
			part string
			want string
		}{
			{"CARD", "run-card-declined"}, {"No Need", "run-cancel"}, {"timed", "run-wait"},
			{"ääää", "run-long"}, {"workflow", "run-cancel run-wait"}, {"nothing", ""},
		} {
			if ids, _ := found(perdure.Query{Error: c.part}); strings.Join(ids, " ") != c.want {
				t.Errorf("by %q it finds %q, want %q", c.part, ids, c.want)
			}
		}
	})
}

// A query that no run can match because it is not valid is refused.
//
// spec: P-1
func TestAQueryThatIsNotValidIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world.World{T: t, DB: memory.New()}
		w.Begin()
		defer w.End()
		for _, q := range []perdure.Query{
			{WorkflowID: "a b"}, {WorkflowID: "\xff"}, {Workflow: "ß"},
			{Workflows: []string{"w", ""}}, {Workflows: make([]string, 1001)},
			{Statuses: []journal.Status{0}}, {Statuses: []journal.Status{19}},
			{Patterns: []journal.Pattern{200}}, {Error: "\x00"}, {Error: "\xff"},
			{Attributes: map[string]string{"a b": ""}}, {Attributes: map[string]string{"": ""}},
			{Limit: -1}, {Limit: 1001}, {After: journal.Cursor{Number: -1}}, {Parent: "a b"},
		} {
			_, _, err := w.Engine.List(context.Background(), q)
			var e *perdure.Error
			if !errors.As(err, &e) || e.Code != perdure.CodeInvalid {
				t.Errorf("%+v: %v", q, err)
			}
		}
	})
}
