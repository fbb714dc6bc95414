package ui_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/perdure/perdure/event"
	events "github.com/perdure/perdure/event/schema"
	"github.com/perdure/perdure/orchestrator"
)

// parcels is an orchestrator that asks for a van, and has finished when the van has come.
var parcels = orchestrator.Define(orchestrator.Orchestrator{
	Source: "parcels",
	Versions: []orchestrator.Version{{
		URI: "https://shop.example/parcels/2", Initial: []string{"parcel.given"},
		Accepts: map[string]orchestrator.Schema{
			"parcel.given": events.Of(`{"type": "object", "required": ["grams"],
				"properties": {"grams": {"type": "integer"}}}`),
			"van.come": nil,
		},
		Emits: map[string]orchestrator.Schema{"van.wanted": nil},
		Handle: func(_ context.Context, t *orchestrator.Turn) error {
			if t.Event.Type == "van.come" {
				t.Finish()
				return t.Become("sent")
			}
			t.Emit(event.Event{Type: "van.wanted", Data: t.Event.Data})
			return t.Become("waiting")
		},
	}},
})

// tell delivers an event to the orchestrator.
func (w *world) tell(kind, subject, data string) {
	w.t.Helper()
	e := event.Event{ID: kind, Source: "test", Type: kind, Subject: subject, Data: []byte(data)}
	out, err := parcels.On(w.t.Context(), w.engine, e)
	if err != nil || out != orchestrator.EventAccepted {
		w.t.Fatal(out, err)
	}
}

// The page of an orchestrator shows which events it takes and emits, each with its schema.
//
// spec: B-17, A-10
func TestTheContractsOfAnOrchestrator(t *testing.T) {
	axe := axe(t)
	w := begin(t, "")
	b := browse(w)
	b.open("workflows?pattern=ORCHESTRATOR")
	b.until("document.querySelectorAll('tbody tr').length === 1")
	b.click("tbody a", "parcels")
	b.sees("https://shop.example/parcels/2")
	b.sees("An event of an initial type starts one.")
	b.until("document.querySelector('[aria-label=Accepts] li:first-child')" +
		"?.innerText.includes('initial')")
	b.until("document.querySelector('[aria-label=Emits] li').innerText" +
		".includes('van.wanted')")
	b.click("summary", "schema of its data")
	b.sees("grams")
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		b.audit(axe, "contracts, "+theme)
	}
	b.picture("orchestrator")
	b.size(320, 1200)
	b.until("innerWidth === 320")
	if n := b.number("document.documentElement.scrollWidth"); n > 320 {
		t.Errorf("%d pixels wide on a screen of 320", n)
	}
	b.picture("orchestrator-320")
}

// The run of an orchestrator has a lane of the events that it has received and sent.
//
// spec: B-17, A-10
func TestTheEventsOfAnOrchestratorAreInALane(t *testing.T) {
	w := begin(t, "")
	w.tell("parcel.given", "p1", `{"grams": 7}`)
	b := browse(w)
	b.open("runs/parcels:p1")
	cell := func(row, column int) string {
		return fmt.Sprintf("document.querySelector('[aria-labelledby=lane-title] "+
			"tbody tr:nth-child(%d) td:nth-child(%d)')?.innerText", row, column)
	}
	b.until(cell(1, 2) + ".includes('started by event parcel.given')")
	b.until(cell(2, 4) + ".includes('event van.wanted')")
	b.sees("1 received, 1 sent")
	b.until(cell(3, 2) + ".includes('waits for the next event')")
	w.tell("van.come", "p1", "null")
	b.until(cell(3, 2) + ".includes('event van.come')")
	b.sees("2 received, 1 sent")
	b.until("document.querySelector('.status').innerText.includes('completed')")
	b.picture("lane")
}
