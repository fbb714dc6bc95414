package app

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/journal"
)

// retryLetters makes a command that retries the run of a dead letter retry those of several ones.
func retryLetters(db *database, cmd *cobra.Command, out *output, order func() admin.Order) {
	b, workflow := &bulk{db: db, out: out}, ""
	cmd.Flags().StringVar(&workflow, "workflow", "", "all open dead letters of this workflow")
	completeFlag(cmd, db, "workflow", db.workflowNames)
	b.add(cmd)
	isFor := func(args []string) bool { return cmd.Flags().Changed("workflow") || len(args) > 1 }
	check, run := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if isFor(args) {
			return nil
		}
		return check(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !isFor(args) && b.isOdd(cmd):
			return usage(cmd, onlyForMany)
		case !isFor(args):
			return run(cmd, args)
		case cmd.Flags().Changed("workflow") && len(args) > 0:
			return usage(cmd, "--workflow stands for all of a workflow, and "+args[0]+
				" is one argument too many")
		case cmd.Flags().Changed("workflow") && !journal.ValidName(workflow):
			return usage(cmd, "--workflow needs the name of a workflow")
		}
		if err := out.check(); err != nil {
			return err
		}
		open := db.read
		if b.yes && !b.preview {
			open = db.write
		}
		return using(cmd, open, func(ctx context.Context, c *client) error {
			runs, err := c.runsOfLetters(ctx, workflow, args)
			if err != nil {
				return err
			}
			return c.bulk(ctx, cmd, out, batch.Spec{Order: order(), Runs: runs, Rate: b.rate},
				b.preview, b.yes)
		})
	}
}

// runsOfLetters returns the runs of open dead letters: of those with these IDs, or of all of a
// workflow but those that were added from outside, which have no run.
func (c *client) runsOfLetters(ctx context.Context, workflow string, ids []string) (runs []string,
	err error) {
	for _, id := range ids {
		l, err := admin.New(c.Client).DeadLetter(ctx, id)
		switch {
		case err != nil:
			return nil, c.noLetter(err)
		case l.RunID == "":
			return nil, &perdure.Error{
				Code: journal.CodeWrongState, Op: "retry dead letter " + id,
				Message: "it was added from outside, or is damaged: there is no run to retry",
			}
		}
		runs = append(runs, l.RunID)
	}
	if len(ids) > 0 {
		return runs, nil
	}
	all, _, err := c.letters(ctx, admin.DeadLetterQuery{Workflow: workflow}, batch.MaxRuns+1)
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.RunID != "" {
			runs = append(runs, l.RunID)
		}
	}
	if len(runs) == 0 {
		return nil, c.noLetter(&perdure.Error{
			Code: journal.CodeNotFound, Op: "retry dead letters",
			Message: "no open dead letter of workflow " + workflow + " has a run",
		})
	}
	return runs, nil
}
