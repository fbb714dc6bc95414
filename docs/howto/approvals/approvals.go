// Package howto is the code of the page about approvals.
package howto

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/approval/form"
	"github.com/perdure/perdure/journal"
)

const day = 24 * time.Hour

// A Request asks for a discount.
type Request struct {
	Order   string `json:"order"`
	Percent int    `json:"percent"`
}

// granted is the form of an approval.
var granted = form.Of(`{
	"type": "object", "required": ["percent"],
	"properties": {"percent": {"type": "integer", "minimum": 1, "maximum": 50}}
}`)

// Discount waits for a manager, and after two days for a director, too.
var Discount = perdure.Define("discount", func(ctx context.Context, r Request) (string, error) {
	out, err := approval.Wait(ctx, approval.Ask{
		Key: "discount", Title: "a discount for order " + r.Order, Form: granted,
		Role: "manager", Within: 5 * day, Remind: day,
		Escalate: []approval.Escalation{{After: 2 * day, Role: "director"}},
	})
	if err != nil {
		return "", err
	}
	switch out.Status {
	case approval.Approved:
		return "granted: " + string(out.Last().Data), nil
	case approval.Rejected:
		return "rejected by " + out.Last().By, nil
	}
	return "nobody has decided", nil
})

// Large needs two of three people.
var Large = perdure.Define("large", func(ctx context.Context, r Request) (bool, error) {
	out, err := approval.Wait(ctx, approval.Ask{
		Key: "large", Title: "a large discount for order " + r.Order,
		Role: "director", Quorum: 2, Of: 3,
	})
	return out.IsApproved(), err
})

// Decide takes the decision of the user that is logged in. Who they are and what they may do comes
// from the session, and not from the form.
func Decide(c perdure.Caller, user, role string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d := approval.Decision{
			Approved: r.FormValue("answer") == "yes", By: user, Role: role,
			Reason: r.FormValue("reason"), Data: []byte(r.FormValue("data")),
			AssertedBy: "the shop's back office",
		}
		if !d.Approved {
			d.Data = nil
		}
		receipt, err := approval.Decide(r.Context(), c, r.PathValue("run"), "discount", d)
		switch journal.CodeOf(err) {
		case "":
			_, _ = w.Write([]byte(receipt.String()))
		case journal.CodeUnauthorised:
			http.Error(w, err.Error(), http.StatusForbidden)
		case journal.CodeInvalid:
			http.Error(w, err.Error(), http.StatusBadRequest)
		case journal.CodeConflict:
			http.Error(w, err.Error(), http.StatusConflict)
		default:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
}

// Link returns the address of a page that rejects a request in the name of a manager.
func Link(ctx context.Context, c perdure.Caller, run, manager string) (string, error) {
	text, err := approval.Token(ctx, c, run, "discount", approval.Decision{
		By: manager, Role: "manager", Reason: "by mail",
	}, 3*day)
	return "https://shop.example.com/ops/decide#" + text, err
}

// Press is behind the button of that page.
func Press(ctx context.Context, c perdure.Caller, token string) error {
	_, err := approval.DecideByToken(ctx, c, token, "", nil)
	if errors.Is(err, approval.ErrExpired) {
		return errors.New("the link has expired")
	}
	return err
}
