package actor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
)

// patience is how long a sender waits for a reply. The run may wait for something else meanwhile;
// then the message is sent again, with the same key.
const patience = 100 * time.Millisecond

func (x *dealing) keyOf(m program.Message) perdure.SendKey {
	return perdure.SendKey(fmt.Sprintf("%s.%d", m.Key, x.retried))
}

// update sends an update. Whenever a reply comes, it is the same.
func (x *dealing) update(ctx context.Context, c *perdure.Client, m program.Message) error {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := play.Raise(m.Name).Send(short, c, m.To, -1); !errors.Is(err, play.ErrMeant) {
		return wrong("the validator has not refused an update")
	}
	got, err := play.Raise(m.Name).Send(short, c, m.To, m.Value, x.keyOf(m))
	switch {
	case err == nil && (got != m.Value+1 || m.Value%2 != 0):
		return wrong(fmt.Sprintf("update %s of %s has the reply %d to %d", m.Name, m.To, got,
			m.Value))
	case err == nil:
		x.count("update")
	case errors.Is(err, play.ErrMeant):
		if m.Value%2 == 0 {
			return wrong("an update is refused that is not odd")
		}
		x.count("refused update")
	case short.Err() != nil || is(err, journal.CodeConflict): // no reply yet, or none any more
	default:
		return err
	}
	return nil
}

// approve decides an ask, if it is open now, by a token or without one. Before that it tries a role
// that may not decide.
func (x *dealing) approve(ctx context.Context, c *perdure.Client, m program.Message) error {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	d := approval.Decision{
		Approved: m.Choice == "yes", By: "p" + m.Key[strings.LastIndexByte(m.Key, ':')+1:],
		Role: "clerk",
	}
	if _, err := approval.Decide(short, c, m.To, m.Name, d); err == nil {
		return wrong("a decision without the role is taken")
	}
	d.Role = play.Boss
	var err error
	if x.rng.IntN(2) == 0 {
		var text string
		if text, err = approval.Token(short, c, m.To, m.Name, d, time.Hour); err == nil {
			if _, err = approval.ByToken(short, c, text); err == nil {
				_, err = approval.DecideByToken(short, c, text, "by token", nil)
			}
		}
	} else {
		_, err = approval.Decide(short, c, m.To, m.Name, d, x.keyOf(m))
	}
	if short.Err() != nil || is(err, journal.CodeConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	x.count("approve-" + m.Choice)
	if _, _, err := approval.List(ctx, c, approval.Query{Role: play.Boss}); err != nil {
		return err
	}
	all, err := approval.States(ctx, c, m.To)
	if err != nil {
		return err
	}
	for _, s := range all { // none if the run has continued as new
		if s.Key == m.Name && !slices.ContainsFunc(s.Decisions, func(o approval.Decision) bool {
			return o.By == d.By
		}) {
			return wrong("a decision with a receipt is not in the journal")
		}
	}
	return nil
}
