package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/perduretest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
)

// counter returns the orchestrator that counts, on the kernel.
func counter(more ...func(*orchestrator.Orchestrator)) *orchestrator.Durable {
	o := orchestrator.Orchestrator{
		Source:   "counter",
		Versions: []orchestrator.Version{{Initial: []string{"begin"}, Handle: counts}},
	}
	for _, f := range more {
		f(&o)
	}
	return orchestrator.Define(o)
}

// emitted returns the types and data of the events in the journals of a workflow ID, in order.
func emitted(env *perduretest.Env, id string) (all []string) {
	env.Helper()
	err := env.Do(func(e *perdure.Engine) (err error) {
		all, err = journaled(env.Context(), e, id)
		return err
	})
	if err != nil {
		env.Fatal(err)
	}
	return all
}

func journaled(ctx context.Context, e *perdure.Engine, id string) (all []string, err error) {
	heads, _, err := e.List(ctx, perdure.Query{WorkflowID: id})
	if err != nil {
		return nil, err
	}
	for i := range heads {
		h := &heads[len(heads)-1-i] // the newest is first
		entries, err := e.History(ctx, string(h.ID), 1, 100_000)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if entry.Detail == nil || entry.Detail.Event == "" {
				continue
			}
			var ev event.Event
			if err := json.Unmarshal(entry.Data, &ev); err != nil {
				return nil, err
			}
			all = append(all, ev.Type+" "+string(ev.Data))
		}
	}
	return all, nil
}

// handles delivers an event until it is handled, over crashes.
func handles(env *perduretest.Env, d *orchestrator.Durable, e event.Event) (
	out orchestrator.Outcome) {
	env.Helper()
	err := env.Do(func(engine *perdure.Engine) (err error) {
		out, err = d.On(env.Context(), engine, e)
		if failed := (*orchestrator.TransactionError)(nil); errors.As(err, &failed) {
			return failed.Err
		}
		return err
	})
	if err != nil {
		env.Fatalf("event %s: %v", e.ID, err)
	}
	return out
}

// spec
func TestOnTheKernelACrashAnywhereNeitherLosesNorDoublesAnEvent(t *testing.T) {
	want := []string{
		"counted0 1", "counted1 1", "counted0 2", "counted1 2", "counted0 3", "counted1 3",
	}
	d := counter()
	perduretest.CrashEverywhere(t, func(env *perduretest.Env) any {
		var outs []string
		for _, e := range []event.Event{
			happens("1", "begin"), happens("2", "add"), happens("1", "begin"), happens("3", "end"),
			happens("4", "add"),
		} {
			out := handles(env, d, e)
			if out == orchestrator.EventDuplicate { // the first try may have been cut off
				out = orchestrator.EventAccepted
			}
			outs = append(outs, string(out))
			env.Settle()
		}
		if got := strings.Join(outs, " "); got != "accepted accepted accepted accepted ignored" {
			env.Errorf("the events are %s", got)
		}
		got := emitted(env, "counter:a")
		if !slices.Equal(got, want) {
			env.Errorf("the journal has the events %q", got)
		}
		return got
	}, d)
}

// spec
func TestTheOutcomesOfEventsOnTheKernel(t *testing.T) {
	count := &orchestrator.Counter{}
	d := counter(func(o *orchestrator.Orchestrator) { o.Observe = count.Count })
	perduretest.Test(t, func(env *perduretest.Env) {
		for i, c := range []struct {
			id, kind string
			want     orchestrator.Outcome
		}{
			{"0", "add", orchestrator.EventIgnored}, // only an initial type creates an instance
			{"1", "begin", orchestrator.EventAccepted},
			{"1", "begin", orchestrator.EventAccepted}, // and a duplicate in its turn
			{"2", "begin", orchestrator.EventAccepted},
			{"2", "begin", orchestrator.EventDuplicate},
			{"3", "break", orchestrator.EventAccepted}, {"4", "add", orchestrator.EventIgnored},
			{"5", "begin", orchestrator.EventIgnored},
		} {
			if out := handles(env, d, happens(c.id, c.kind)); out != c.want {
				t.Errorf("event %d, %s, is %s, want %s", i, c.kind, out, c.want)
			}
			env.Sleep(time.Minute)
		}
		run, err := d.Get(env.Context(), env.Engine(), "counter:a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(env.Context()); err == nil || !strings.Contains(err.Error(), "no") {
			t.Errorf("the run ends with %v", err)
		}
		got := emitted(env, "counter:a")
		if len(got) != 5 || got[4] != orchestrator.SystemError+` {"error":"no"}` {
			t.Errorf("the events are %q", got)
		}
	}, d)
	if got := count.Counts(); got["handled"] != 2 || got["duplicate"] != 2 || got["ignored"] != 3 ||
		got["failed"] != 1 || got["accepted"] != 4 {
		t.Errorf("counted: %v", got)
	}
}

// spec
func TestOnTheKernelAViolationLeavesTheStateAsItWas(t *testing.T) {
	d := orchestrator.Define(orchestrator.Orchestrator{
		Source: "pay", Versions: []orchestrator.Version{pays("v:1"), pays("v:2")},
	})
	const good = `{"cents": 5, "to": "x"}`
	foreign, long := paying("6", "more", "", good), paying("7", "pay", "", good)
	foreign.Extensions = map[string]string{event.ExtParent: "x"}
	long.Subject = strings.Repeat("a b", 90)
	wide := paying("8", "pay", "", good)
	wide.Extensions = map[string]string{event.ExtParent: strings.Repeat("p", 1025)}
	perduretest.Test(t, func(env *perduretest.Env) {
		for _, c := range []struct {
			e    event.Event
			want string
		}{
			{paying("1", "pay", "v:3", good), `"v:3" is not known`}, // it creates no instance
			{paying("1", "pay", "v:1", "{}"), "data of pay: "},
			{paying("1", "pay", "v:1", good), ""},
			{paying("3", "more", "", `{"cents": -1}`), "data of more: "},
			{paying("4", "strange", "", good), `"strange" is not valid`},
			{long, "is too long"}, {wide, "is too long"},
			{event.Event{ID: "9"}, "subject is missing"},
		} {
			_, err := d.On(env.Context(), env.Engine(), c.e)
			if v := (*orchestrator.Violation)(nil); errors.As(err, &v) != (c.want != "") ||
				err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("event %s: %v, want %s", c.e.ID, err, c.want)
			}
		}
		env.Settle()
		before := emitted(env, "pay:a")
		for _, e := range []event.Event{foreign, paying("5", "any", "", "null")} {
			handles(env, d, e)
			env.Settle()
		}
		if got := emitted(env, "pay:a"); !slices.Equal(got, before) {
			t.Errorf("the events are %q", got)
		}
		operator := admin.New(env.Engine())
		letters, _, err := operator.DeadLetters(env.Context(), admin.DeadLetterQuery{})
		if err != nil || len(letters) != 2 ||
			!strings.Contains(letters[0].Error+letters[1].Error, `parentsubject is "x"`) ||
			!strings.Contains(letters[0].Error+letters[1].Error, "event 3 of the handler") {
			t.Errorf("the dead letters are %+v, %v", letters, err)
		}
		handles(env, d, paying("10", "more", "", good))
		env.Settle()
		if got := emitted(env, "pay:a"); len(got) != 2 ||
			!strings.HasPrefix(got[1], "v:1.paid") {
			t.Errorf("the events are %q", got)
		}
	}, d)
}

// A run with many events goes on with a new journal, and knows its state and events.
//
// spec: A-11
func TestAnInstanceOnTheKernelOutlivesItsJournals(t *testing.T) {
	d := counter()
	perduretest.Test(t, func(env *perduretest.Env) {
		const many = 450
		for i := range many {
			kind := "add"
			if i == 0 {
				kind = "begin"
			}
			if out := handles(env, d, happens(fmt.Sprint(i), kind)); out != "accepted" {
				t.Fatalf("event %d is %s", i, out)
			}
		}
		env.Settle()
		for _, id := range []string{"1", "199", "200", "449"} {
			if out := handles(env, d, happens(id, "add")); out != orchestrator.EventDuplicate {
				t.Errorf("event %s is %s", id, out)
			}
		}
		handles(env, d, happens("last", "end"))
		run, err := d.Get(env.Context(), env.Engine(), "counter:a")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := run.Result(env.Context()); err != nil || string(n) != fmt.Sprint(many+1) {
			t.Errorf("the last state is %s, %v", n, err)
		}
	}, d)
}

// Deliveries to one instance at the same time, some of them twice, and the first ones at once.
//
// spec
func TestEventsThatComeAtOnceAreHandledOneAfterTheOther(t *testing.T) {
	d := counter()
	perduretest.Test(t, func(env *perduretest.Env) {
		const senders, each = 8, 5
		outs := make(chan orchestrator.Outcome, 2*senders*each)
		for range 2 {
			for i := range senders {
				go func() {
					for n := range each {
						out, err := d.On(env.Context(), env.Engine(),
							happens(fmt.Sprint(i, ".", n), "begin"))
						if err != nil {
							t.Error(err)
						}
						outs <- out
					}
				}()
			}
		}
		count := map[orchestrator.Outcome]int{}
		for range 2 * senders * each {
			count[<-outs]++
		}
		// the first event of the instance is accepted again, and is a duplicate in its turn
		if n := count["accepted"]; n != senders*each && n != senders*each+1 ||
			n+count["duplicate"] != 2*senders*each {
			t.Errorf("outcomes: %v", count)
		}
		env.Settle()
		got := emitted(env, "counter:a")
		for i := range senders * each {
			if got[2*i] != fmt.Sprint("counted0 ", i+1) {
				t.Fatalf("the events are %q", got)
			}
		}
	}, d)
}

// spec: A-10
func TestOnTheKernelAnEventThatIsAskedForAgainIsTriedAgain(t *testing.T) {
	n := 0
	d := orchestrator.Define(orchestrator.Orchestrator{Source: "again",
		Versions: []orchestrator.Version{{Initial: []string{"begin"},
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				if n++; n < 3 {
					return orchestrator.Again(errCrash)
				}
				t.Finish()
				return t.Become(n)
			}}}})
	perduretest.Test(t, func(env *perduretest.Env) {
		handles(env, d, happens("1", "begin"))
		perduretest.Get(env, d.Workflow, "again:a").Returns(json.RawMessage("3"))
	}, d)
}

// Children returns the oldest child first.
//
// spec: A-12
func TestChildrenOnTheKernelAreFoundByTheirParent(t *testing.T) {
	d := counter()
	subjects := []string{"d", "b c", "e/世界"}
	perduretest.Test(t, func(env *perduretest.Env) {
		for _, subject := range subjects {
			e := happens("1", "begin")
			e.Subject, e.Extensions = subject, map[string]string{event.ExtParent: "a"}
			handles(env, d, e)
			env.Sleep(time.Second)
		}
		handles(env, d, happens("1", "begin"))
		env.Settle()
		if err := env.Engine().Cancel(env.Context(), "counter:d", "by mistake"); err != nil {
			t.Fatal(err)
		}
		env.Settle()
		if _, err := env.Engine().Retry(env.Context(), "counter:d"); err != nil {
			t.Fatal(err) // its new run is not an older or a younger child
		}
		env.Settle()
		got, err := d.Children(env.Context(), env.Engine().Client, "a")
		if err != nil || !slices.Equal(got, subjects) {
			t.Errorf("%q, %v", got, err)
		}
	}, d)
}

// The publisher of the engine gets the events of instances in order, as CloudEvents.
//
// spec
func TestThePublisherGetsTheEventsOfInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := counter()
		got := make(chan perdure.Event, 10)
		engine, err := perdure.New(store.Store(memory.New()), perdure.Options{
			Publisher: func(_ context.Context, e perdure.Event) error {
				got <- e
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := engine.Register(d); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- engine.Run(ctx) }()
		e := happens("1", "begin")
		e.Extensions = map[string]string{event.ExtTrace: "00-1-2-01"}
		if _, err := d.On(ctx, engine, e); err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			p := <-got
			var e event.Event
			if err := json.Unmarshal(p.Data, &e); err != nil || p.Kind != event.Kind ||
				p.Type != fmt.Sprint("counted", i) || e.Type != p.Type || p.Key != "a" ||
				e.Source != "counter" || e.Extensions[event.ExtTrace] != "00-1-2-01" ||
				e.Extensions[event.ExtCause] != "1" {
				t.Errorf("%+v, %+v, %v", p, e, err)
			}
		}
		stop()
		<-ended
	})
}
