package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/journal"
)

func (p *program) newRuns() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, show and mend runs",
		Long: `Works on a database file, also while another process runs the engine on it, and
while nothing runs.

ID is a run ID; or a workflow ID, which stands for its open run, else for the
newest; or @latest, the run that was started last.`,
		Example: `  perdure runs list --status failed,suspended
  perdure runs get ord-1001
  perdure runs watch @latest`,
	}
	db := p.database(cmd)
	return group(cmd, newRunsList(db), newRunsGet(db), newRunsDescribe(db), newRunsHistory(db), newRunsExport(db),
		newRunsWatch(db), newRunsWait(db), newRunsSignal(db), newRunsDecide(db),
		newRunsCancel(db), newRunsSuspend(db), newRunsResume(db))
}

// A listing is what runs list was asked for.
type listing struct {
	db       *database
	out      *output
	query    perdure.Query
	statuses []string
	parent   string
	limit    int
}

func newRunsList(db *database) *cobra.Command {
	l := &listing{db: db}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first",
		Example: `  perdure runs list --open
  perdure runs list --workflow order-fulfilment --status failed -o json
  perdure runs list --attribute customer=ada --limit 20`,
		Args: cobra.NoArgs,
	}
	l.out = newOutput(cmd)
	flags := cmd.Flags()
	flags.StringVar(&l.query.Workflow, "workflow", "", "of this workflow")
	flags.StringVar(&l.query.WorkflowID, "id", "", "with this workflow ID")
	flags.StringSliceVar(&l.statuses, "status", nil, "in one of these statuses")
	flags.BoolVar(&l.query.Open, "open", false, "that have not ended")
	flags.StringVar(&l.parent, "parent", "", "children of the run with this ID")
	flags.StringToStringVar(&l.query.Attributes, "attribute", nil, "with this search attribute, as name=value")
	flags.IntVar(&l.limit, "limit", 50, "at most so many; 0 for all")
	cmd.RunE = l.run
	completeFlag(cmd, db, "workflow", db.workflowNames)
	completeFlag(cmd, db, "status", func(context.Context, *client) []string { return statusNames() })
	return cmd
}

func (l *listing) run(cmd *cobra.Command, _ []string) error {
	if err := l.out.check(); err != nil {
		return err
	}
	if l.limit < 0 {
		return usage(cmd, fmt.Sprintf("--limit cannot be %d", l.limit))
	}
	var err error
	if l.query.Statuses, err = parseStatuses(l.statuses); err != nil {
		return err
	}
	return using(cmd, l.db.read, func(ctx context.Context, c *client) error {
		if l.parent != "" {
			h, err := c.find(ctx, l.parent)
			if err != nil {
				return err
			}
			l.query.Parent = h.ID
		}
		heads, err := c.all(ctx, l.query)
		if err != nil {
			return err
		}
		left := 0
		if l.limit > 0 && len(heads) > l.limit {
			left, heads = len(heads)-l.limit, heads[:l.limit]
		}
		runs := make([]api.Run, len(heads))
		for i, h := range heads {
			runs[i] = api.RunOf(h)
		}
		if err := list(l.out, cmd.OutOrStdout(), runs, runColumns); err != nil {
			return err
		}
		if left > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%d more: --limit 0 lists all\n", left)
		}
		return nil
	})
}

func statusNames() []string {
	var names []string
	for _, s := range journal.Statuses() {
		names = append(names, strings.ToLower(s.String()))
	}
	return names
}

// parseStatuses takes statuses in any case, with - for _.
func parseStatuses(names []string) ([]journal.Status, error) {
	var out []journal.Status
	for _, name := range names {
		s, ok := journal.ParseStatus(strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		if !ok {
			return nil, &perdure.Error{
				Code: journal.CodeInvalid, Op: "runs list", Message: "there is no status " + name,
				Hint: didYouMean(nearest(name, statusNames()), "one of "+strings.Join(statusNames(), ", ")),
			}
		}
		out = append(out, s)
	}
	return out, nil
}

var runColumns = []column[api.Run]{
	{"RUN ID", func(r api.Run) string { return r.RunID }},
	{"WORKFLOW ID", func(r api.Run) string { return r.WorkflowID }},
	{"WORKFLOW", func(r api.Run) string { return r.Workflow }},
	{"STATUS", func(r api.Run) string { return r.Status }},
	{"STARTED", func(r api.Run) string { return moment(r.Created) }},
	{"TOOK", lasted},
	{"NEXT", next},
}

// lasted is how long an ended run has lasted.
func lasted(r api.Run) string {
	if r.Ended.IsZero() {
		return ""
	}
	return took(r.Ended.Sub(r.Created))
}

// next is what an open run waits for, as far as its head tells.
func next(r api.Run) string {
	switch {
	case r.Cause != "":
		return r.Cause
	case !r.Wake.IsZero() && r.Status == journal.Waiting.String():
		return "wakes " + moment(r.Wake)
	}
	return ""
}

func newRunsGet(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get ID",
		Short:   "Show a run, and how it ended",
		Example: "  perdure runs get ord-1001\n  perdure runs get @latest -o json",
		Args:    exactly("ID"),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			d, err := c.describe(ctx, args[0])
			if err != nil {
				return err
			}
			return one(out, cmd.OutOrStdout(), d.Outcome, func(w io.Writer) error { return printRun(w, d) })
		})
	}
	completeRuns(cmd, db)
	return cmd
}

func printRun(w io.Writer, d api.Description) error {
	return fields(w,
		"run", d.RunID, "workflow ID", d.WorkflowID, "workflow", d.Workflow, "status", d.Status,
		"why", d.Why, "started", moment(d.Created), "ended", moment(d.Ended), "took", lasted(d.Run),
		"steps", countSteps(d.Steps), "output", string(d.Output), "error", errorText(d.Error))
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
	cmd := &cobra.Command{
		Use:     "describe ID",
		Short:   "Show all that is known of a run: steps, what it waits for, messages, data",
		Example: "  perdure runs describe ord-1001",
		Args:    exactly("ID"),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			d, err := c.describe(ctx, args[0])
			if err != nil {
				return err
			}
			return one(out, cmd.OutOrStdout(), d, func(w io.Writer) error { return printDescription(w, d) })
		})
	}
	completeRuns(cmd, db)
	return cmd
}

func printDescription(w io.Writer, d api.Description) error {
	if err := printRun(w, d); err != nil {
		return err
	}
	pairs := []string{"input", string(d.Payload), "continues", d.Predecessor, "continued by", d.Successor, "build", d.Build}
	for _, name := range sorted(d.Published) {
		pairs = append(pairs, "shows "+name, string(d.Published[name]))
	}
	for _, name := range sorted(d.Attributes) {
		pairs = append(pairs, "attribute "+name, d.Attributes[name])
	}
	for _, name := range sorted(d.Versions) {
		pairs = append(pairs, "version of "+name, strconv.Itoa(d.Versions[name]))
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

// section prints a table under a heading, where there is anything in it.
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
		if note == "" {
			note = s.Reason
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

// describe tells all that is known of a run, with its output.
func (c *client) describe(ctx context.Context, id string) (api.Description, error) {
	h, err := c.find(ctx, id)
	if err != nil {
		return api.Description{}, err
	}
	known, err := c.Describe(ctx, string(h.ID))
	if err != nil {
		return api.Description{}, err
	}
	d := api.DescriptionOf(known.Head, known.State)
	d.Why = known.Why
	for _, m := range known.Unread {
		d.Unread = append(d.Unread, messageOf(m))
	}
	if known.Head.Status.IsTerminal() {
		statuses, err := c.Statuses(ctx, string(h.ID))
		if err != nil {
			return api.Description{}, err
		}
		d.Output = api.Data(statuses[0].Output)
	}
	return d, nil
}

func messageOf(m perdure.Message) api.Message {
	out := api.Message{Number: m.Number, Name: m.Name, ID: m.ID, To: m.To, Sent: m.Sent.UTC(), Data: m.Data}
	if !m.Until.IsZero() {
		out.Until = m.Until.UTC()
	}
	return out
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
