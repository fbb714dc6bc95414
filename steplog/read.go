package steplog

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

// A Line is a line that a step has logged.
type Line struct {
	Entry   int64  // the sequence of the entry that has it; several lines share one
	Step    string // the path of the step
	Attempt int
	Time    time.Time
	Level   slog.Level
	Message string
	Attrs   json.RawMessage // an object; nil if there are none
	// Omitted is the number of lines of the attempt that were left out: none comes after this one.
	Omitted int
}

// A Query selects lines. The zero value selects all.
type Query struct {
	Step    string // the path of the step
	Attempt int
	After   int64 // lines of later entries only: those that have come since [Line.Entry]
}

// Read returns the lines that are kept of a run, by run ID or workflow ID, in the order of their
// entries. Lines of one attempt are in the order in which they were logged.
func Read(ctx context.Context, c perdure.Caller, id string, q Query) ([]Line, error) {
	op := "read the log of " + id
	client, err := sealed.ClientOf(op, c)
	if err != nil {
		return nil, err
	}
	h, entries, err := client.FrontEnd.History(ctx, id, 1, 0)
	if err != nil {
		return nil, failure.Within(op, err)
	}
	a := journal.NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
	var out []Line
	for _, e := range entries {
		if err := a.Apply(e); err != nil {
			return out, &perdure.Error{Code: journal.CodeCorrupt, Op: op, Err: err}
		}
		if e.Kind != journal.StepLogged || e.Seq <= q.After ||
			q.Attempt != 0 && e.Attempt() != q.Attempt {
			continue
		}
		if e.Detail.GoesOn { // with the first call of its visit
			e.Op.Occ = 1
		}
		if step := a.Path(e.Op); q.Step == "" || q.Step == step {
			out = append(out, lines(e, step)...)
		}
	}
	return out, nil
}

// lines returns the lines of an entry. One that is not readable has only a message.
func lines(e journal.Entry, step string) (out []Line) {
	for data := range bytes.Lines(e.Data) {
		var l struct {
			Time    time.Time       `json:"time"`
			Level   slog.Level      `json:"level"`
			Msg     string          `json:"msg"`
			Attrs   json.RawMessage `json:"attrs"`
			Omitted int             `json:"omitted"`
		}
		if json.Unmarshal(data, &l) != nil {
			l.Msg, l.Time = string(bytes.TrimSpace(data)), e.At
		}
		out = append(out, Line{
			Entry: e.Seq, Step: step, Attempt: e.Attempt(), Time: l.Time, Level: l.Level,
			Message: l.Msg, Attrs: l.Attrs, Omitted: l.Omitted,
		})
	}
	return out
}
