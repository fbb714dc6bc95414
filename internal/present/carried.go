package present

import (
	"errors"
	"time"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/journal"
)

// Carried returns the form of the decision of a token. It has nothing of the decisions of others.
func Carried(c approval.Carried) api.Carried {
	out := api.Carried{
		Approved: c.Decision.Approved, By: c.Decision.By, Role: c.Decision.Role,
		Reason: c.Decision.Reason, Expires: c.Expires.UTC(), Workflow: c.Workflow,
		Key: c.State.Key, Title: c.State.Title, Form: api.Data(c.State.Form), State: "open",
		Asked: instant(c.State.Asked), Due: instant(c.State.Due),
	}
	if c.Err == nil {
		return out
	}
	out.State, out.Why = "over", c.Err.Error()
	if e := new(journal.Error); errors.As(c.Err, &e) && e.Message != "" {
		out.Why = e.Message
	}
	switch {
	case c.Made:
		out.State = "made"
	case c.State.Status != approval.Open: // the message says who has decided
		out.Why = "it is " + string(c.State.Status) + " already"
	}
	return out
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
