package ui_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/dag"
	"github.com/perdure/perdure/expr"
	"github.com/perdure/perdure/machine"
	"github.com/perdure/perdure/saga"
	"github.com/perdure/perdure/tcc"
)

// patterns returns workflows of each pattern, with one that is a graph of very many steps.
func patterns() []perdure.Definition {
	of := delivery()
	middle := perdure.Define("middle", func(ctx context.Context, p Parcel) (json.RawMessage,
		error) {
		return of.Child(ctx, p).Await(ctx)
	})
	return []perdure.Definition{of, wide(), trip(), transfer(), ticket(), middle, parent(middle)}
}

var errFull = perdure.Permanent(errors.New("the van is full"))

// A Parcel is the input of the graph.
type Parcel struct {
	Gift bool `json:"gift"`
	Full bool `json:"full"`
	Wait bool `json:"wait"`
}

// delivery is a graph with a condition, a step that waits, and one that may fail.
func delivery() *dag.Graph[Parcel] {
	g := dag.New[Parcel]("delivery", perdure.About{Description: "Packs and loads a parcel."})
	do := func(name string) func(context.Context, Parcel) (string, error) {
		return func(_ context.Context, p Parcel) (string, error) {
			if name == "load" && p.Full {
				return "", errFull
			}
			return name + " done", nil
		}
	}
	check := dag.Add(g, "check", do("check"))
	pack := dag.Add(g, "pack", do("pack")).After(check)
	wrap := dag.Add(g, "wrap", do("wrap")).After(check).When(expr.When("input.gift == true"))
	load := dag.Add(g, "load", do("load")).After(pack, wrap)
	dag.Add(g, "label", do("label")).After(check).Undo(
		func(context.Context, Parcel, string) error { return nil })
	sent := dag.Add(g, "send", do("send")).After(load)
	dag.Add(g, "notify", do("notify")).After(sent).When(expr.When("input.gift == true"))
	g.Mode(dag.Both)
	return g
}

// wide is a graph that does not fit into a window.
func wide() perdure.Definition {
	g := dag.New[int]("wide")
	do := func(context.Context, int) (int, error) { return 1, nil }
	first := dag.Add(g, "first", do)
	for row := range 10 {
		last := first
		for at := range 12 {
			last = dag.Add(g, fmt.Sprintf("row-%d-step-%d", row, at), do).After(last)
		}
	}
	g.Mode(dag.Both)
	return g
}

// bankIsBack lets the undo of the charge of a trip succeed.
var bankIsBack atomic.Bool

// trip is a saga that waits for an operator when it cannot be undone.
func trip() perdure.Definition {
	s := saga.New[string]("trip", perdure.About{Description: "Books a trip, or nothing."})
	do := func(_ context.Context, to string) (string, error) {
		if to == "nowhere" {
			return "", perdure.Permanent(errors.New("there is no hotel"))
		}
		return to, nil
	}
	flight := saga.Add(s, "flight", func(_ context.Context, to string) (string, error) {
		return to, nil
	}).Undo(func(context.Context, string, string) error { return nil })
	card := saga.Add(s, "charge", func(_ context.Context, to string) (string, error) {
		return to, nil
	}).After(flight).Undo(func(context.Context, string, string) error {
		if bankIsBack.Load() {
			return nil
		}
		return perdure.Permanent(errors.New("the bank is closed"))
	}).UndoRetry(perdure.NoRetry)
	hotel := saga.Add(s, "hotel", do).After(card)
	saga.Add(s, "mail", do).After(hotel)
	return s.ParkOnUndoError()
}

// endless is the amount that a transfer tries to move as long as its engine runs.
const endless = 77

// transfer is a TCC: more than 100 is refused, and 113 cannot be cancelled.
func transfer() perdure.Definition {
	t := tcc.New[int]("transfer", perdure.About{Description: "Moves money."},
		perdure.Timeout(time.Hour))
	end := func(context.Context, int, string) error { return nil }
	cancel := func(_ context.Context, cents int, _ string) error {
		if cents == 113 {
			return perdure.Permanent(errors.New("the ledger is locked"))
		}
		return nil
	}
	for _, name := range []string{"debit", "credit"} {
		tcc.Add(t, name, func(ctx context.Context, cents int) (string, error) {
			if cents == endless {
				<-ctx.Done()
				return "", ctx.Err()
			}
			if name == "credit" && cents > 100 {
				return "", perdure.Permanent(errors.New("the account takes at most 100"))
			}
			return name, nil
		}).Confirm(end).Cancel(cancel)
	}
	return t
}

// ticket is a machine that splits, comes back to a step, and waits for the signal ready.
func ticket() perdure.Definition {
	m := machine.New[string]("ticket", "triage", perdure.About{Description: "Answers."})
	pass := machine.Do(func(_ context.Context, text string) (string, error) { return text, nil })
	machine.Add(m, "triage", func(context.Context, string) (machine.Action, error) {
		return machine.Split(machine.BranchOf("web", "search", "web"),
			machine.BranchOf("docs", "search", "docs")).To("open"), nil
	}).Split("search").To("open")
	machine.Add(m, "search", pass)
	machine.Add(m, "open", func(ctx context.Context, _ map[string]any) (machine.Action, error) {
		word, found, err := ready.Latest(ctx)
		switch {
		case err != nil || !found:
			return machine.Suspend(), err
		case word == "again":
			return machine.Complete(word).To("rest"), nil
		}
		return machine.Complete(word).To("close"), nil
	}).To("close", "rest")
	machine.Add(m, "rest", func(context.Context, string) (machine.Action, error) {
		return machine.Complete(map[string]any{}).To("open"), nil
	}).To("open")
	machine.Add(m, "close", pass)
	return m
}

// parent emits an event, waits for the signal ready, and starts a child that starts one.
func parent(child *perdure.Workflow[Parcel, json.RawMessage]) perdure.Definition {
	return perdure.Define("parent", func(ctx context.Context, p Parcel) (string, error) {
		if err := perdure.Emit(ctx, "parcel.asked", p); err != nil {
			return "", err
		}
		if _, err := ready.Wait(ctx); err != nil {
			return "", err
		}
		_, err := child.Child(ctx, p).Await(ctx)
		return "sent", err
	})
}
