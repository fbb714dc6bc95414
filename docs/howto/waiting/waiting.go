// Package howto is the code of the page about waiting for people and webhooks.
package howto

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/callback"
	"github.com/perdure/perdure/update"
)

// A Payment is a report of the payment provider. Money is in cents.
type Payment struct {
	Event string `json:"event"` // the provider's ID of this report
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// Paid brings a payment to the run of an order.
var Paid = perdure.NewSignal[Payment]("paid")

// An Answer is the decision of a person.
type Answer struct {
	By       string
	Approved bool
}

// Answered brings an answer to a run.
var Answered = perdure.NewSignal[Answer]("answered")

var (
	errNotPositive = errors.New("the amount is not above 0")
	errTooMuch     = errors.New("the order would be too large")
)

// Raise adds to the amount of an order. Nobody can take something off by it.
var Raise = update.New[int, int]("raise", func(cents int) error {
	if cents <= 0 {
		return errNotPositive
	}
	return nil
})

// Growing is an order whose amount grows until it is paid.
var Growing = perdure.Define("growing", func(ctx context.Context, cents int) (int, error) {
	if err := Raise.Serve(ctx, func(ctx context.Context, more int) (int, error) {
		if cents+more > 10_000 {
			return 0, errTooMuch
		}
		cents += more
		return cents, nil
	}); err != nil {
		return 0, err
	}
	_, err := Paid.Wait(ctx)
	return cents, err
})

const day = 24 * time.Hour

// Order waits for its payment, and reminds the customer once.
var Order = perdure.Define("order", func(ctx context.Context, id string) (string, error) {
	paid, err := Paid.Wait(ctx, perdure.Within(3*day))
	if errors.Is(err, context.DeadlineExceeded) {
		if err := mail(ctx, "remind", id); err != nil {
			return "", err
		}
		paid, err = Paid.Wait(ctx, perdure.Within(4*day))
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "not paid in a week", mail(ctx, "give-up", id)
	}
	if err != nil {
		return "", err
	}
	return "paid by " + paid.Event, nil
})

// Expense waits for an answer of the manager, whatever others send meanwhile.
var Expense = perdure.Define("expense", func(ctx context.Context, id string) (bool, error) {
	answer, err := Answered.Wait(ctx, perdure.Where(func(a Answer) bool {
		return a.By == "manager"
	}))
	return answer.Approved, err
})

// Failed brings the provider's report that a payment has failed.
var Failed = perdure.NewSignal[Payment]("failed")

// Either waits for whichever report comes first.
var Either = perdure.Define("either", func(ctx context.Context, id string) (string, error) {
	paid, failed := Paid.Future(ctx), Failed.Future(ctx)
	first, err := perdure.Any(ctx, nil, paid, failed)
	switch {
	case err != nil:
		return "", err
	case first == 1:
		return "the payment has failed", nil
	}
	p, err := paid.Await(ctx)
	return "paid by " + p.Event, err
})

// Bank asks the bank for a payment. The bank calls the address when it has it.
var Bank = func(context.Context, string, string) error { return nil }

// Charge asks the bank, and waits for the answer of whoever has the token.
var Charge = perdure.Define("charge", func(ctx context.Context, id string) (string, error) {
	card, err := callback.New[Payment](ctx, "card", perdure.Within(day))
	if err != nil {
		return "", err
	}
	err = perdure.Do(ctx, "ask-bank", func(ctx context.Context) error {
		token, err := card.Token(ctx)
		if err != nil {
			return err
		}
		return Bank(ctx, id, "https://shop.example/paid?token="+token)
	})
	if err != nil {
		return "", err
	}
	paid, err := card.Await(ctx)
	if errors.Is(err, callback.ErrFailed) {
		return "not paid", nil
	}
	return "paid by " + paid.Event, err
})

// PaidLink takes the answer of whoever has the token.
func PaidLink(engine *perdure.Engine) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var p Payment
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		err := callback.Succeed(r.Context(), engine, r.URL.Query().Get("token"), p)
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case errors.Is(err, callback.ErrMalformed), errors.Is(err, callback.ErrForged):
			http.Error(w, "no such link", http.StatusNotFound)
		case errors.Is(err, callback.ErrExpired), errors.Is(err, callback.ErrEnded):
			http.Error(w, "the link has expired", http.StatusGone)
		case errors.Is(err, callback.ErrAnswered):
			http.Error(w, "it was answered otherwise", http.StatusConflict)
		default:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

func mail(ctx context.Context, name, order string) error {
	_, err := perdure.Step(ctx, name, func(context.Context) (string, error) {
		return "a mail about " + order, nil
	})
	return err
}

// Webhook receives the provider's reports. It acknowledges a payment when it is durable and an
// open run has it, so the provider repeats a report that came too early or too late; the key
// makes one payment of all of them.
func Webhook(engine *perdure.Engine) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var p Payment
		if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d, err := Paid.Send(r.Context(), engine, p.Order, p, perdure.SendKey(p.Event))
		switch {
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case d.NotDelivered || d.RunID == "": // unrouted, now or by an earlier report
			http.Error(w, "no order "+p.Order+" is open", http.StatusConflict)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}
}
