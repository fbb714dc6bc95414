package play

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
)

// A starter starts a workflow by its type, in a transaction if there is one, and reports whether it
// made a run.
type starter[I any] func(ctx context.Context, c perdure.Caller, tx any, in I, id string) (bool,
	error)

type start[I, O any] func(ctx context.Context, c perdure.Caller, in I,
	opts ...perdure.StartOption) (*perdure.Run[O], error)

type startAll[I, O any] func(ctx context.Context, c perdure.Caller, inputs []I,
	opts func(i int) []perdure.StartOption) ([]*perdure.Run[O], []error)

// startOf returns a starter of a workflow. Every other ID is started twice in one call, which makes
// one run.
func startOf[I, O any](one start[I, O], all startAll[I, O]) starter[I] {
	return func(ctx context.Context, c perdure.Caller, tx any, in I, id string) (bool, error) {
		if tx != nil {
			c = c.In(tx)
		}
		if len(id)%2 == 1 {
			r, err := one(ctx, c, in, options(id)...)
			return err == nil && r.New(), err
		}
		runs, errs := all(ctx, c, []I{in, in}, func(int) []perdure.StartOption {
			return options(id)
		})
		if err := errors.Join(errs...); err != nil {
			return false, err
		}
		if runs[0].RunID() != runs[1].RunID() || runs[0].New() && runs[1].New() {
			return false, errTwoRuns
		}
		return runs[0].New() || runs[1].New(), nil
	}
}

// options returns the options of the start of an ID. Every third run begins later.
func options(id string) []perdure.StartOption {
	out := []perdure.StartOption{perdure.ID(id)}
	if id[len(id)-1]%3 == 0 {
		out = append(out, schedule.At(time.Now().Add(100*time.Millisecond)))
	}
	return out
}

var errTwoSignals = &perdure.Error{
	Code: journal.CodeMisuse, Message: "two signals of one key in one call were delivered",
}

var errTwoRuns = &perdure.Error{
	Code: journal.CodeMisuse, Message: "two starts of one ID in one call made two runs",
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

// DeedsOf returns the input of a declaration that is started under a workflow ID.
func DeedsOf(id string, deeds []program.Deed) Deeds {
	return Deeds{Instance: id, Deeds: deeds, Extra: map[string]string{"who": id}}
}

// begin starts a program in the way that it defines.
func (e *Env) begin(ctx context.Context, c *perdure.Client, tx any, p *program.Program,
	id string) (bool, error) {
	if p.Workflow != "code" {
		in := DeedsOf(id, p.Deeds)
		if strings.HasPrefix(p.Start, "name") {
			return byName(ctx, c, tx, p.Workflow, in, id)
		}
		return e.start[p.Workflow](ctx, c, tx, in, id)
	}
	in := Input{Instance: id, ID: id, Program: p}
	switch {
	case strings.HasPrefix(p.Start, "name"):
		return byName(ctx, c, tx, e.code.Name(), in, id)
	case p.Start == "signal":
		d, err := perdure.SendWithStart(ctx, c, aside, 0, e.code, in,
			append(options(id), perdure.SendKey("start"))...)
		return d.New, err
	case p.Start == "update":
		return startWith(ctx, c, e.code, in, id)
	case p.Start == "signal-tx":
		d, err := perdure.SendWithStart(ctx, c.In(tx), aside, 0, e.code, in,
			append(options(id), perdure.SendKey("start"))...)
		return d.New, err
	}
	return startOf(e.code.Start, e.code.StartAll)(ctx, c, tx, in, id)
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
	r, err := c.Start(ctx, name, data, options(id)...)
	return err == nil && r.New(), err
}

// Send sends a signal: every other one in a transaction, if there are any, and some of the others
// twice in one call, which delivers one.
func (e *Env) Send(ctx context.Context, c *perdure.Client, m program.Message,
	key string) (perdure.Delivery, error) {
	signal := perdure.NewSignal[int](m.Name)
	switch {
	case m.Value%4 == 2:
		all, errs := signal.SendAll(ctx, c, []int{m.Value, m.Value}, func(int) (string,
			[]perdure.SendOption) {
			return m.To, []perdure.SendOption{perdure.SendKey(key)}
		})
		if err := errors.Join(errs...); err != nil {
			return perdure.Delivery{}, err
		}
		if !all[1].Duplicate && !all[1].NotDelivered {
			return all[1], errTwoSignals
		}
		return all[0], nil
	case e.money == nil || m.Value%2 == 0:
		return signal.Send(ctx, c, m.To, m.Value, perdure.SendKey(key))
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
