package webhook_test

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/perdure/perdure/bus/webhook"
	"github.com/perdure/perdure/event"
	"github.com/perdure/perdure/orchestrator"
)

// The shop sends an event to the bank, whose orchestrator handles it. Only who has the token may
// send.
func Example() {
	const token = "Bearer s3cret"
	bank := orchestrator.Stateless{
		Source: "/bank",
		Versions: []orchestrator.Version{{
			Handle: func(_ context.Context, t *orchestrator.Turn) error {
				fmt.Println(t.Event.Type, string(t.Event.Data))
				return nil
			},
		}},
		Publish: func(context.Context, []event.Event) error { return nil },
	}
	s := httptest.NewServer(&webhook.Handler{
		Handle: func(ctx context.Context, e event.Event) error {
			_, err := bank.On(ctx, e)
			return err
		},
		Authorize: func(r *http.Request) error {
			got := []byte(r.Header.Get("Authorization"))
			if subtle.ConstantTimeCompare(got, []byte(token)) != 1 {
				return errors.New("another token")
			}
			return nil
		},
	})
	defer s.Close()

	shop := &webhook.Sender{
		URLs:    map[string]string{"payments": s.URL},
		Headers: http.Header{"Authorization": {token}},
	}
	publish := shop.To("payments") // the Publish of an orchestrator
	fmt.Println(publish(context.Background(), []event.Event{{
		ID: "1", Source: "/shop", Type: "payment.wanted", Subject: "order-7", Data: []byte("1250"),
	}}))
	fmt.Println(publish(context.Background(), []event.Event{{
		ID: "2", Source: "/shop", Type: "payment.wanted", // it has no subject
	}}))
	// Output:
	// payment.wanted 1250
	// <nil>
	// webhook: event "2" to topic "payments": the receiver answers 400 Bad Request: "event 1, \"2\", is rejected: orchestrator: event 2: subject is missing: it names the instance"
}
