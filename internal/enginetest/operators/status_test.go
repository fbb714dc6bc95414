package operators

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/storetest"
)

// spec: R-26
func TestStatusesAnswerInTheOrderAsked(t *testing.T) {
	none := perdure.Define("none", func(ctx context.Context, how string) (any, error) {
		switch how {
		case "none":
			return nil, perdure.Fail(ctx, world.ErrOdd)
		case "null":
			return nil, nil
		case "empty":
			return "", nil
		case "compensated":
			return nil, pattern.End(ctx, journal.Compensated, map[string]int{"n": 1}, world.ErrOdd)
		}
		return nil, perdure.Sleep(ctx, time.Hour)
	})
	bytes := perdure.Define("bytes", func(context.Context, int) ([]byte, error) {
		return []byte{}, nil
	})
	large := perdure.Define("large", func(context.Context, int) ([]byte, error) {
		return make([]byte, 300_000), nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		ctx := context.Background()
		var runs []string
		for _, how := range []string{"none", "null", "empty", "compensated", "open"} {
			run, err := none.Start(ctx, w.Engine, how, perdure.ID("id-"+how))
			if err != nil {
				t.Fatal(err)
			}
			runs = append(runs, run.RunID())
		}
		for _, wf := range []*perdure.Workflow[int, []byte]{bytes, large} {
			world.Start(w, wf, 0, perdure.ID("id-"+wf.Name()))
		}
		time.Sleep(time.Minute)
		if err := w.Engine.Cancel(ctx, "id-open", "enough"); err != nil {
			t.Fatal(err)
		}
		reopened, err := none.Start(ctx, w.Engine, "open", perdure.ID("id-open"), perdure.Dedup(0))
		if err != nil || !reopened.New() {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		asked := []struct {
			id     string
			status journal.Status // 0 is not found
			output string
			isNil  bool
			odd    bool
		}{
			{"id-empty", journal.Completed, `""`, false, false},
			{"nobody", 0, "", true, false},
			{"id-none", journal.Failed, "", true, true},
			{runs[1], journal.Completed, "null", false, false},
			{"id-bytes", journal.Completed, "", false, false},
			{"", 0, "", true, false},
			{"not a name", 0, "", true, false},
			{runs[4], journal.Cancelled, "", true, false}, // by run ID exactly that one
			{"id-open", journal.Waiting, "", true, false}, // by workflow ID the open one
			{reopened.RunID(), journal.Waiting, "", true, false},
			{"id-compensated", journal.Compensated, `{"n":1}`, false, true},
			{"id-empty", journal.Completed, `""`, false, false},
			{"zzzzzzzz-9-9", 0, "", true, false},
		}
		var ids []string
		for _, a := range asked {
			ids = append(ids, a.id)
		}
		before := len(w.History("id-open"))
		list, err := w.Engine.Statuses(ctx, append(ids, "id-large")...)
		if err != nil || len(list) != len(asked)+1 {
			t.Fatal(len(list), err)
		}
		for i, a := range asked {
			s := list[i]
			if s.Found != (a.status != 0) || s.Head.Status != a.status ||
				s.IsTerminal() != a.status.IsTerminal() || s.IsSuccess() != a.status.IsSuccess() {
				t.Errorf("%q: %+v, want %v", a.id, s, a.status)
			}
			if string(s.Output) != a.output || (s.Output == nil) != a.isNil {
				t.Errorf("%q: output %q, nil %v; want %q, nil %v", a.id, s.Output, s.Output == nil,
					a.output, a.isNil)
			}
			if errors.Is(s.Err, world.ErrOdd) != a.odd ||
				(s.Err != nil) != (a.odd || a.status == journal.Cancelled) {
				t.Errorf("%q: error %v", a.id, s.Err)
			}
		}
		if s := list[len(asked)]; s.Head.Status != journal.Completed || len(s.Output) != 300_000 {
			t.Errorf("the large output has %d bytes", len(s.Output))
		}
		if len(w.History("id-open")) != before {
			t.Error("reading has changed something")
		}
		if list, err := w.Engine.Statuses(ctx); err != nil || len(list) != 0 {
			t.Error(list, err)
		}
		_, err = w.Engine.Statuses(ctx, make([]string, 1001)...)
		world.CodeIs(t, err, journal.CodeTooLarge)
	}, none, bytes, large)
}

// spec: R-26
func TestStatusesCostAConstantNumberOfQuestions(t *testing.T) {
	wf := perdure.Define("w", func(ctx context.Context, n int) (int, error) {
		if n%3 == 0 {
			return n, perdure.Sleep(ctx, 100*time.Hour)
		}
		return n, nil
	})
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		ctx := context.Background()
		var ids []string
		for n := range 300 {
			run, err := wf.Start(ctx, w.Engine, n, perdure.ID(fmt.Sprint("n-", n)))
			if err != nil {
				t.Fatal(err)
			}
			if ids = append(ids, run.ID()); n%2 == 0 {
				ids[n] = run.RunID()
			}
		}
		time.Sleep(time.Minute)
		counted := storetest.NewFaulty(w.DB)
		c, err := perdure.NewClient(ctx, store.Store(counted))
		if err != nil {
			t.Fatal(err)
		}
		cost := func(n int) int {
			before := counted.Calls(storetest.Any)
			list, err := c.Statuses(ctx, ids[:n]...)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range list {
				if s.Head.WorkflowID != fmt.Sprint("n-", i) || s.IsTerminal() != (i%3 != 0) ||
					s.IsTerminal() != (string(s.Output) == fmt.Sprint(i)) {
					t.Errorf("%d: %+v", i, s)
				}
			}
			return counted.Calls(storetest.Any) - before
		}
		few, many := cost(6), cost(300)
		if few != many || many > 3 {
			t.Errorf("6 cost %d questions, 300 cost %d", few, many)
		}
		if writes := counted.Calls(storetest.Commit); writes != 0 {
			t.Errorf("reading made %d commits", writes)
		}
	}, wf)
}
