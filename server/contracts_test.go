package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/perdure/perdure/event/schema"
	"github.com/perdure/perdure/orchestrator"
	"github.com/perdure/perdure/server"
)

// byCode is a schema without a text.
type byCode struct{}

func (byCode) Check(json.RawMessage) error { return errors.New("never") }

// The definition of an orchestrator has its contracts: what it takes and emits in each version. A
// schema has the name of a hidden field, and no value of it: who sends the event needs it.
//
// spec: A-10, B-18
func TestAnOrchestratorShowsItsContracts(t *testing.T) {
	w := begin(t, server.Options{Authenticator: people(t), Redact: []string{"iban"}})
	w.token = operatorToken
	handle := func(context.Context, *orchestrator.Turn) error { return nil }
	if err := w.engine.Register(orchestrator.Define(orchestrator.Orchestrator{
		Source: "parcels",
		Versions: []orchestrator.Version{
			{URI: "parcels/1", Initial: []string{"parcel.given"}, Handle: handle},
			{
				URI: "parcels/2", Initial: []string{"parcel.given"}, Handle: handle,
				Accepts: map[string]orchestrator.Schema{
					"parcel.given": schema.Of(`{"type": "object", "properties": {
						"iban": {"type": "string", "default": "DE89", "enum": ["DE89"]},
						"open": {"type": "integer", "default": 9007199254740993}},
						"examples": [{"iban": "DE89", "open": 1}]}`),
					"parcel.lost":     byCode{},
					"parcel.returned": nil,
				},
				Emits: map[string]orchestrator.Schema{},
			},
		},
	})); err != nil {
		t.Fatal(err)
	}
	got := w.want(200, "GET", api+"/workflows/parcels", "")["contracts"]
	var want any
	if err := json.Unmarshal([]byte(`[
		{"uri": "parcels/1", "initial": ["parcel.given"], "accepts_any": true,
			"emits_any": true},
		{"uri": "parcels/2", "initial": ["parcel.given"], "accepts_any": false,
			"emits_any": false, "accepts": [
			{"type": "parcel.given", "checked": true, "schema": {"type": "object",
				"properties": {"iban": {"type": "string"},
					"open": {"type": "integer", "default": 9007199254740993}},
				"examples": [{"iban": "[redacted]", "open": 1}]}},
			{"type": "parcel.lost", "checked": true},
			{"type": "parcel.returned", "checked": false}
		]}
	]`), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
