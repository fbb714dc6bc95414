package steps

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"

	"github.com/perdure/perdure/internal/enginetest/world"
)

// spec: P-15
func TestAStartWithoutAnIDGetsOneOfTheApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		o := perdure.Options{NewID: func() string { return fmt.Sprint("order-", n.Add(1)) }}
		wf := perdure.Define("w", world.Nothing)
		w := world.With(t, o, wf)
		defer w.End()
		client := world.Must[*perdure.Client](t)(o.NewClient(t.Context(), w.DB, wf))
		var ids []string
		for _, c := range []perdure.Caller{w.Engine, client} {
			run, err := wf.Start(t.Context(), c, 0)
			if err != nil {
				t.Fatal(err)
			}
			if run.RunID() == run.ID() {
				t.Errorf("the run ID is %s too: it has the database and the number", run.ID())
			}
			ids = append(ids, run.ID())
			runs, errs := wf.StartAll(t.Context(), c, []int{0, 0}, nil)
			for i := range runs {
				if errs[i] != nil {
					t.Fatal(errs[i])
				}
				ids = append(ids, runs[i].ID())
			}
			named, err := wf.Start(t.Context(), c, 0, perdure.ID("own"), perdure.Dedup(0))
			if err != nil || named.ID() != "own" {
				t.Errorf("a start with an ID has %v: %v", named, err)
			}
			synctest.Wait()
		}
		const want = "order-1 order-2 order-3 order-4 order-5 order-6"
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("the runs have %s, want %s", got, want)
		}
	})
}

// spec: P-15
func TestABadIDOfTheApplicationIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		newID func() string
		code  journal.Code
	}{
		"panics":       {func() string { panic("odd") }, journal.CodePanic},
		"empty":        {func() string { return "" }, journal.CodeInvalid},
		"not valid":    {func() string { return "a b" }, journal.CodeInvalid},
		"the engine's": {func() string { return "perdure.x" }, journal.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wf := perdure.Define("w", world.Nothing)
				o := perdure.Options{NewID: c.newID}
				w := world.With(t, o, wf)
				defer w.End()
				client := world.Must[*perdure.Client](t)(o.NewClient(t.Context(), w.DB, wf))
				for _, caller := range []perdure.Caller{w.Engine, client} {
					_, err := wf.Start(t.Context(), caller, 0)
					if journal.CodeOf(err) != c.code || !strings.Contains(err.Error(), "NewID") {
						t.Errorf("the start returned %v, want code %s", err, c.code)
					}
				}
				if n := w.Count(); len(n) != 0 {
					t.Errorf("runs were started: %v", n)
				}
			})
		})
	}
}

// spec: P-15
func TestAnIDOfTheApplicationThatIsTakenIsAsOneThatIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := perdure.Define("w", func(ctx context.Context, _ int) (int, error) {
			return world.GoSignal.Wait(ctx)
		})
		other := perdure.Define("other", world.Nothing)
		w := world.With(t, perdure.Options{NewID: func() string { return "same" }}, wf, other)
		defer w.End()
		first := world.Start(w, wf, 0)
		if again := world.Start(w, wf, 0); again.New() || again.RunID() != first.RunID() {
			t.Errorf("run %s is open, and the start made %s", first.RunID(), again.RunID())
		}
		if _, err := other.Start(t.Context(), w.Engine, 0); journal.CodeOf(err) !=
			journal.CodeConflict {
			t.Errorf("another workflow got the ID: %v", err)
		}
		if _, err := world.GoSignal.Send(t.Context(), w.Engine, "same", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if next := world.Start(w, wf, 0); !next.New() {
			t.Error("the run has ended, and the start made no other")
		}
	})
}
