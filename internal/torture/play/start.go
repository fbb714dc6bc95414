package play

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/program"
)

// A starter starts a workflow by its type, in a transaction if there is one, and reports whether it
// made a run.
type starter[I any] func(ctx context.Context, c perdure.Caller, tx any, in I, id string) (bool,
	error)

type start[I, O any] func(ctx context.Context, c perdure.Caller, in I,
	opts ...perdure.StartOption) (*perdure.Run[O], error)

func startOf[I, O any](begin start[I, O]) starter[I] {
	return func(ctx context.Context, c perdure.Caller, tx any, in I, id string) (bool, error) {
		if tx != nil {
			c = c.In(tx)
		}
		r, err := begin(ctx, c, in, perdure.ID(id))
		return err == nil && r.New(), err
	}
}

// Start starts a program under a workflow ID. It may be called again with the same arguments: a
// program that is started with a signal only if it does not exist.
func (e *Env) Start(ctx context.Context, c *perdure.Client, p *program.Program, id string) error {
	if !p.StartsInTx() {
		_, err := e.begin(ctx, c, nil, p, id)
		return err
	}
	tx, err := e.money.Begin(ctx)
	if err != nil {
		return err
	}
	isNew, err := e.begin(ctx, c, tx, p, id)
	if err == nil && isNew {
		err = move(ctx, tx, StartLabel(id), 1)
	}
	if err != nil {
		return errors.Join(err, e.money.Rollback(ctx, tx))
	}
	return e.money.Commit(ctx, tx)
}

// StartLabel returns the label of the money that moves in the transaction that starts a program.
func StartLabel(id string) string { return program.Label(id, 0, 0, "start") }

// begin starts a program in the way that it defines.
func (e *Env) begin(ctx context.Context, c *perdure.Client, tx any, p *program.Program,
	id string) (bool, error) {
	if p.Flow != "code" {
		in := Deeds{Instance: id, Deeds: p.Deeds, Extra: map[string]string{"who": id}}
		if strings.HasPrefix(p.Start, "name") {
			return byName(ctx, c, tx, p.Flow, in, id)
		}
		return e.start[p.Flow](ctx, c, tx, in, id)
	}
	in := Input{Instance: id, ID: id, Program: p}
	switch {
	case strings.HasPrefix(p.Start, "name"):
		return byName(ctx, c, tx, e.code.Name(), in, id)
	case p.Start == "signal":
		d, err := perdure.SendWithStart(ctx, c, aside, 0, e.code, in, perdure.ID(id),
			perdure.SendKey("start"))
		return d.New, err
	case p.Start == "signal-tx":
		d, err := perdure.SendWithStart(ctx, c.In(tx), aside, 0, e.code, in, perdure.ID(id),
			perdure.SendKey("start"))
		return d.New, err
	}
	return startOf(e.code.Start)(ctx, c, tx, in, id)
}

// byName starts a run of a workflow that the caller need not know.
func byName(ctx context.Context, c *perdure.Client, tx any, name string, in any, id string) (bool,
	error) {
	data, err := json.Marshal(in)
	if err != nil {
		return false, err
	}
	if tx != nil {
		c = c.In(tx)
	}
	r, err := c.Start(ctx, name, data, perdure.ID(id))
	return err == nil && r.New(), err
}

// Send sends a signal: every other one in a transaction, if there are any.
func (e *Env) Send(ctx context.Context, c *perdure.Client, m program.Message,
	key string) (perdure.Delivery, error) {
	if e.money == nil || m.Value%2 == 0 {
		return perdure.NewSignal[int](m.Name).Send(ctx, c, m.To, m.Value, perdure.SendKey(key))
	}
	data, err := json.Marshal(m.Value)
	if err != nil {
		return perdure.Delivery{}, err
	}
	tx, err := e.money.Begin(ctx)
	if err != nil {
		return perdure.Delivery{}, err
	}
	d, err := c.In(tx).Send(ctx, m.To, m.Name, data, perdure.SendKey(key))
	if err != nil {
		return d, errors.Join(err, e.money.Rollback(ctx, tx))
	}
	return d, e.money.Commit(ctx, tx)
}

// StartFleeting starts a run that is removed by the first purge after its end.
func (e *Env) StartFleeting(ctx context.Context, c perdure.Caller, id string) error {
	_, err := e.fleeting.Start(ctx, c, id, perdure.ID(id), perdure.Dedup(0))
	return err
}

// Look reads the run of a program by its workflow.
func (e *Env) Look(ctx context.Context, c perdure.Caller, id string) error {
	_, err := e.code.Get(ctx, c, id)
	return err
}
