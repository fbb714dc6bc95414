package perdure

import (
	"context"
	"slices"

	"github.com/perdure/perdure/journal"
)

// A Mode says how runs of a definition are started: it is a part of what a graph declares.
// [ModeSync] and [ModeAsync] are options of a start too, which then asks for that: where
// the definition is known and has the other mode, the start is refused with an [Error] of
// code invalid. A definition without a mode, such as a code workflow, a saga or a TCC, is
// started as the caller likes. Children have no need of it.
type Mode string

// The modes.
const (
	ModeSync  Mode = "SYNC"  // the caller waits for the end
	ModeAsync Mode = "ASYNC" // the caller does not
	ModeBoth  Mode = "BOTH"  // as the caller likes
)

func (m Mode) start(o *startOptions) error {
	if m != ModeSync && m != ModeAsync {
		return invalid("start", "a start asks for SYNC or ASYNC, not for %q", string(m))
	}
	o.mode = m
	return nil
}

// unwaited returns the options of a start whose caller does not wait, unless opts say so.
func unwaited(opts []StartOption) []StartOption { return append([]StartOption{ModeAsync}, opts...) }

// admits refuses a start that asks for a mode which the definition does not have. One that
// is not known here, and a start that asks for none, are not refused.
func (w *workflow) admits(asked Mode) error {
	if w == nil || asked == "" {
		return nil
	}
	about, _ := w.examined()
	e := &Error{Code: journal.CodeInvalid, Op: "start " + w.Name}
	switch {
	case about.Mode == ModeSync && asked != ModeSync:
		e.Message, e.Hint = "its mode is SYNC: who starts it waits for its end", "use Execute, or declare another mode"
	case about.Mode == ModeAsync && asked != ModeAsync:
		e.Message, e.Hint = "its mode is ASYNC: who starts it does not wait for its end", "use Start, or declare another mode"
	default:
		return nil
	}
	return e
}

// Execute starts a run of a workflow by name as [Client.Start] does, waits for its end and
// returns the report of it; where the run continues as new, that of the last run of the
// chain. A run that has failed is no error here: the report says so. One whose mode is
// [ModeAsync] is refused. The end of ctx ends only the waiting; who needs the run then
// gives it an [ID], or calls Start with [ModeSync] and [Run.Final].
func (c *Client) Execute(ctx context.Context, workflow string, input []byte, opts ...StartOption) (Report, error) {
	run, err := c.Start(ctx, workflow, input, append(slices.Clip(opts), ModeSync)...)
	if err != nil {
		return Report{}, err
	}
	return run.Final(ctx)
}

// Final waits as [Run.Result] does and returns the report of the run that has ended; where
// it continues as new, that of the last run of the chain. A run that has failed is no
// error here: the report says so.
func (r *Run[O]) Final(ctx context.Context) (Report, error) {
	last, _, err := r.c.runs.Wait(ctx, r.s)
	if err != nil {
		return Report{}, err
	}
	return r.c.Report(ctx, string(last.ID))
}
