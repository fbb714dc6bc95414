package webhook_test

import (
	"bytes"
	"context"
	"net/http"
	"reflect"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/client"
	sdk "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/perdure/perdure/bus/webhook"
	"github.com/perdure/perdure/event"
)

// foreign returns an event of the SDK, and the same event here.
func foreign(t *testing.T) (sdk.Event, event.Event) {
	t.Helper()
	e := sdk.New()
	e.SetID("7")
	e.SetSource("https://shop.example/orders?a=b#c")
	e.SetType("order.placed")
	e.SetSubject("order ü 7")
	e.SetTime(at)
	e.SetDataSchema("https://shop.example/v1")
	e.SetExtension("number", 7)
	e.SetExtension("yes", true)
	e.SetExtension(event.ExtTrace, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if err := e.SetData("application/json", map[string]string{"a": "ü"}); err != nil {
		t.Fatal(err)
	}
	if err := e.Validate(); err != nil {
		t.Fatal(err)
	}
	return e, event.Event{
		ID: "7", Source: "https://shop.example/orders?a=b#c", Type: "order.placed",
		Subject: "order ü 7", Time: at, Schema: "https://shop.example/v1",
		ContentType: "application/json", Data: []byte(`{"a":"ü"}`),
		Extensions: map[string]string{
			"number": "7", "yes": "true",
			event.ExtTrace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		},
	}
}

// spec: F-11
func TestTheClientOfTheSDKSendsToAHandler(t *testing.T) {
	in := &inbox{}
	url := serve(t, &webhook.Handler{Handle: in.take})
	p, err := cehttp.New(cehttp.WithTarget(url))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(p)
	if err != nil {
		t.Fatal(err)
	}
	e, want := foreign(t)
	for name, ctx := range map[string]context.Context{
		"structured": binding.WithForceStructured(t.Context()),
		"binary":     binding.WithForceBinary(t.Context()),
	} {
		if err := c.Send(ctx, e); err != nil && !isAck(err) {
			t.Errorf("%s: %v", name, err)
		}
		if got := in.taken(); len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%s: %+v has come, want %+v", name, got, want)
		}
	}
	r, err := cehttp.NewHTTPRequestFromEvents(t.Context(), url, []sdk.Event{e, e})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	got := in.taken()
	if resp.StatusCode != 204 || !reflect.DeepEqual(got, []event.Event{want, want}) {
		t.Errorf("batch: %d, %+v has come, want %+v twice", resp.StatusCode, got, want)
	}
}

// isAck reports whether the result of the SDK says that the event was taken.
func isAck(err error) bool {
	result, is := err.(*cehttp.Result)
	return is && result.StatusCode/100 == 2
}

// spec: F-10
func TestASenderSendsToTheReceiverOfTheSDK(t *testing.T) {
	var got sdk.Event
	p, err := cehttp.New()
	if err != nil {
		t.Fatal(err)
	}
	h, err := client.NewHTTPReceiveHandler(t.Context(), p, func(e sdk.Event) { got = e })
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, h)
	_, sent := foreign(t)
	for _, binary := range []bool{false, true} {
		s := &webhook.Sender{URLs: map[string]string{"a": url}, Binary: binary}
		if err := s.Publish(t.Context(), "a", []event.Event{sent}); err != nil {
			t.Fatal(err)
		}
		subject := sent.Subject
		if binary {
			subject = "order%20%C3%BC%207" // the SDK does not decode, as the binding demands
		}
		ext := got.Extensions()
		if err := got.Validate(); err != nil || got.ID() != sent.ID ||
			got.Source() != sent.Source || got.Type() != sent.Type || got.Subject() != subject ||
			!got.Time().Equal(at) ||
			got.DataSchema() != sent.Schema || got.DataContentType() != sent.ContentType ||
			!bytes.Equal(got.Data(), sent.Data) || len(ext) != len(sent.Extensions) ||
			ext["number"] != "7" || ext[event.ExtTrace] != sent.Extensions[event.ExtTrace] {
			t.Errorf("binary %v: %v has come (%v)", binary, got, err)
		}
	}
}
