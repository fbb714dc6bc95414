package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
)

var pauseColumns = []column[api.Pause]{
	{"WORKFLOW", func(p api.Pause) string {
		if p.Workflow == admin.AllWorkflows {
			return "(all)"
		}
		return p.Workflow
	}},
	{"SINCE", func(p api.Pause) string { return moment(p.At) }},
	{"BY", func(p api.Pause) string { return p.By }},
	{"REASON", func(p api.Pause) string { return p.Reason }},
}

func newWorkflowsPause(db *database) *cobra.Command {
	return pausing(db, &cobra.Command{
		Use: "pause [NAME]", Short: "Begin no step of a workflow, on any engine",
		Long: `Lets the runs of a workflow begin no step, on all engines and at once. Steps in flight
end. Runs may be started, signalled and cancelled meanwhile; all that has an effect when
the workflow is resumed. Nothing is lost. The command prints what is paused then.`,
		Example: `  perdure workflows pause bill --reason 'the bank is closed'
  perdure workflows pause --all`,
	}, (*admin.Client).PauseWorkflow)
}

func newWorkflowsResume(db *database) *cobra.Command {
	return pausing(db, &cobra.Command{
		Use: "resume [NAME]", Short: "Let the runs of a paused workflow go on",
		Long: `Ends a pause. A workflow that is paused by its name stays paused after resume --all. The
command prints what is still paused.`,
		Example: "  perdure workflows resume bill",
	}, (*admin.Client).ResumeWorkflow)
}

func pausing(db *database, cmd *cobra.Command,
	do func(*admin.Client, context.Context, string, admin.Note) error) *cobra.Command {
	var note admin.Note
	var all bool
	out := newOutput(cmd)
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.Flags().BoolVar(&all, "all", false, "all workflows")
	noteFlags(cmd, &note)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if all == (len(args) == 1) {
			return usage(cmd, "write the NAME of a workflow or --all")
		}
		name := admin.AllWorkflows
		if !all {
			name = args[0]
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			if err := do(admin.New(c.Client), ctx, name, signedNote(note)); err != nil {
				return err
			}
			if err := c.showPauses(ctx, cmd, out); err != nil {
				return err
			}
			return c.warn(ctx, cmd.ErrOrStderr())
		})
	}
	return cmd
}

func newWorkflowsPaused(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "paused", Short: "List the workflows that are paused, by whom and why",
		Example: "  perdure workflows paused -o json", Args: exactly(),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			return c.showPauses(ctx, cmd, out)
		})
	}
	return cmd
}

func (c *client) showPauses(ctx context.Context, cmd *cobra.Command, out *output) error {
	pauses, err := admin.New(c.Client).Pauses(ctx)
	if err != nil {
		return err
	}
	var all []api.Pause
	for _, p := range pauses {
		all = append(all, present.Pause(p))
	}
	if len(all) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no workflow is paused")
	}
	return list(out, cmd.OutOrStdout(), all, pauseColumns)
}
