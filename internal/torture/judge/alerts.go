package judge

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// The workflows of alerts, and the mark of those of the engine itself.
const (
	alertWorkflow    = "perdure.alert"
	deliveryWorkflow = "perdure.alert-delivery"
	ownPrefix        = "perdure."
)

// alertable are the statuses that rules count, if they do not say which.
var alertable = []journal.Status{
	journal.Failed, journal.TimedOut, journal.Compensated, journal.CompensationFailed,
}

// AlertsAreSent reports whether everything that has happened so far was told. The run of alerts
// never ends: it has nothing to do if it only waits, and no message lies in its inbox.
func AlertsAreSent(ctx context.Context, s store.Store) (bool, error) {
	info, err := s.Info(ctx)
	if err != nil || info.Outbox > 0 {
		return false, err
	}
	runs, err := readAll(ctx, s, store.Filter{
		Workflow: alertWorkflow, Open: true, Limit: store.MaxLimit,
	})
	if err != nil {
		return false, err
	}
	for _, r := range runs {
		h := r.Head
		if h.Owner != 0 || h.Status != journal.Waiting || len(r.Inbox) > 0 ||
			!h.Wake.IsZero() && !h.Wake.After(time.Now()) {
			return false, nil
		}
	}
	open, _, err := s.Find(ctx, store.Filter{Workflow: deliveryWorkflow, Open: true, Limit: 1})
	return len(runs) > 0 && len(open) == 0, err
}

// ReadOthers reads the runs that calls tell of in alerts and that are not among some runs, such as
// those of an earlier round.
func ReadOthers(ctx context.Context, s store.Store, calls []Call, runs []*Run) ([]*Run, error) {
	others := map[journal.RunID]bool{}
	for _, c := range calls {
		if id, is := isEndAlert(c.Label); is {
			others[id] = true
		}
	}
	for _, r := range runs {
		delete(others, r.Head.ID)
	}
	var out []*Run
	for some := range slices.Chunk(slices.Sorted(maps.Keys(others)), store.MaxLimit) {
		read, err := readAll(ctx, s, store.Filter{Runs: some, Limit: store.MaxLimit})
		if err != nil {
			return nil, err
		}
		out = append(out, read...)
	}
	return out, nil
}

// isEndAlert returns the run whose end a call tells of in an alert.
func isEndAlert(label string) (id journal.RunID, is bool) {
	text, is := strings.CutPrefix(label, play.Alerted+string(alert.CauseEnded)+"/")
	return journal.RunID(text), is
}

// alerts judges that each run that a rule counts was told of, and no other; by rules with
// thresholds, so many of them as these demand.
func (b *bench) alerts() {
	if !b.Alerts {
		return
	}
	known := map[journal.RunID]*Run{}
	for _, r := range slices.Concat(b.Others, b.Runs) {
		known[r.Head.ID] = r
	}
	b.thresholds(known)
	told := map[journal.RunID]bool{}
	for _, c := range b.Calls {
		id, is := isEndAlert(c.Label)
		if !is || told[id] {
			continue
		}
		told[id] = true
		if r := known[id]; r == nil {
			b.wrong("an alert tells of run %s, which is not there", id)
		} else if !r.wasAlertable() {
			b.wrong("an alert tells of run %s of %s, which is %v", id, r.Head.WorkflowID,
				r.Head.Status)
		}
	}
	for _, r := range b.Runs {
		if h := r.Head; slices.Contains(alertable, h.Status) && h.Status.IsTerminal() &&
			!strings.HasPrefix(h.Workflow, ownPrefix) && !told[h.ID] &&
			play.Thresholds[h.Workflow].To == nil {
			b.wrong("no alert told that run %s of %s ended %v", h.ID, h.WorkflowID, h.Status)
		}
	}
}

// wasAlertable reports whether the run has or had a status that rules count. A rollback that has
// stopped may go on.
func (r *Run) wasAlertable() bool {
	return slices.Contains(alertable, r.Head.Status) ||
		slices.ContainsFunc(r.Entries, func(e journal.Entry) bool {
			return e.Status == journal.CompensationFailed
		})
}
