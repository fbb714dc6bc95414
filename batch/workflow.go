package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

const (
	workflowName = kernel.OwnPrefix + "batch"
	stopName     = kernel.OwnPrefix + "stop"
	// keptChain is how long a run of a batch is kept after it has continued as another one.
	keptChain = time.Minute
	// turnsOfRun is the number of turns after which the run of a batch continues as another one, so
	// that its journal stays short.
	turnsOfRun = 50
)

// Workflow returns the workflow of batches. An engine that it is registered with executes the
// batches of its store.
func Workflow() perdure.Definition { return workflow }

var workflow = perdure.Define(workflowName, carryOut, own{}, perdure.Retention{
	ByStatus: map[perdure.RunStatus]time.Duration{journal.ContinuedAsNew: keptChain},
}, perdure.About{
	Description: "Carries out one order on many runs",
})

// untilDone is the policy of the steps of a batch. They fail only while the store does not answer.
var untilDone = perdure.Retry{Attempts: math.MaxInt32, Cap: time.Minute}

// own is the option of a workflow of this module.
type own struct{}

func (own) ApplyToWorkflow(w *sealed.Workflow) error {
	w.Own = true
	return nil
}

// stopped is the message that stops a batch: a [Halt].
var stopped = perdure.NewSignal[json.RawMessage](stopName)

// carryOut is the code of a batch.
func carryOut(ctx context.Context, s *state) (Progress, error) {
	if s == nil {
		return Progress{}, errors.New("a batch is started by package batch")
	}
	p := publisher{items: len(s.Errors) + len(s.Skips)}
	if len(s.Unknown) > 0 {
		s.miss()
		if err := p.publish(ctx, s); err != nil {
			return Progress{}, err
		}
	}
	// a stop that has come before the first turn
	if err := s.pause(ctx, s.Made); err != nil {
		return Progress{}, err
	}
	if s.Stop != nil {
		return s.Progress, p.publish(ctx, s)
	}
	for turn := 0; !s.isEnded(); turn++ {
		if turn == turnsOfRun {
			return Progress{}, perdure.ContinueAsNew(ctx, s)
		}
		runs, err := s.choose(ctx)
		if err != nil {
			return Progress{}, err
		}
		began := time.Time{}
		if len(runs) > 0 {
			did, err := perdure.Step(ctx, "do", func(ctx context.Context) (result, error) {
				return do(ctx, s, runs)
			}, untilDone)
			if err != nil {
				return Progress{}, err
			}
			s.count(did)
			began = did.Began
		}
		if err := p.publish(ctx, s); err != nil {
			return Progress{}, err
		}
		if err := s.pause(ctx, began.Add(s.Spec.takes(len(runs)))); err != nil {
			return Progress{}, err
		}
		if s.Stop != nil {
			if err := p.publish(ctx, s); err != nil {
				return Progress{}, err
			}
		}
	}
	return s.Progress, nil
}

// miss counts the IDs of the list that no run has had. A run that gets one later is left alone.
func (s *state) miss() {
	var r result
	for _, id := range s.Unknown {
		r.add(s, id, end{failed, &perdure.Error{
			Code: journal.CodeNotFound, Message: "no run had this ID when the batch was started",
		}})
	}
	s.count(r)
	s.Unknown = nil
}

// isEnded reports whether nothing is left to do.
func (s *state) isEnded() bool { return s.Stop != nil || s.IsOver && len(s.Left) == 0 }

// choose returns the next runs, and moves on behind them.
func (s *state) choose(ctx context.Context) (runs []string, err error) {
	if s.Spec.isList() {
		n := min(s.Spec.chunk(), len(s.Left))
		runs, s.Left = s.Left[:n], s.Left[n:]
		return runs, nil
	}
	found, err := perdure.Step(ctx, "find", func(ctx context.Context) (page, error) {
		return s.find(ctx)
	}, untilDone)
	s.After, s.IsOver = found.Next, found.Next.IsZero()
	return found.Runs, err
}

// pause waits until then. If that is over, it only looks for a message. A message ends the batch.
func (s *state) pause(ctx context.Context, until time.Time) error {
	if s.isEnded() {
		return nil
	}
	if s.Spec.Rate == 0 {
		until = s.Made
	}
	data, err := stopped.Wait(ctx, perdure.Until(until))
	switch {
	case journal.CodeOf(err) == journal.CodeTimedOut:
		return nil
	case err != nil:
		return err
	}
	s.Stop = haltOf(data)
	return nil
}

// haltOf returns the stop that a message has. Anybody may send one.
func haltOf(data []byte) *Halt {
	h := &Halt{}
	if json.Unmarshal(data, h) != nil {
		*h = Halt{}
	}
	return h
}

// A publisher shows outside what has changed of the progress of a batch.
type publisher struct{ items int }

// The names under which a batch shows its progress.
const (
	publishedTally = "tally"
	publishedItems = "items"
)

// A tally is published after each turn: the progress without the items.
type tally struct {
	Progress
	Stop *Halt `json:"stop,omitempty"`
}

func (p *publisher) publish(ctx context.Context, s *state) error {
	if n := len(s.Errors) + len(s.Skips); n > p.items {
		p.items = n
		shown := Progress{Errors: s.Errors, Skips: s.Skips}
		if err := perdure.Publish(ctx, publishedItems, shown); err != nil {
			return err
		}
	}
	now := tally{s.Progress, s.Stop}
	now.Errors, now.Skips = nil, nil
	return perdure.Publish(ctx, publishedTally, now)
}

// A page has some of the runs that a filter selects.
type page struct {
	Runs []string       `json:"runs,omitempty"`
	Next journal.Cursor `json:"next,omitzero"` // zero if there are no more
}

// mostLooks is the number of pages of the store for one page of a batch.
const mostLooks = 20

// find returns the next runs that the filter selects.
func (s *state) find(ctx context.Context) (out page, err error) {
	eng, err := engineOf(ctx)
	if err != nil {
		return out, err
	}
	q, err := s.Spec.query("batch "+s.ID, s.Made)
	if err != nil {
		return out, err
	}
	q.After, q.Limit = s.After, s.Spec.chunk()
	for range mostLooks {
		heads, next, err := eng.List(ctx, q)
		if err != nil {
			return out, err
		}
		heads, err = s.Spec.current(ctx, eng.Sealed(), heads, s.Made)
		if err != nil {
			return out, err
		}
		for _, h := range heads {
			out.Runs = append(out.Runs, string(h.ID))
		}
		if q.After, out.Next = next, next; len(out.Runs) > 0 || next.IsZero() {
			break
		}
	}
	return out, nil
}

// current leaves out the runs from which none can go on, because their workflow ID had a later run
// when the batch was made: most often the run that goes on from them.
func (s Spec) current(ctx context.Context, c *sealed.Client, heads []journal.Head,
	made time.Time) ([]journal.Head, error) {
	if !s.Order.Action.GoesOn() || len(heads) == 0 {
		return heads, nil
	}
	var ids []string
	for _, h := range heads {
		ids = append(ids, h.WorkflowID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	newest := map[string]journal.Number{} // when the batch was made
	f := store.Filter{WorkflowIDs: ids, CreatedTo: made.Add(1), Limit: store.MaxLimit}
	for len(newest) < len(ids) {
		some, next, err := c.FrontEnd.Heads(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, h := range some {
			newest[h.WorkflowID] = cmp.Or(newest[h.WorkflowID], h.Number)
		}
		if f.After = next; next.IsZero() {
			break
		}
	}
	return slices.DeleteFunc(heads, func(h journal.Head) bool {
		return newest[h.WorkflowID] != h.Number
	}), nil
}

// engineOf returns the engine that executes the step of ctx.
func engineOf(ctx context.Context) (*perdure.Engine, error) {
	owner, err := kernel.OwnerOf(ctx)
	if err != nil {
		return nil, err
	}
	eng, is := owner.(*perdure.Engine)
	if !is {
		return nil, failure.Invalid("batch", "no engine executes the step")
	}
	return eng, nil
}
