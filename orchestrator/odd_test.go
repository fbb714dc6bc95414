package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
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

// Around denies for a while (a limit, a store of traces that is down). The instance is lost.
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

// An event that is too large leaves a run that never gets an event.
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

// A first event that breaks the contract by what the handler emits leaves an open run.
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

// Children: "the oldest first".
//
// spec: A-12
func TestChildrenComeTheOldestFirst(t *testing.T) {
	d := counter()
	perduretest.Test(t, func(env *perduretest.Env) {
		for _, subject := range []string{"1", "2", "3"} {
			e := happens("1", "begin")
			e.Subject, e.Extensions = subject, map[string]string{event.ExtParent: "a"}
			handles(env, d, e)
			env.Sleep(time.Second)
		}
		got, err := d.Children(env.Context(), env.Engine().Client, "a")
		if err != nil || !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("%q, %v", got, err)
		}
	}, d)
}

// A run of the workflow that somebody has started by another way.
func TestChildrenSurviveARunWithAnotherID(t *testing.T) {
	d := counter()
	perduretest.Test(t, func(env *perduretest.Env) {
		_, err := env.Engine().Start(env.Context(), "counter", []byte("null"), perdure.ID("x"),
			perdure.Attributes{"parent": "a"})
		if err != nil {
			t.Fatal(err)
		}
		env.Settle()
		defer func() {
			if p := recover(); p != nil {
				t.Error(p)
			}
		}()
		_, _ = d.Children(env.Context(), env.Engine().Client, "a")
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

// A clean-up that panics stops nothing.
type panics struct {
	orchestrator.Memory[orchestrator.Record]
}

func (panics) Cleanup(context.Context, string, orchestrator.Change[orchestrator.Record],
	*orchestrator.Metadata) error {
	panic("no")
}

// spec: A-8
func TestACleanUpThatPanicsStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		o := p.begin()
		o.Memory = panics{p}
		var err error
		for range 5 {
			for _, e := range []event.Event{happens("1", "begin"), happens("2", "end")} {
				_, err = o.On(t.Context(), e)
			}
		}
		if got := p.heard(); err != nil || len(got) != 4 {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// Two stateless handlers that do not know each other's errors.
//
// spec: A-14
func TestErrorsAreNotAnsweredWithErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queue []event.Event
		hear := func(_ context.Context, events []event.Event) error {
			queue = append(queue, events...)
			return nil
		}
		all := map[string]*orchestrator.Stateless{}
		for _, source := range []string{"/a", "/b"} {
			all[source] = &orchestrator.Stateless{
				Source: source, Publish: hear, Versions: []orchestrator.Version{{
					Handle: func(_ context.Context, t *orchestrator.Turn) error {
						return errors.New("unknown type " + t.Event.Type)
					},
				}},
			}
		}
		queue = append(queue, event.Event{
			ID: "1", Source: "/a", Type: "x", Subject: "s",
			Extensions: map[string]string{event.ExtTo: "/b"},
		})
		n := 0
		for ; len(queue) > 0 && n < 1000; n++ {
			e := queue[0]
			queue = queue[1:]
			_, _ = all[e.Extensions[event.ExtTo]].On(t.Context(), e)
		}
		if n == 1000 {
			t.Error("one event has led to a thousand errors, and goes on")
		}
	})
}

// A busy instance: the record fits into a value of NATS JetStream (1 MB) on a day.
func TestARecordOfABusyDayIsSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		o := p.begin()
		for i := range 2000 {
			e := happens(fmt.Sprintf("0198a7c2-5f0e-7000-8000-%012d", i), "begin")
			if _, err := o.On(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		s, err := p.memory.Read(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(s.Value)
		if each := len(raw) / 2000; each > 40 {
			t.Errorf("%d bytes for each event: one a second for a day is %d MB, each time", each,
				each*86400>>20)
		}
	})
}

// An event that is for another one.
//
// spec: A-12
func TestAnEventForAnotherOneIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		e := happens("1", "begin")
		e.Extensions = map[string]string{event.ExtTo: "/somebody/else"}
		if out, err := p.begin().On(t.Context(), e); out != orchestrator.EventIgnored {
			t.Errorf("it is %s, %v", out, err)
		}
	})
}

// Emitted events have a time.
//
// spec: A-13
func TestEmittedEventsHaveATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		if _, err := p.begin().On(t.Context(), happens("1", "begin")); err != nil {
			t.Fatal(err)
		}
		if p.outside[0].Time.IsZero() {
			t.Error("there is none")
		}
	})
}

// A dead letter leaves no event in an outbox: the publisher was down for longer than the tries.
//
// spec
func TestAViolationStillEmptiesTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{place: &place{}}
		o := p.begin()
		publish, down := o.Publish, true
		o.Publish = func(ctx context.Context, events []event.Event) error {
			if down {
				return errCrash
			}
			return publish(ctx, events)
		}
		o.Log = slog.New(slog.DiscardHandler)
		_, _ = o.On(t.Context(), happens("1", "begin"))
		down = false
		_, _ = o.On(t.Context(), happens("2", "bad"))
		if got := p.heard(); len(got) != 2 {
			t.Errorf("%q", got)
		}
	})
}

// A chart in a state that a new release does not have any more swallows its events.
//
// spec: A-14
func TestAChartInAStateThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type states = map[string]orchestrator.ChartState[int]
		chart := orchestrator.Chart[int]{Start: "old", States: states{
			"old": {On: map[string][]orchestrator.Transition[int]{"go": {{To: "end"}}}},
			"end": {Final: true},
		}}
		p := &process{place: &place{}}
		o := p.begin()
		o.Versions[0].Handle = chart.Handle
		_, _ = o.On(t.Context(), happens("1", "begin"))
		chart.Start = "new"
		chart.States = states{
			"new": {On: map[string][]orchestrator.Transition[int]{"go": {{To: "end"}}}},
			"end": {Final: true},
		}
		o = p.begin()
		o.Versions[0].Handle = chart.Handle
		if out, err := o.On(t.Context(), happens("2", "go")); out == orchestrator.EventHandled {
			t.Errorf("it is %s, %v", out, err)
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

// A client in a transaction of the application does not see the runs that it has started.
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
