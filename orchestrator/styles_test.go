package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
)

// spec
func TestAStatelessHandlerAnswersTheReplyAddressOrTheSender(t *testing.T) {
	p := &post{}
	s := &orchestrator.Stateless{
		Source: "/tax", Publish: p.publish, Observe: p.counts.Count,
		Versions: []orchestrator.Version{
			pays("v:1"),
			{URI: "v:2", Handle: func(_ context.Context, t *orchestrator.Turn) error {
				switch t.Event.Type {
				case "panic":
					panic("no")
				case "silent":
					return nil
				}
				t.Emit(event.Event{Type: "two"})
				t.Emit(event.Event{Type: "two", Extensions: map[string]string{event.ExtTo: "/x"}})
				return nil
			}},
		},
	}
	reply := happens("2", "pay")
	reply.Extensions = map[string]string{event.ExtReplyTo: "/desk"}
	for _, c := range []struct {
		e    event.Event
		want string // types and addresses
		out  orchestrator.Outcome
	}{
		{paying("1", "pay", "v:1", `{"cents": 5, "to": "x"}`), "v:1.paid to /test", "handled"},
		{happens("1", "pay"), "two to /test,two to /x", "handled"},
		{reply, "two to /desk,two to /x", "handled"},
		{happens("3", "silent"), "", "handled"},
		{happens("4", "panic"), orchestrator.SystemError + " to /test", "failed"},
		{paying("5", "pay", "v:1", `{}`), "", ""},
		{paying("6", "pay", "v:9", `{}`), "", ""},
		{paying("7", "any", "v:1", `{}`), "", ""},
		{event.Event{}, "", ""},
	} {
		var ids []string
		for range 2 {
			out, err := s.On(t.Context(), c.e)
			var got, id []string
			for _, e := range p.events {
				got = append(got, e.Type+" to "+e.Extensions[event.ExtTo])
				id = append(id, e.ID)
			}
			v := (*orchestrator.Violation)(nil)
			if strings.Join(got, ",") != c.want || out != c.out ||
				(c.out == "") != errors.As(err, &v) {
				t.Errorf("%s %s: %s, %q, %v", c.e.ID, c.e.Type, out, got, err)
			}
			if ids != nil && !slices.Equal(ids, id) {
				t.Errorf("%s: the IDs are %q, and were %q", c.e.ID, id, ids)
			}
			ids = id
			p.take()
		}
	}
	s.Publish = func(context.Context, []event.Event) error { return errCrash }
	failed := (*orchestrator.TransactionError)(nil)
	if _, err := s.On(t.Context(), happens("1", "pay")); !errors.As(err, &failed) ||
		failed.Op != "publish" {
		t.Error(err)
	}
	if got := p.counts.Counts(); got["failed"] != 2 || got["errors"] != 1 {
		t.Errorf("counted: %v", got)
	}
}

type basket struct{ Items, Cents int }

// shop returns a chart of an order, which needs two items before it is paid.
func shop() orchestrator.Chart[basket] {
	type (
		turn  = orchestrator.Turn
		state = orchestrator.ChartState[basket]
		moves = []orchestrator.Transition[basket]
	)
	tell := func(kind string) func(context.Context, *turn, *basket) error {
		return func(_ context.Context, t *turn, _ *basket) error {
			t.Emit(event.Event{Type: kind})
			return nil
		}
	}
	return orchestrator.Chart[basket]{
		Start: "open",
		States: map[string]state{
			"open": {Entry: tell("opened"), On: map[string]moves{
				"item": {{Do: func(_ context.Context, _ *turn, b *basket) error {
					b.Items++
					return nil
				}}},
				"pay": {
					{Guard: func(_ *turn, b *basket) bool { return b.Items < 2 }, To: "refused"},
					{To: "paid", Do: tell("charge")},
				},
			}},
			"refused": {Entry: tell("refused"), Always: moves{{To: "open"}}},
			"paid": {Entry: tell("paid"), Always: moves{{
				Guard: func(_ *turn, b *basket) bool { return b.Items > 2 }, To: "gift",
			}}, On: map[string]moves{"ship": {{To: "shipped"}}, "lose": {{To: "nowhere"}}}},
			"gift":    {Entry: tell("gift"), Always: moves{{To: "shipped"}}},
			"shipped": {Entry: tell("shipped"), Final: true},
		},
	}
}

// spec: A-14
func TestAChartGoesByItsTransitions(t *testing.T) {
	p := &post{}
	o := p.orchestrator("/shop", orchestrator.Version{Initial: []string{"begin"},
		Handle: shop().Handle})
	id := 0
	for _, c := range []struct {
		subject, events, want string
		ends                  bool
	}{
		{"a", "begin", "opened", false},
		{"a", "item ship unknown pay", "refused opened", false},
		{"a", "item pay", "charge paid", false},
		{"a", "ship", "shipped", true},
		{"b", "begin item item item pay", "opened charge paid gift shipped", true},
		{"c", "begin item item pay", "opened charge paid", false},
		{"c", "lose", orchestrator.SystemError, true},
	} {
		for kind := range strings.FieldsSeq(c.events) {
			id++
			e := happens(string(rune('0'+id)), kind)
			e.Subject = c.subject
			if _, err := o.On(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		s, err := o.Memory.Read(t.Context(), c.subject, nil)
		if got := strings.Join(p.take(), " "); got != c.want || err != nil ||
			(s.Value.Ended != "") != c.ends {
			t.Errorf("%s %s: %s, want %s; %+v, %v", c.subject, c.events, got, c.want, s, err)
		}
	}
}

// spec: A-14
func TestAChartThatGoesRoundInACircleBreaks(t *testing.T) {
	p := &post{}
	type moves = []orchestrator.Transition[int]
	ch := orchestrator.Chart[int]{Start: "a", States: map[string]orchestrator.ChartState[int]{
		"a": {Always: moves{{To: "b"}}}, "b": {Always: moves{{To: "a"}}},
	}}
	o := p.orchestrator("/x", orchestrator.Version{Initial: []string{"begin"}, Handle: ch.Handle})
	if out, err := o.On(t.Context(), happens("1", "begin")); out != orchestrator.EventFailed ||
		err != nil {
		t.Errorf("%s, %v", out, err)
	}
}

// spec: A-14
func TestTheDefectsOfAChartAreNamed(t *testing.T) {
	type moves = []orchestrator.Transition[int]
	err := orchestrator.Chart[int]{Start: "x", States: map[string]orchestrator.ChartState[int]{
		"a": {Always: moves{{}}, On: map[string]moves{"e": {{To: "y"}}}},
		"b": {Final: true, Always: moves{{To: "a"}}},
	}}.Check()
	for _, want := range []string{
		`the start is "x"`, `state "b" is final and has transitions`,
		`state "a" has a transition to "y"`, `state "a" always has a transition that stays`,
		`no transition leads to state "b"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := shop().Check(); err == nil || strings.Count(err.Error(), "\n") != 0 {
		t.Errorf("the defects of the shop are %v, want one", err)
	}
}
