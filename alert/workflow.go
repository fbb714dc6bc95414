package alert

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

const (
	workflowName = kernel.OwnPrefix + "alert" // and the ID of its run
	deliveryName = kernel.OwnPrefix + "alert-delivery"
	newsName     = kernel.OwnPrefix + "alert"
	// keptChain is how long a run is kept after it has continued as another one. For as long, an
	// end that is told again is not counted again.
	keptChain = 24 * time.Hour
	// turnsOfRun is the number of messages and looks after which the run continues as another one,
	// so that its journal stays short.
	turnsOfRun = 100
	lookEvery  = time.Minute
)

// Workflow returns the workflow of alerts. An engine that it is registered with obeys the rules of
// its store, and sends what runs on it make necessary.
func Workflow(o Options) perdure.Definition {
	w := watcher{}
	w.delivery(o)
	return perdure.Define(workflowName, w.watch, w, perdure.Retention{
		ByStatus: map[perdure.RunStatus]time.Duration{journal.ContinuedAsNew: keptChain},
	}, perdure.About{
		Description: "Counts the ends of runs, looks for those that stand still, and alerts",
	})
}

// own is the option of the workflow of deliveries. It returns the workflow without its types.
type own struct{ def **sealed.Workflow }

func (o own) ApplyToWorkflow(w *sealed.Workflow) error {
	w.Own, *o.def = true, w
	return nil
}

// A watcher is the code of the workflow of alerts, and its option.
type watcher struct{ deliver *sealed.Workflow }

func (x watcher) ApplyToWorkflow(w *sealed.Workflow) error {
	w.Own = true
	w.Needs = append(w.Needs, x.deliver)
	w.Hears = append(w.Hears, func(c *sealed.Client) *kernel.Listener {
		l := kernel.NewListener("", nil, func(ctx context.Context, e kernel.End) error {
			return tell(ctx, c, e)
		})
		l.Alerts = true
		return l
	})
	return nil
}

// untilDone is the policy of a look. It fails only while the store does not answer.
var untilDone = perdure.Retry{Attempts: math.MaxInt32, Cap: time.Minute}

// A news is a message to the run of alerts. Without an end it says that a rule has changed.
type news struct {
	End *end `json:"end,omitempty"`
}

var heard = perdure.NewSignal[json.RawMessage](newsName)

// A state is the memory of the run of alerts.
type state struct {
	Counts map[string]count `json:"counts,omitempty"` // by workflow
	// Known are the runs that stand still, by cause and number, that were alerted about.
	Known  map[string]bool `json:"known,omitempty"`
	Looked time.Time       `json:"looked,omitzero"` // the last look
	Next   time.Time       `json:"next,omitzero"`   // the next look; zero for none
}

// watch is the code of the workflow of alerts.
func (x watcher) watch(ctx context.Context, s *state) (struct{}, error) {
	if s == nil {
		s = &state{}
	}
	for range turnsOfRun {
		if err := x.turn(ctx, s); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, perdure.ContinueAsNew(ctx, s)
}

// turn takes one message, or looks.
func (x watcher) turn(ctx context.Context, s *state) error {
	var limit []perdure.WaitOption
	if !s.Next.IsZero() {
		limit = append(limit, perdure.Until(s.Next))
	}
	data, err := heard.Wait(ctx, limit...)
	if journal.CodeOf(err) == journal.CodeTimedOut {
		return x.look(ctx, s)
	}
	var n news
	if err != nil || json.Unmarshal(data, &n) != nil { // anybody may send a signal
		return err
	}
	if n.End == nil {
		return x.look(ctx, s)
	}
	if a := s.take(*n.End); a != nil {
		if err := x.send(ctx, *a, n.End.Rule.To); err != nil {
			return err
		}
	}
	if !s.Next.IsZero() && !n.End.Told.Before(s.Next) { // many messages
		return x.look(ctx, s)
	}
	return nil
}

// look looks for runs that stand still.
func (x watcher) look(ctx context.Context, s *state) error {
	found, err := perdure.Step(ctx, "look", func(ctx context.Context) (finding, error) {
		return look(ctx, s)
	}, untilDone)
	if err != nil {
		return err
	}
	s.Looked, s.Next = found.At, found.At.Add(lookEvery)
	if found.Idle {
		s.Next, s.Known = time.Time{}, nil
	}
	for _, key := range found.Gone {
		delete(s.Known, key)
	}
	for _, key := range found.Fresh {
		if s.Known == nil {
			s.Known = map[string]bool{}
		}
		s.Known[key] = true
	}
	for _, a := range found.Alerts {
		if err := x.send(ctx, a.Alert, a.To); err != nil {
			return err
		}
	}
	for _, e := range found.Ends {
		if a := s.take(e); a != nil {
			if err := x.send(ctx, *a, e.Rule.To); err != nil {
				return err
			}
		}
	}
	return nil
}

// send starts a run for each recipient.
func (x watcher) send(ctx context.Context, a Alert, to []string) error {
	for _, one := range to {
		data, err := json.Marshal(delivery{one, a})
		if err != nil {
			return err
		}
		if _, _, err := kernel.StartChild(ctx, kernel.Child{
			Name: "send", Workflow: deliveryName, Input: data, Policy: journal.ChildDetached,
		}); err != nil {
			return err
		}
	}
	return nil
}

// tell reports the end of a run to the run of alerts.
func tell(ctx context.Context, c *sealed.Client, e kernel.End) error {
	if e.Rule == nil { // it is gone
		return nil
	}
	rule, err := ruleOf(e.Rule)
	if err != nil {
		return err
	}
	h := e.Head
	return post(ctx, c, news{&end{
		Workflow: h.Workflow, Rule: rule, Told: c.FrontEnd.Now().Round(0).UTC(), Run: Run{
			RunID: string(h.ID), WorkflowID: h.WorkflowID, Status: h.Status,
			Text: failure.Clip(h.Error), At: h.Ended.UTC(),
		},
	}}, string(h.ID))
}

// post sends a message to the run of alerts, which it starts if there is none. A message with a key
// counts once.
func post(ctx context.Context, c *sealed.Client, n news, key string) error {
	data, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = c.FrontEnd.SignalWithStart(ctx, kernel.Signal{
		Name: newsName, Data: data, Key: key,
	}, kernel.Start{
		Workflow: workflowName, ID: workflowName, Input: []byte("{}"),
		Pattern: journal.PatternWorkflow,
	})
	return err
}
