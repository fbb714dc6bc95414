package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/journal"
)

func (p *program) newRuns() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, show and control runs",
		Long: `These commands use the database directly: an engine may run on it meanwhile, and none
need run.

ID is a run ID, a workflow ID or @latest. A workflow ID stands for its open run, or for
its newest run if none is open. @latest is the run that was started last.`,
		Example: `  perdure runs list --status failed,suspended
  perdure runs get ord-1001
  perdure runs watch @latest`,
	}
	db := p.database(cmd)
	return group(cmd, newRunsList(db), newRunsGet(db), newRunsDescribe(db), newRunsHistory(db),
		newRunsExport(db),
		newRunsWatch(db), newRunsWait(db), newRunsSignal(db), newRunsDecide(db),
		newRunsCancel(db), newRunsSuspend(db), newRunsResume(db), newRunsRetry(db),
		newRunsSkip(db), newRunsFork(db), newRunsCompensate(db), newRunsTerminate(db))
}

// A listing holds the flags of the command runs list.
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
		Args: exactly(),
	}
	l.out = newOutput(cmd)
	flags := cmd.Flags()
	flags.StringVar(&l.query.Workflow, "workflow", "", "only runs of this workflow")
	flags.StringVar(&l.query.WorkflowID, "id", "", "only runs with this workflow ID")
	flags.StringSliceVar(&l.statuses, "status", nil, "only runs in one of these statuses")
	flags.BoolVar(&l.query.Open, "open", false, "only runs that have not ended")
	flags.StringVar(&l.parent, "parent", "", "only children of the run with this ID")
	flags.StringToStringVar(&l.query.Attributes, "attribute", nil,
		"only runs with this search attribute, as name=value")
	flags.IntVar(&l.limit, "limit", 50, "number of runs to list; 0 for all")
	cmd.RunE = l.run
	completeFlag(cmd, db, "workflow", db.workflowNames)
	completeFlag(cmd, db, "status", func(context.Context, *client) []string {
		return statusNames()
	})
	return cmd
}

func (l *listing) run(cmd *cobra.Command, _ []string) error {
	if err := l.out.check(); err != nil {
		return err
	}
	if l.limit < 0 {
		return usage(cmd, fmt.Sprintf("--limit %d is not valid: allowed is 0 or more", l.limit))
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
			l.query.Parent = string(h.ID)
		}
		heads, next, err := c.newest(ctx, l.query, l.limit)
		if err != nil {
			return err
		}
		runs := make([]api.Run, len(heads))
		for i, h := range heads {
			runs[i] = api.RunOf(h)
		}
		if err := list(l.out, cmd.OutOrStdout(), runs, runColumns); err != nil {
			return err
		}
		if !next.IsZero() {
			fmt.Fprintf(cmd.ErrOrStderr(), "there may be more: --after %s goes on, --limit 0 "+
				"lists all\n", next)
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

// parseStatuses parses statuses in upper or lower case, with - or _.
func parseStatuses(names []string) ([]journal.Status, error) {
	var out []journal.Status
	for _, name := range names {
		s, ok := journal.ParseStatus(strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
		if !ok {
			return nil, &perdure.Error{
				Code: journal.CodeInvalid, Op: "runs list", Message: "there is no status " + name,
				Hint: didYouMean(nearest(name, statusNames()), "one of "+strings.Join(statusNames(),
					", ")),
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

// lasted returns how long an ended run lasted, as text.
func lasted(r api.Run) string {
	if r.Ended.IsZero() {
		return ""
	}
	return took(r.Ended.Sub(r.Created))
}

// next returns what an open run waits for, if its head has it.
func next(r api.Run) string {
	switch {
	case r.Cause != "":
		return r.Cause
	case !r.Wake.IsZero() && r.Engine == 0 && r.Status == journal.Waiting.String():
		return "wakes " + moment(r.Wake)
	}
	return ""
}
