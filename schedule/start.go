package schedule

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// runID returns the workflow ID of the run of a nominal time.
func runID(name string, one start) string {
	id := name + "@" + one.At.UTC().Format(time.RFC3339Nano)
	if one.Cause == ByRequest {
		id += "!" // the same instant may be a time of the timetable
	}
	return id
}

// start starts a run. If a run of its ID exists, it starts nothing.
func (f *follower) start(ctx context.Context, one start, now time.Time) error {
	r := Run{
		ID: runID(f.Name, one), Time: one.At.UTC(), At: now.UTC(), Cause: one.Cause, Note: one.Note,
	}
	times := Times{
		Schedule: f.Name, Time: r.Time, Cause: r.Cause, Previous: f.Previous, Success: f.Success,
	}
	header, err := json.Marshal(times)
	if err != nil {
		return err
	}
	headers := map[string]string{
		sealed.HeaderSchedule:  string(header),
		sealed.HeaderTriggered: failure.Clip("schedule " + f.Name),
	}
	maps.Copy(headers, f.Spec.Headers)
	attributes := map[string]string{attribute: f.Name}
	maps.Copy(attributes, f.Spec.Attributes)
	child := kernel.Child{
		Name: "run", Workflow: f.Spec.Workflow, ID: r.ID, Input: f.Spec.Input, Keep: kept,
		Headers: headers, Attributes: attributes, Once: true,
	}
	if !f.isSerial() {
		child.Policy = journal.ChildDetached
	}
	op, id, err := kernel.StartChild(ctx, child)
	if err != nil {
		return err
	}
	r.RunID = string(id)
	f.began(r, f.isSerial())
	if f.isSerial() {
		f.child = op
	}
	return nil
}

// kept is how long a run of a schedule keeps its workflow ID at least.
const kept = 24 * time.Hour

// lookUp asks for the ends of runs that the schedule does not wait for. It does so when a time has
// come, and then they may be the previous ones of the run that is started.
func (f *follower) lookUp(ctx context.Context) error {
	var ids []string
	for _, r := range f.Recent {
		if r.Status == "" && (f.Open == nil || r.ID != f.Open.ID) {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 || f.timer != nil || f.child != nil {
		return nil
	}
	found, err := perdure.Step(ctx, "look-up", func(ctx context.Context) ([]found, error) {
		return find(ctx, ids)
	})
	if err != nil {
		return err
	}
	for i, r := range found {
		status, is := journal.ParseStatus(r.Status)
		switch {
		case r.Status == "":
			f.ended(ids[i], journal.Failed, "the run is not in the store", f.Changed)
		case is && status.IsTerminal():
			f.ended(ids[i], status, "", r.Ended)
		}
	}
	return nil
}

// A found is the state of a run in the store.
type found struct {
	Status string    `json:"status,omitempty"`
	Ended  time.Time `json:"ended,omitzero"`
}

func find(ctx context.Context, ids []string) ([]found, error) {
	heads, err := kernel.Runs(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]found, len(heads))
	for i, h := range heads {
		if h.Number != 0 {
			out[i] = found{h.Status.String(), h.Ended.UTC()}
		}
	}
	return out, nil
}

// A Times has the times of a run that a schedule has started.
type Times struct {
	Schedule string    `json:"schedule"` // its name
	Time     time.Time `json:"time"`     // the nominal time of the run
	Cause    Cause     `json:"cause"`
	// Previous is the run of the schedule that had ended last when this run was started, and
	// Success the last one that had succeeded. Nil means that there is none. With Allow, the
	// schedule asks only for the ends of its last 10 runs.
	Previous *Run `json:"previous,omitempty"`
	Success  *Run `json:"success,omitempty"`
}

// TimesOf returns the times of the run of ctx, in workflow code and in the body of a step. It
// returns false for a run that no schedule has started. The children of a run, and the runs that it
// continues as, have the times of the run.
func TimesOf(ctx context.Context) (Times, bool, error) {
	i, err := kernel.InfoOf(ctx)
	if err != nil {
		return Times{}, false, err
	}
	header := i.Headers[sealed.HeaderSchedule]
	if header == "" {
		return Times{}, false, nil
	}
	var t Times
	if err := json.NewDecoder(strings.NewReader(header)).Decode(&t); err != nil {
		return Times{}, false, err
	}
	return t, true, nil
}
