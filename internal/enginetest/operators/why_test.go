package operators

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/schedule"
	"github.com/perdure/perdure/tcc"
)

// spec: B-7
func TestATCCBetweenAttemptsNamesTheStepAndItsNextTime(t *testing.T) {
	trip := tcc.New[string]("trip")
	tcc.Add(trip, "seat", func(context.Context, string) (string, error) { return "12A", nil }).
		Confirm(func(context.Context, string, string) error {
			return errors.New("the bank is closed")
		}).
		Cancel(func(context.Context, string, string) error { return nil })
	world.InBothModes(t, func(t *testing.T, w *world.World) {
		if _, err := w.Engine.Start(t.Context(), "trip", []byte(`"ada"`), perdure.ID("a")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
		why := w.Describe("a").Why
		if !strings.Contains(why, "seat has failed in attempt 1, and is tried again at ") ||
			!strings.Contains(why, "the bank is closed") {
			t.Errorf("why: %q", why)
		}
	}, trip)
}

// spec: B-7
func TestASignalThatTheCodeLeavesInTheInboxIsNotAwaited(t *testing.T) {
	wait := perdure.NewSignal[string]("go")
	picky := perdure.Define("picky", func(ctx context.Context, _ int) (string, error) {
		return wait.Wait(ctx, perdure.Where(func(s string) bool { return s == "now" }))
	})
	synctest.Test(t, func(t *testing.T) {
		w := world.With(t, perdure.Options{IdleTimeout: time.Hour}, picky)
		defer func() { w.End() }()
		world.Start(w, picky, 0, perdure.ID("s"))
		time.Sleep(time.Second)
		if why := w.Describe("s").Why; why != "it waits for signal go" {
			t.Errorf("before: %q", why)
		}
		if _, err := wait.Send(t.Context(), w.Engine, "s", "later"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if why := w.Describe("s").Why; !strings.HasPrefix(why, "signal go is in its inbox") {
			t.Errorf("why: %q", why)
		}
	})
}

// A process without an engine knows from the store which engines have which workflows, also those
// that an engine has registered while it ran. An engine that was taken over has none.
//
// spec: B-7
func TestARunWhoseWorkflowNoEngineHasNamesTheEngines(t *testing.T) {
	define := func(name string) *perdure.Workflow[int, int] {
		return perdure.Define(name, func(ctx context.Context, _ int) (int, error) {
			return 0, perdure.Sleep(ctx, time.Hour)
		})
	}
	for name, beside := range map[string]int{"one engine": 0, "two engines": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { noEngineHas(t, beside, define) })
		})
	}
}

func noEngineHas(t *testing.T, beside int, define func(string) *perdure.Workflow[int, int]) {
	late := define("late")
	c := world.NewCluster(t, 1, define("early"))
	for range beside {
		c.Node(define("other")).Begin()
	}
	defer c.End()
	outside, err := perdure.NewClient(t.Context(), c.DB.Beside())
	world.NoError(t, err)
	for id, o := range map[string][]perdure.StartOption{
		"now": nil, "later": {schedule.At(time.Now().Add(90 * time.Minute))},
	} {
		_, err := outside.Start(t.Context(), "late", []byte("1"), append(o, perdure.ID(id))...)
		world.NoError(t, err)
	}
	why := func(id string) string {
		t.Helper()
		synctest.Wait()
		d, err := outside.Describe(t.Context(), id)
		world.NoError(t, err)
		return d.Why
	}
	time.Sleep(time.Second)
	const none = "no engine has workflow late: engine "
	if got := why("now"); !strings.HasPrefix(got, none) || !strings.Contains(got, " has early") ||
		strings.Contains(got, " has other") != (beside > 0) {
		t.Errorf("a run that is due: %q", got)
	}
	if got := why("later"); !strings.HasPrefix(got, "it begins at ") ||
		!strings.Contains(got, "; "+none) {
		t.Errorf("a run that is not due: %q", got)
	}
	world.NoError(t, c.Nodes[0].Engine.Register(late))
	if got := why("now"); !strings.HasPrefix(got, "it waits for timer ") {
		t.Errorf("when an engine has it, a run that was due: %q", got)
	}
	if got := why("later"); !strings.HasPrefix(got, "it begins at ") ||
		strings.Contains(got, "no engine") {
		t.Errorf("when an engine has it, a run that is not due: %q", got)
	}
	if beside > 0 {
		c.Kill(c.Nodes[0])
		time.Sleep(time.Minute)
		if got := why("now"); !strings.HasPrefix(got, "it waits for timer ") ||
			!strings.Contains(got, "; "+none) || strings.Contains(got, "early") {
			t.Errorf("when that engine has died: %q", got)
		}
	}
}
