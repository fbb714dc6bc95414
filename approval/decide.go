package approval

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/reply"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// Decide decides an open ask of a run, by run ID or workflow ID, and returns the receipt when the
// decision is recorded. The run itself judges the decision, so an engine must have the run; Decide
// waits for that until ctx ends. A decision that does not count is refused and the ask stays open.
// The error then has one of these codes:
//
//   - unauthorised: the role does not match;
//   - invalid: the data does not match the form, or the decision names no person;
//   - conflict: the ask is over, its time is over, or the person has decided already;
//   - not_found: there is no open run, or it does not ask for that.
//
// By and Role are what the caller asserts. With a [perdure.SendKey] the same decision may be sent
// again, and has the same receipt, also when the ask is over. With the context of workflow code,
// Decide returns an error of code misuse.
func Decide(ctx context.Context, c perdure.Caller, id, key string, d Decision,
	opts ...perdure.SendOption) (Receipt, error) {
	op := "decide " + key + " of " + id
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return Receipt{}, err
	}
	d.Source = Asserted
	return decide(ctx, client, op, id, key, "", d, opts)
}

// decide decides an ask. A decision for a certain ask of the key has its ID.
func decide(ctx context.Context, c *sealed.Client, op, id, key, ask string, d Decision,
	opts []perdure.SendOption) (Receipt, error) {
	if err := c.Outside(ctx, op); err != nil {
		return Receipt{}, err
	}
	if !validText(d.By) {
		return Receipt{}, badPerson(op, d.By)
	}
	if d.Data != nil && !json.Valid(d.Data) {
		return Receipt{}, failure.Invalid(op, "the data is not JSON")
	}
	var sig kernel.Signal
	for _, opt := range opts {
		if opt == nil {
			return Receipt{}, failure.Invalid(op, "a nil option")
		}
		if err := opt.ApplyToSend(&sig); err != nil {
			return Receipt{}, failure.Within(op, err)
		}
	}
	v, err := viewOf(ctx, c, op, id)
	if err != nil {
		return Receipt{}, err
	}
	s, err := v.ask(op, key)
	if err != nil {
		return Receipt{}, err
	}
	if d.At = c.FrontEnd.Now().Round(0).UTC(); ask != "" && ask != s.Ask {
		return Receipt{}, (&State{Status: "over"}).closed(op)
	}
	sent := sig.Key != "" && slices.ContainsFunc(s.Decisions, func(o Decision) bool {
		return o.By == d.By // perhaps by this very message
	})
	judged := s.judge(op, &d)
	if judged != nil && !sent {
		return Receipt{}, judged
	}
	yes := d.Approved
	data, err := json.Marshal(vote{Decision: d, Approved: &yes, Ask: s.Ask})
	if err != nil {
		return Receipt{}, &perdure.Error{Code: journal.CodeEncode, Op: op, Err: err}
	}
	got, err := reply.Send(ctx, c, reply.Message{
		ID: string(v.head.ID), Name: name(key), Data: data, Key: sig.Key,
		Moot: func(ctx context.Context, h journal.Head) error { return v.moot(ctx, op, h, s) },
	})
	if sent && journal.CodeOf(err) == journal.CodeNotFound { // it was another message
		err = judged
	}
	if err != nil {
		return Receipt{}, err
	}
	var r Receipt
	if err := json.Unmarshal(got, &r); err != nil {
		return Receipt{}, &perdure.Error{Code: journal.CodeDecode, Op: op, Err: err}
	}
	return r, nil
}

// A view is the fold of the journal of a run so far, with its asks.
type view struct {
	front  *kernel.FrontEnd
	head   journal.Head
	fold   *journal.Aggregate
	seq    int64
	states map[string]State
	alone  int // how often in a row an open ask was seen that no wait is for
}

// viewOf returns the view of the open run of an ID. By a run ID, it is the open run of its chain.
func viewOf(ctx context.Context, c *sealed.Client, op, id string) (*view, error) {
	h, err := c.FrontEnd.Find(ctx, id)
	if err == nil && h.Status.IsTerminal() && h.WorkflowID != id {
		var next journal.Head
		if next, err = c.FrontEnd.Find(ctx, h.WorkflowID); err == nil && next.Chain == h.Chain {
			h = next
		}
	}
	if err != nil {
		return nil, failure.Within(op, err)
	}
	return readView(ctx, c.FrontEnd, h)
}

func readView(ctx context.Context, f *kernel.FrontEnd, h journal.Head) (*view, error) {
	v := &view{front: f}
	v.of(h)
	return v, v.read(ctx)
}

// of makes it the view of another run.
func (v *view) of(h journal.Head) {
	v.head, v.seq, v.states = h, 0, map[string]State{}
	v.fold = journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
}

// page is how many entries are read at a time.
const page = 500

// read reads what is new in the journal.
func (v *view) read(ctx context.Context) error {
	for {
		entries, err := v.front.Read(ctx, v.head, store.Range{From: v.seq + 1, Limit: page})
		if err != nil {
			return err
		}
		for i := range entries {
			e := &entries[i]
			v.seq = e.Seq
			if err := v.fold.Apply(*e); err != nil {
				return &perdure.Error{
					Code: journal.CodeCorrupt, Op: "read run " + string(v.head.ID), Err: err,
				}
			}
			key, is := strings.CutPrefix(e.Op.Name, published)
			if e.Kind != journal.StatePublished || !is {
				continue
			}
			data := e.Data
			if e.Spill != 0 && data == nil {
				whole, err := v.front.Read(ctx, v.head, store.Range{
					From: e.Seq, Limit: 1, Payloads: true,
				})
				if err != nil {
					return err
				}
				data = whole[0].Data
			}
			var s State
			if json.Unmarshal(data, &s) == nil && s.Key == key {
				v.states[key] = s
			}
		}
		if len(entries) < page {
			return nil
		}
	}
}

// isAsked reports whether the run waits for a decision about that key.
func (v *view) isAsked(key string) bool {
	return slices.ContainsFunc(v.fold.Snapshot().Waits, func(w journal.Wait) bool {
		return w.Kind == journal.WaitSignal && w.Op.Name == name(key)
	})
}

// open returns the asks that are open, in the order of their keys.
func (v *view) open() []State {
	var out []State
	for _, key := range slices.Sorted(maps.Keys(v.states)) {
		if s := v.states[key]; s.Status == Open && v.isAsked(key) {
			out = append(out, s)
		}
	}
	return out
}

// ask returns the last ask of a key.
func (v *view) ask(op, key string) (State, error) {
	s, known := v.states[key]
	switch {
	case v.head.Status.IsTerminal() && (!known || s.Status == Open):
		return s, &perdure.Error{
			Code: journal.CodeNotFound, Op: op,
			Message: "the run is " + v.head.Status.String() + ": it asks for nothing",
		}
	case !known:
		e := &perdure.Error{
			Code: journal.CodeNotFound, Op: op, Message: "the run does not ask for " +
				failure.Quoted(key),
		}
		var keys []string
		for _, o := range v.open() {
			keys = append(keys, o.Key)
		}
		if len(keys) > 0 {
			e.Hint = "it asks for " + strings.Join(keys, ", ")
		}
		return s, e
	}
	return s, nil
}

// mostAlone is how often a sender looks whether an open ask is waited for before it gives up: the
// run may be about to wait.
const mostAlone = 5

// moot returns an error if the ask s is over, so that nobody takes a decision about it.
func (v *view) moot(ctx context.Context, op string, h journal.Head, s State) error {
	if h.Number != v.head.Number {
		v.of(h)
	}
	if v.read(ctx) != nil { // the sender learns it by itself
		return nil
	}
	now, known := v.states[s.Key]
	if !known || h.ID != v.head.ID {
		return nil
	}
	switch {
	case now.Ask != s.Ask:
		return (&State{Status: "over"}).closed(op)
	case now.Status != Open:
		return now.closed(op)
	case v.isAsked(s.Key):
		v.alone = 0
	default:
		v.alone++
	}
	if v.alone >= mostAlone {
		return (&State{Status: Withdrawn}).closed(op)
	}
	return nil
}
