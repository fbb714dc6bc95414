// Package howto is the code of the page about step machines.
package howto

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/machine"
)

// A Claim is an expense that somebody wants back. Money is in cents.
type Claim struct {
	Who   string `json:"who"`
	Cents int    `json:"cents"`
}

const day = 24 * time.Hour

// Claims pays claims. Those above 100 euros need a decision.
var Claims = machine.New[Claim]("claims", "check")

var (
	_ = machine.Add(Claims, "check", machine.Do(check)).To("pay", "ask").Route(bySize)
	_ = machine.Add(Claims, "ask", ask).To("pay", "refuse", "remind")
	_ = machine.Add(Claims, "remind", machine.Do(remind)).To("ask")
	_ = machine.Add(Claims, "pay", machine.Do(pay)).Undo(takeBack).To("mail")
	_ = machine.Add(Claims, "mail", machine.Do(mail))
	_ = machine.Add(Claims, "refuse", machine.Do(refuse))
)

func bySize(r machine.Result) string {
	var c Claim
	if err := r.Decode(&c); err != nil || c.Cents > 100_00 {
		return "ask"
	}
	return "pay"
}

// ask waits for a manager, for three days.
func ask(ctx context.Context, c Claim) (machine.Action, error) {
	out, decided := machine.DecisionOf(ctx, "claim")
	switch {
	case !decided:
		return machine.WaitForApproval(approval.Ask{Key: "claim", Role: "manager"}).
			Within(3*day, "remind"), nil
	case out.IsApproved():
		return machine.Complete(c).To("pay"), nil
	}
	return machine.Complete(c).To("refuse"), nil
}

// AsCode is the same process as a code workflow.
var AsCode = perdure.Define("claims-as-code", func(ctx context.Context, c Claim) (Claim, error) {
	c, err := perdure.Step(ctx, "check", with(c, check))
	for err == nil && c.Cents > 100_00 {
		out, e := approval.Wait(ctx, approval.Ask{
			Key: "claim", Role: "manager", Within: 3 * day,
		})
		switch {
		case e != nil:
			return c, e
		case out.IsApproved():
			return paid(ctx, c)
		case out.Status == approval.Rejected:
			return perdure.Step(ctx, "refuse", with(c, refuse))
		}
		c, err = perdure.Step(ctx, "remind", with(c, remind))
	}
	if err != nil {
		return c, err
	}
	return paid(ctx, c)
})

func paid(ctx context.Context, c Claim) (Claim, error) {
	c, err := perdure.Step(ctx, "pay", with(c, pay))
	if err != nil {
		return c, err
	}
	return perdure.Step(ctx, "mail", with(c, mail))
}

func with(c Claim, do func(context.Context, Claim) (Claim, error)) func(context.Context) (Claim,
	error) {
	return func(ctx context.Context) (Claim, error) { return do(ctx, c) }
}

var errNobody = errors.New("a claim without a name")

func check(_ context.Context, c Claim) (Claim, error) {
	if c.Who == "" {
		return c, errNobody
	}
	return c, nil
}

// The steps with effects do nothing here.
func remind(_ context.Context, c Claim) (Claim, error) { return c, nil }
func pay(_ context.Context, c Claim) (Claim, error)    { return c, nil }
func takeBack(context.Context, Claim) error            { return nil }
func mail(_ context.Context, c Claim) (Claim, error)   { return c, nil }
func refuse(_ context.Context, c Claim) (Claim, error) { return Claim{Who: c.Who}, nil }

// Import reads a file page by page, and hands over in between.
var Import = machine.New[int]("import", "pages")

var _ = machine.Add(Import, "pages", pages).Slice(30 * time.Second)

func pages(ctx context.Context, last int) (machine.Action, error) {
	page, _, err := machine.State[int](ctx)
	for ; err == nil && page < last; page++ {
		if machine.ShouldYield(ctx) {
			return machine.Yield(page), nil
		}
		err = read(ctx, page)
	}
	return machine.Complete(page), err
}

func read(context.Context, int) error { return nil }
