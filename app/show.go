package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
)

func newRunsGet(db *database) *cobra.Command {
	return showing(db, &cobra.Command{
		Use:     "get ID",
		Short:   "Show the status of a run, and its output or error",
		Example: "  perdure runs get ord-1001\n  perdure runs get @latest -o json",
	}, func(d api.Description) any { return d.Outcome }, printRun)
}

func printRun(w io.Writer, d api.Description) error { return fields(w, runFields(d)...) }

func runFields(d api.Description) []string {
	return []string{
		"run", d.RunID, "workflow ID", d.WorkflowID, "workflow", d.Workflow, "status", d.Status,
		"why", d.Why, "started", moment(d.Created), "ended", moment(d.Ended), "took", lasted(d.Run),
		"steps", countSteps(d.Steps), "output", string(d.Output), "error", errorText(d.Error),
	}
}

func errorText(e *api.Error) string {
	switch {
	case e == nil:
		return ""
	case e.Code == "":
		return e.Message
	}
	return e.Message + " (" + e.Code + ")"
}

func countSteps(steps []api.Step) string {
	if len(steps) == 0 {
		return ""
	}
	counts := map[string]int{}
	var order []string
	for _, s := range steps {
		name := strings.ToLower(s.Status)
		if counts[name]++; counts[name] == 1 {
			order = append(order, name)
		}
	}
	for i, name := range order {
		order[i] = strconv.Itoa(counts[name]) + " " + name
	}
	return strings.Join(order, ", ")
}

func newRunsDescribe(db *database) *cobra.Command {
	return showing(db, &cobra.Command{
		Use:     "describe ID",
		Short:   "Show the steps, waits, messages and data of a run",
		Example: "  perdure runs describe ord-1001",
	}, func(d api.Description) any { return d }, printDescription)
}

// showing makes a command that shows a run: as text, or the result of record as JSON.
func showing(db *database, cmd *cobra.Command, record func(api.Description) any,
	text func(io.Writer, api.Description) error) *cobra.Command {
	out := newOutput(cmd)
	return aboutRun(db, cmd, out.check, db.read, func(ctx context.Context, c *client,
		h journal.Head) error {
		d, err := present.Describe(ctx, c.Client, string(h.ID))
		if err != nil {
			return err
		}
		return one(out, cmd.OutOrStdout(), record(d), func(w io.Writer) error { return text(w, d) })
	})
}

func printDescription(w io.Writer, d api.Description) error {
	pairs := append(runFields(d), "input", string(d.Payload), "continues", d.Predecessor,
		"continued by", d.Successor, "goes on from", originText(d.Origin),
		"goes on as", originText(d.GoesOnAs), "by", d.By, "build", d.Build)
	if s, ok := journal.ParseStatus(d.Status); ok && s.IsTerminal() && !s.IsSuccess() {
		pairs = append(pairs, "not undone", strings.Join(d.Undoable, ", "))
	}
	for _, name := range sorted(d.Published) {
		pairs = append(pairs, "shows "+name, string(d.Published[name]))
	}
	for _, name := range sorted(d.Streams) {
		pairs = append(pairs, "stream "+name, strconv.FormatInt(d.Streams[name], 10)+" bytes")
	}
	for _, name := range sorted(d.Attributes) {
		pairs = append(pairs, "attribute "+name, d.Attributes[name])
	}
	for _, name := range sorted(d.Versions) {
		pairs = append(pairs, "version of "+name, strconv.Itoa(d.Versions[name]))
	}
	for _, path := range d.Unused {
		pairs = append(pairs, "recorded, unused", path)
	}
	if err := fields(w, pairs...); err != nil {
		return err
	}
	if err := section(w, "steps", d.Steps, stepColumns); err != nil {
		return err
	}
	if err := section(w, "waits for", d.Waits, waitColumns); err != nil {
		return err
	}
	return section(w, "messages that it has not taken", d.Unread, messageColumns[:4])
}

// originText describes a link between two runs; the empty text if there is none.
func originText(o *api.Origin) string {
	if o == nil {
		return ""
	}
	text := o.RunID + " (" + o.Action
	if o.Step != "" {
		text += " " + o.Step
	}
	if o.NewInput {
		text += ", with another input"
	}
	if o.By != "" {
		text += ", by " + o.By
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text + ")"
}

// section prints a table under a heading. It prints nothing without records.
func section[T any](w io.Writer, name string, records []T, columns []column[T]) error {
	if len(records) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s\n", name)
	return table(w, records, columns)
}

var stepColumns = []column[api.Step]{
	{"STEP", func(s api.Step) string { return s.Path }},
	{"STATUS", func(s api.Step) string { return s.Status }},
	{"ATTEMPTS", func(s api.Step) string { return strconv.Itoa(s.Attempts) }},
	{"STARTED", func(s api.Step) string { return moment(s.Started) }},
	{"TOOK", func(s api.Step) string {
		if s.Ended.IsZero() || s.Started.IsZero() {
			return ""
		}
		return took(s.Ended.Sub(s.Started))
	}},
	{"NOTE", func(s api.Step) string {
		note := errorText(s.Error)
		if s.Status == string(journal.StepIsDone) && note != "" {
			return "before: " + note
		}
		if note == "" {
			note = bySomebody(s.By, s.Reason)
		}
		if !s.Due.IsZero() {
			note = "again at " + moment(s.Due) + ": " + note
		}
		return note
	}},
}

var waitColumns = []column[api.Wait]{
	{"KIND", func(w api.Wait) string { return w.Kind }},
	{"NAME", func(w api.Wait) string { return w.Path }},
	{"SINCE", func(w api.Wait) string { return moment(w.Since) }},
	{"UNTIL", func(w api.Wait) string { return moment(w.Due) }},
	{"NOTE", func(w api.Wait) string {
		if len(w.Choices) > 0 {
			return w.Reason + " (" + strings.Join(w.Choices, ", ") + ")"
		}
		return w.Reason + w.Child
	}},
}

// last returns the last run of the chain that begins with h, and its description. A chain
// goes on with each run that continues as new.
func (c *client) last(ctx context.Context, h journal.Head) (journal.Head, api.Description, error) {
	for id := string(h.ID); ; {
		h, err := c.find(ctx, id)
		if err != nil {
			return h, api.Description{}, err
		}
		d, err := present.Describe(ctx, c.Client, string(h.ID))
		if err != nil || d.Successor == "" {
			return h, d, err
		}
		id = d.Successor
	}
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
