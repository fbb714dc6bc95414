package play

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/update"
)

// An asks plays what is asked of a run, or by one.
type asks struct{ *player }

// Boss is the role that decides asks.
const Boss = "boss"

// Raise returns the update of that name. The reply is one more than the message.
func Raise(name string) update.Update[int, int] { return update.New[int, int](name, notNegative) }

func notNegative(v int) error {
	if v < 0 {
		return ErrMeant
	}
	return nil
}

// A noForm is a form that every decision matches.
type noForm struct{}

func (noForm) Schema() json.RawMessage     { return nil }
func (noForm) Check(json.RawMessage) error { return nil }

// begins is the update that starts programs.
const begins = "begins"

// begin replies to the update that has started the program.
func (p asks) begin(ctx context.Context) error {
	if p.in.Program.Start != "update" || p.in.Round > 0 || p.in.ID != p.in.Instance {
		return nil
	}
	ask, err := Raise(begins).Wait(ctx)
	if err != nil {
		return err
	}
	return ask.Reply(ctx, ask.Value+1)
}

// startWith starts a program with an update. The reply may come too late, or not at all, because an
// operator may end or hold the run.
func startWith(ctx context.Context, c *perdure.Client, w *perdure.Workflow[Input, Output],
	in Input, id string) (bool, error) {
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	got, d, err := update.SendWithStart(short, c, Raise(begins), 6, w, in,
		append(options(id), perdure.SendKey("start"))...)
	switch {
	case err == nil && got != 7:
		return d.New, errReply
	case d.RunID != "":
		return d.New, nil
	}
	return d.New, err
}

var errReply = &perdure.Error{
	Code: journal.CodeMisuse, Message: "the start with an update has another reply",
}

// update replies to updates until one comes that is not refused.
func (p asks) update(ctx context.Context, op *program.Op) error {
	u := Raise(op.Signal(p.in.Round))
	got := -1
	if op.Way == "serve" {
		if err := u.Serve(ctx, func(_ context.Context, v int) (int, error) {
			got = v
			return v + 1, nil
		}); err != nil {
			return err
		}
		for nap := 3 * time.Millisecond; got < 0; nap *= 2 {
			if err := perdure.Sleep(ctx, nap); err != nil {
				return err
			}
		}
	}
	for got < 0 {
		ask, err := u.Wait(ctx)
		if err != nil {
			return err
		}
		if ask.Value%2 != 0 {
			why := fmt.Errorf("%d is odd: %w", ask.Value, ErrMeant)
			if err := ask.Refuse(ctx, why); err != nil {
				return err
			}
			continue
		}
		got = ask.Value
		if err := ask.Reply(ctx, got+1); err != nil {
			return err
		}
	}
	p.fact(op, "got %d", got)
	return nil
}

// approval asks for the decision of people.
func (p asks) approval(ctx context.Context, op *program.Op) error {
	a := approval.Ask{Key: op.Asks(p.in.Round), Role: Boss}
	switch op.Way {
	case "quorum":
		a.Quorum, a.Of = 2, 3
	case "expire":
		a.Within = 5 * time.Millisecond
	}
	out, err := approval.Wait(ctx, a)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, d := range out.Decisions {
		if d.Role != Boss || seen[d.By] || !strings.HasPrefix(d.By, "p") {
			p.fact(op, "decided by %+v", d)
		}
		seen[d.By] = true
	}
	if out.IsApproved() != (out.Status == approval.Approved) ||
		len(out.Decisions) > 0 && out.Last().By == "" {
		p.fact(op, "odd outcome")
	}
	p.fact(op, "%s", out.Status)
	return nil
}
