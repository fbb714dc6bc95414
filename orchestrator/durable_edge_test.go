package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/perduretest"
)

func statusOf(env *perduretest.Env, id string) perdure.Description {
	env.Helper()
	d, err := env.Engine().Describe(env.Context(), id)
	if err != nil {
		env.Fatal(err)
	}
	return d
}

// Around may fail for a while (a limit, a store of traces that is down). The instance waits for it.
//
// spec: A-10
func TestAnErrorOfAroundDoesNotEndAnInstance(t *testing.T) {
	down := false
	d := counter(func(o *orchestrator.Orchestrator) {
		o.Around = func(ctx context.Context, e event.Event,
			handle func(context.Context, event.Event) (orchestrator.Outcome, error)) (
			orchestrator.Outcome, error) {
			if down {
				return "", errors.New("the limit is reached")
			}
			return handle(ctx, e)
		}
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		handles(env, d, happens("1", "begin"))
		env.Settle()
		down = true
		handles(env, d, happens("2", "add"))
		env.Sleep(time.Minute)
		down = false
		env.Sleep(time.Hour)
		if s := statusOf(env, "counter:a").Head.Status; s != journal.Waiting {
			t.Errorf("the instance is %v", s)
		}
		if got := emitted(env, "counter:a"); len(got) != 4 {
			t.Errorf("the events are %q", got)
		}
		if out := handles(env, d, happens("3", "add")); out != orchestrator.EventAccepted {
			t.Errorf("the next event is %s", out)
		}
	}, d)
}

// A retry or fork of an instance that was cut off: events that were consumed stay known.
//
// spec: A-11
func TestARetriedInstanceKnowsItsEvents(t *testing.T) {
	d := counter()
	perduretest.Test(t, func(env *perduretest.Env) {
		handles(env, d, happens("1", "begin"))
		handles(env, d, happens("2", "add"))
		env.Settle()
		if err := env.Engine().Cancel(env.Context(), "counter:a", "by mistake"); err != nil {
			t.Fatal(err)
		}
		env.Settle()
		if _, err := env.Engine().Retry(env.Context(), "counter:a"); err != nil {
			t.Fatal(err)
		}
		env.Settle()
		handles(env, d, happens("1", "add")) // a duplicate in its turn
		if out := handles(env, d, happens("2", "add")); out != orchestrator.EventDuplicate {
			t.Errorf("event 2 is %s when it is delivered again", out)
		}
		env.Settle()
		handles(env, d, happens("3", "add"))
		env.Settle()
		got := emitted(env, "counter:a")
		if got[len(got)-1] != "counted1 3" {
			t.Errorf("the events are %q", got)
		}
	}, d)
}

// An event that is too large is a violation and leaves no run.
//
// spec: A-10
func TestAnEventThatIsTooLargeCreatesNothing(t *testing.T) {
	d := counter()
	perduretest.Setup{
		Workflows: []perdure.Definition{d}, Options: perdure.Options{MaxPayload: 10_000},
	}.Test(t, func(env *perduretest.Env) {
		e := happens("1", "begin")
		e.Data = []byte(`"` + strings.Repeat("x", 20_000) + `"`)
		_, err := d.On(env.Context(), env.Engine(), e)
		if v := (*orchestrator.Violation)(nil); !errors.As(err, &v) {
			t.Errorf("%T: %v; another try cannot work", err, err)
		}
		all, _, err := env.Engine().List(env.Context(), perdure.Query{})
		if err != nil || len(all) != 0 {
			t.Errorf("%d runs, %v", len(all), err)
		}
	})
}

// The state or an event of the handler is too large: the initiator hears of it.
//
// spec: A-10
func TestTheInitiatorHearsOfAStateThatIsTooLarge(t *testing.T) {
	calls := 0
	d := orchestrator.Define(orchestrator.Orchestrator{
		Source: "big", Versions: []orchestrator.Version{{
			Initial: []string{"begin"},
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				calls++
				return t.Become(strings.Repeat("x", 20_000))
			},
		}},
	})
	perduretest.Setup{
		Workflows: []perdure.Definition{d}, Options: perdure.Options{MaxPayload: 10_000},
	}.Test(t, func(env *perduretest.Env) {
		handles(env, d, happens("1", "begin"))
		env.Sleep(time.Hour)
		got := emitted(env, "big:a")
		if len(got) != 1 || !strings.HasPrefix(got[0], orchestrator.SystemError) {
			t.Errorf("the run is %v after %d calls, its events are %q",
				statusOf(env, "big:a").Head.Status, calls, got)
		}
	})
}

// Events in the inbox of a run that ends are counted.
//
// spec: A-11
func TestEventsAfterTheEndAreCounted(t *testing.T) {
	count := &orchestrator.Counter{}
	d := counter(func(o *orchestrator.Orchestrator) { o.Observe = count.Count })
	perduretest.Test(t, func(env *perduretest.Env) {
		handles(env, d, happens("1", "begin"))
		for env.Engine().Suspend(env.Context(), "counter:a", "both are to wait") != nil {
			env.Sleep(time.Second)
		}
		env.Settle()
		handles(env, d, happens("2", "end"))
		handles(env, d, happens("3", "add"))
		if err := env.Engine().Resume(env.Context(), "counter:a"); err != nil {
			t.Fatal(err)
		}
		env.Settle()
		if n := count.Counts(); n["handled"] != 2 || n["ignored"] != 1 {
			t.Errorf("counted: %v", n)
		}
	}, d)
}

// The handler of a first event may break the contract by what it emits. No open run is left.
//
// spec
func TestAViolationLeavesNoEmptyInstance(t *testing.T) {
	d := counter()
	perduretest.Test(t, func(env *perduretest.Env) {
		bad := orchestrator.Define(orchestrator.Orchestrator{
			Source: "bad", Versions: []orchestrator.Version{{
				Initial: []string{"bad"}, Handle: counts,
			}},
		})
		if err := env.Engine().Register(bad); err != nil {
			t.Fatal(err)
		}
		handles(env, bad, happens("1", "bad"))
		env.Sleep(240 * time.Hour)
		if s := statusOf(env, "bad:a").Head.Status; !s.IsTerminal() {
			t.Errorf("after ten days the run without an instance is %v", s)
		}
	}, d)
}

// Somebody may start a run of the workflow with an ID that no instance has. It is no child.
func TestChildrenSurviveARunWithAnotherID(t *testing.T) {
	d := counter()
	perduretest.Test(t, func(env *perduretest.Env) {
		_, err := env.Engine().Start(env.Context(), "counter", []byte("null"), perdure.ID("x"),
			perdure.Attributes{"parent": "a"})
		if err != nil {
			t.Fatal(err)
		}
		env.Settle()
		got, err := d.Children(env.Context(), env.Engine().Client, "a")
		if err != nil || len(got) > 0 {
			t.Errorf("%q, %v", got, err)
		}
	}, d)
}

// A definition without a handler is refused.
func TestDefineFindsTheDefectsOfVersions(t *testing.T) {
	d := orchestrator.Define(orchestrator.Orchestrator{
		Source: "none", Versions: []orchestrator.Version{{Initial: []string{"begin"}}},
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		if err := env.Engine().Register(d); err == nil {
			t.Error("a version without a handler is registered")
		}
	})
}

// A signal that is no event, by a route or an operator, breaks no instance.
func TestASignalThatIsNoEventBreaksNoInstance(t *testing.T) {
	d := counter()
	perduretest.Test(t, func(env *perduretest.Env) {
		handles(env, d, happens("1", "begin"))
		env.Settle()
		_, err := env.Engine().Send(env.Context(), "counter:a", "event", []byte(`{"order": 1}`))
		if err != nil {
			t.Fatal(err)
		}
		env.Settle()
		if s := statusOf(env, "counter:a").Head.Status; s.IsTerminal() {
			t.Errorf("the instance is %v", s)
		}
	}, d)
}

// The parent is still found after the journal was turned over.
//
// spec: A-12
func TestAChildIsFoundAfterItsTurnover(t *testing.T) {
	d := counter()
	perduretest.Test(t, func(env *perduretest.Env) {
		for i := range 250 {
			e := happens(fmt.Sprint(i), "begin")
			e.Extensions = map[string]string{event.ExtParent: "p"}
			handles(env, d, e)
		}
		env.Settle()
		first, _, err := env.Engine().List(env.Context(), perdure.Query{
			Attributes: map[string]string{"parent": "p"}, Open: true,
		})
		if err != nil || len(first) != 1 {
			t.Errorf("%d open children, %v", len(first), err)
		}
	}, d)
}

// Remember holds over the clean-up of the store, also after a turnover.
//
// spec: A-11
func TestAnEndedInstanceIsRememberedOverTheCleanUp(t *testing.T) {
	d := counter(func(o *orchestrator.Orchestrator) { o.Remember = 48 * time.Hour })
	perduretest.Setup{
		Workflows: []perdure.Definition{d},
		Options: perdure.Options{
			CleanUp: time.Minute, Retention: perdure.Retention{Period: time.Hour},
		},
	}.Test(t, func(env *perduretest.Env) {
		for i := range 250 {
			handles(env, d, happens(fmt.Sprint(i), "begin"))
		}
		handles(env, d, happens("end", "end"))
		env.Sleep(40 * time.Hour)
		for _, id := range []string{"3", "220", "end", "new"} {
			if out := handles(env, d, happens(id, "begin")); out == orchestrator.EventAccepted {
				t.Errorf("event %s is %s", id, out)
			}
		}
	})
}

// An operator forks a broken instance at the event that broke it, after a fix.
func TestAForkHandlesTheEventAgain(t *testing.T) {
	broken := true
	d := orchestrator.Define(orchestrator.Orchestrator{
		Source: "fix", Versions: []orchestrator.Version{{
			Initial: []string{"begin"},
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				if broken && t.Event.Type == "add" {
					return errors.New("a fault")
				}
				t.Emit(event.Event{Type: "did", Data: fmt.Appendf(nil, "%q", t.Event.ID)})
				return nil
			},
		}},
	})
	perduretest.Test(t, func(env *perduretest.Env) {
		if err := env.Engine().Register(d); err != nil {
			t.Fatal(err)
		}
		handles(env, d, happens("1", "begin"))
		env.Settle()
		_ = env.Engine().Suspend(env.Context(), "fix:a", "")
		env.Settle()
		handles(env, d, happens("2", "add"))
		handles(env, d, happens("3", "more"))
		_ = env.Engine().Resume(env.Context(), "fix:a")
		env.Settle()
		broken = false
		path := ""
		h, _ := env.Engine().History(env.Context(), "fix:a", 1, 0)
		for _, e := range h {
			if e.Op.Name == "handle" {
				path = e.Op.String()
			}
		}
		_, err := admin.New(env.Engine()).Act(env.Context(), "fix:a", admin.Order{
			Action: journal.ActionFork, Step: path,
		})
		if err != nil {
			t.Fatal(path, err)
		}
		env.Sleep(time.Minute)
		s := statusOf(env, "fix:a")
		if s.Head.Status != journal.Waiting {
			t.Errorf("after the fork the instance is %v", s.Head.Status)
		}
		for _, id := range []string{"2", "3"} {
			if out := handles(env, d, happens(id, "begin")); out != orchestrator.EventDuplicate {
				t.Errorf("event %s is %s when it is delivered again", id, out)
			}
		}
	})
}

// A client in a transaction of the application does not see the runs that it has started, so On
// refuses it.
func TestAClientInATransactionDeliversNoEvent(t *testing.T) {
	d := counter()
	perduretest.Test(t, func(env *perduretest.Env) {
		_, err := d.On(env.Context(), env.Engine().In(nil), happens("1", "begin"))
		if failed := (*orchestrator.TransactionError)(nil); !errors.As(err, &failed) ||
			journal.CodeOf(err) != journal.CodeMisuse {
			t.Errorf("%v", err)
		}
	}, d)
}
