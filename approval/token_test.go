package approval_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/internal/enginetest/world"
	"github.com/perdure/perdure/internal/token"
	"github.com/perdure/perdure/journal"
)

func (d office) token(by string, yes bool) string {
	d.t.Helper()
	text, err := approval.Token(d.t.Context(), d.Engine, "a", "k", approval.Decision{
		Approved: yes, By: by, Role: "boss", Reason: "by mail",
	}, hour)
	world.NoError(d.t, err)
	return text
}

// spec: R-21
func TestATokenCarriesOneDecisionOfOnePerson(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Role: "boss", Quorum: 2, Of: 3}, func(d office) {
		ada, bob := d.token("ada", true), d.token("bob", false)
		for range 2 { // a second click
			r, err := approval.DecideByToken(d.t.Context(), d.Engine, ada, "", nil)
			if err != nil || r.Approved != 1 || r.Rejected != 0 {
				d.t.Errorf("%+v, %v", r, err)
			}
		}
		s := d.state()
		if len(s.Decisions) != 1 || s.Decisions[0].Source != approval.Signed ||
			s.Decisions[0].Role != "boss" || s.Decisions[0].Reason != "by mail" {
			d.t.Errorf("%+v", s)
		}
		// she has decided, whatever other tokens of hers say
		_, err := approval.Token(d.t.Context(), d.Engine, "a", "k", approval.Decision{
			By: "ada", Role: "boss",
		}, hour)
		world.CodeIs(d.t, err, journal.CodeConflict)
		d.accepted("is open: 1 of 2 have approved", "bob", "boss", false, "")
		_, err = approval.DecideByToken(d.t.Context(), d.Engine, bob, "", nil)
		world.CodeIs(d.t, err, journal.CodeConflict)
		d.accepted("is approved", "cy", "boss", true, "")
		_, err = approval.DecideByToken(d.t.Context(), d.Engine, bob, "", nil)
		world.CodeIs(d.t, err, journal.CodeConflict)
		d.returns("approved ada:true bob:false cy:true")
	})
}

// spec: R-21
func TestATokenIsForOneAskAndExpires(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Role: "boss"}, func(d office) {
		use := func(text string) error {
			d.t.Helper()
			_, err := approval.DecideByToken(d.t.Context(), d.Engine, text, "", nil)
			if s := d.state(); s.Status != approval.Open {
				d.t.Errorf("%+v", s)
			}
			return err
		}
		good := d.token("ada", true)
		other, err := token.Make(d.t.Context(), d.Engine.Sealed().FrontEnd, token.Claims{
			Purpose: "callback", Run: "a", Subject: "k", Expires: time.Now().Add(hour),
		})
		world.NoError(d.t, err)
		forged := token.Sign(token.NewKey(), token.Claims{
			Purpose: "approval", Run: "a", Subject: "k", Expires: time.Now().Add(hour),
			Detail: `{"approved":true,"by":"eve","role":"boss"}`,
		})
		for text, want := range map[string]error{
			"":                 approval.ErrMalformed,
			"x":                approval.ErrMalformed,
			other:              approval.ErrPurpose,
			forged:             approval.ErrForged,
			good[:len(good)-4]: nil,
			flipped(good):      nil,
			"pdt_" + good[5:]:  nil,
			good + "A":         nil,
		} {
			if err := use(text); err == nil || want != nil && !errors.Is(err, want) {
				d.t.Errorf("%.20s: %v, want %v", text, err, want)
			}
		}
		for _, bad := range []approval.Decision{
			{By: "ada", Role: "clerk"}, {By: "", Role: "boss"},
		} {
			if _, err := approval.Token(d.t.Context(), d.Engine, "a", "k", bad, hour); err == nil {
				d.t.Errorf("%+v", bad)
			}
		}
		_, err = approval.Token(d.t.Context(), d.Engine, "a", "k", approval.Decision{
			By: "ada", Role: "boss",
		}, 0)
		world.CodeIs(d.t, err, journal.CodeInvalid)
		time.Sleep(hour + time.Second)
		if err := use(good); !errors.Is(err, approval.ErrExpired) {
			d.t.Error(err)
		}
		d.accepted("is approved", "ada", "boss", true, "")
	})
}

// What a token carries can be seen as often as one likes, and stays said when it is made or over.
//
// spec: R-21
func TestATokenShowsItsDecisionAndChangesNothing(t *testing.T) {
	inTime(t, approval.Ask{Key: "k", Title: "a car?", Role: "boss"}, func(d office) {
		show := func(text string) approval.Carried {
			d.t.Helper()
			c, err := approval.ByToken(d.t.Context(), d.Engine, text)
			world.NoError(d.t, err)
			return c
		}
		ada, bob := d.token("ada", true), d.token("bob", false)
		for range 2 {
			c := show(ada)
			if c.Err != nil || c.Made || !c.Decision.Approved || c.Decision.By != "ada" ||
				c.State.Title != "a car?" || c.Expires.IsZero() {
				d.t.Errorf("%+v", c)
			}
		}
		if s := d.state(); s.Status != approval.Open || len(s.Decisions) != 0 {
			d.t.Errorf("%+v", s)
		}
		_, err := approval.ByToken(d.t.Context(), d.Engine, flipped(ada))
		if err == nil {
			d.t.Error("a token that was changed is shown")
		}
		_, err = approval.DecideByToken(d.t.Context(), d.Engine, ada, "", nil)
		world.NoError(d.t, err)
		if c := show(ada); !c.Made || journal.CodeOf(c.Err) != journal.CodeConflict {
			d.t.Errorf("%+v", c)
		}
		if c := show(bob); c.Made || c.Err == nil {
			d.t.Errorf("%+v", c)
		}
		time.Sleep(hour + time.Second)
		_, err = approval.ByToken(d.t.Context(), d.Engine, ada)
		if !errors.Is(err, approval.ErrExpired) {
			d.t.Error(err)
		}
	})
}

// flipped returns the token with one character of its middle changed.
func flipped(text string) string {
	b := []byte(text)
	if b[len(b)/2]++; b[len(b)/2] > 'z' || b[len(b)/2] == '[' || b[len(b)/2] == ':' {
		b[len(b)/2] = 'b'
	}
	return string(b)
}

// again asks n times, and returns the last outcome.
func again(ctx context.Context, n int) (text string, err error) {
	for range n {
		out, err := approval.Wait(ctx, approval.Ask{Key: "k", Role: "boss"})
		if err != nil {
			return "", err
		}
		text = textOf(out)
	}
	return text, nil
}

// A token of one ask is of no use for the next one of the same key.
//
// spec: R-21
func TestATokenIsOfNoUseForTheNextAsk(t *testing.T) {
	wf := perdure.Define("w", again)
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t, wf)
		d := office{w, t, wf}
		world.StartAndSettle(w, wf, 2, perdure.ID("a"))
		text := d.token("ada", true)
		d.accepted("is rejected", "bob", "boss", false, "")
		synctest.Wait()
		_, err := approval.DecideByToken(t.Context(), w.Engine, text, "", nil)
		world.CodeIs(t, err, journal.CodeConflict)
		if s := d.state(); s.Status != approval.Open {
			t.Errorf("%+v", s)
		}
		d.accepted("is approved", "ada", "boss", true, "")
		d.returns("approved ada:true")
		w.End()
	})
}
