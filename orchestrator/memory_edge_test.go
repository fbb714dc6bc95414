package orchestrator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
)

// panics is a memory whose clean-up panics.
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

// A stateless handler may get an error event that it has no case for. It does not answer with
// another error.
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

// A record has each event of a day, and is written with each event, so an event takes few bytes.
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

// An event that is addressed to another orchestrator is ignored.
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

// The publisher was down for longer than the tries, and the next event is a violation. The events
// of the first are published all the same.
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

// An instance may be in a state that a new release of its chart lacks. Its events are not counted
// as handled.
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
