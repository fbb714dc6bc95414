package app

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/journal"
)

// A mending is a command that starts a run which goes on from another one.
type mending struct {
	db      *database
	cmd     *cobra.Command
	do      admin.Order
	out     *output
	in      *input // of the new input or the output; nil for none
	bulk    *bulk
	preview bool
}

// newMending adds the flags of such a command. takes describes the JSON that it takes; empty for
// none.
func newMending(db *database, cmd *cobra.Command, action journal.Action, takes string) *mending {
	m := &mending{db: db, cmd: cmd, do: admin.Order{Action: action}, out: newOutput(cmd)}
	if takes != "" {
		m.in = newInput(cmd, takes)
	}
	why(cmd, &m.do)
	cmd.Flags().BoolVar(&m.preview, "preview", false,
		"change nothing, and show what is kept and what runs again")
	completeRuns(cmd, db)
	cmd.RunE = m.run
	hasStep := action == journal.ActionSkip || action == journal.ActionFork
	m.bulk = inBulk(db, cmd, m.out, hasStep, m.order)
	return m
}

// order returns the order of the flags.
func (m *mending) order(cmd *cobra.Command) (admin.Order, error) {
	do := signed(m.do)
	if m.in == nil || !cmd.Flags().Changed("input") && !cmd.Flags().Changed("file") {
		return do, nil
	}
	data, err := m.in.read(cmd)
	if do.Action == journal.ActionSkip {
		do.Output = data
	} else {
		do.Input = data
	}
	return do, err
}

func (m *mending) run(cmd *cobra.Command, args []string) error {
	if err := m.out.check(); err != nil {
		return err
	}
	do, err := m.order(cmd)
	if err != nil {
		return err
	}
	if do.Step = m.bulk.step; len(args) > 1 {
		do.Step = args[1]
	}
	return using(cmd, m.db.write, func(ctx context.Context, c *client) error {
		h, err := c.find(ctx, args[0])
		if err != nil {
			return err
		}
		if m.preview {
			return m.show(ctx, c, h, do)
		}
		acted, err := admin.New(c.Client).Act(ctx, string(h.ID), do)
		if err != nil {
			return c.explained(err, h)
		}
		if err := c.printActed(cmd, m.out, acted, func(w io.Writer) error {
			return printStarted(w, acted.RunID, acted.WorkflowID, acted.New)
		}); err != nil {
			return err
		}
		return c.warnOf(ctx, cmd.ErrOrStderr(), h.Workflow)
	})
}

// show prints the preview of an action.
func (m *mending) show(ctx context.Context, c *client, h journal.Head, do admin.Order) error {
	p, err := admin.New(c.Client).Preview(ctx, string(h.ID), do)
	if err != nil {
		return c.explained(err, h)
	}
	shown := api.PreviewOf(p)
	return one(m.out, m.cmd.OutOrStdout(), shown, func(w io.Writer) error {
		return fields(w, "run", shown.RunID, "kept", strings.Join(shown.Kept, ", "),
			"runs again", strings.Join(shown.Again, ", "),
			"would undo", strings.Join(shown.Inherited, ", "),
			"stays", strings.Join(shown.Left, ", "),
			"with new keys", strings.Join(shown.Renewed, ", "),
			"children retried", strings.Join(shown.Children, ", "))
	})
}

func newRunsRetry(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "retry ID...", Short: "Retry a run that has failed, in a new run", Args: exactly("ID"),
		Long: `Starts a run that goes on from the point where another one has FAILED, was CANCELLED or
has TIMED_OUT. It has the workflow ID of the old run, and its input unless -i or -f gives
another one. What ended well there is not done again. If the run was retried already, the
command returns the run that was made then.

A retry of a dead letter is "deadletters retry": the dead letter counts it.`,
		Example: `  perdure runs retry ord-1001
  perdure runs retry --filter 'workflow=order since=24h error~"bank is down"' --yes --rate 20`,
	}
	return newMending(db, cmd, journal.ActionRetry, "another input").cmd
}

func newRunsSkip(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "skip ID [STEP] | ID... --step STEP",
		Short: "Go on after a failed step, with an output for it",
		Long: `Starts a run that goes on from a failed one as a retry does, but the failed step is not
done: its output is the JSON of -i or -f, or null. STEP is its path, as runs describe
shows it; it may be left out if the run failed by one step. A skipped step is not undone
later.`,
		Example: `  perdure runs skip ord-1001 charge -i '{"receipt":"by-hand"}' --reason 'paid by hand'`,
		Args:    between(1, "ID", "STEP"),
	}
	return newMending(db, cmd, journal.ActionSkip, "the output of the step").cmd
}

func newRunsFork(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fork ID STEP | ID... --step STEP",
		Short: "Do a step again, and what came after it, in a new run",
		Long: `Starts a run that keeps what a run that has ended did before a step, and does the step
and the rest again, under the same idempotency keys. STEP is the path of the step, as
runs describe shows it. --preview shows what is kept and what runs again.`,
		Example: `  perdure runs fork ord-1001 price --preview
  perdure runs fork ord-1001 price --reason 'the price was wrong'`,
		Args: exactly("ID", "STEP"),
	}
	return newMending(db, cmd, journal.ActionFork, "another input").cmd
}

func newRunsCompensate(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "compensate ID...", Short: "Undo what a completed run has done",
		Args: exactly("ID"),
		Long: `Starts a run that undoes the steps of a COMPLETED run, the last one first: of a graph, a
saga, or code whose steps have an Undo. It ends as COMPENSATED. If a compensation fails, the run waits as COMPENSATION_FAILED:
runs resume tries again, runs decide skips it. The old run stays COMPLETED. If the run is
compensated already, the command returns the run that was made then.`,
		Example: "  perdure runs compensate ord-1001 --reason 'the customer sends it back'",
	}
	return newMending(db, cmd, journal.ActionCompensate, "").cmd
}

func newRunsTerminate(db *database) *cobra.Command {
	return actingInBulk(db, &cobra.Command{
		Use: "terminate ID...", Short: "End a run at once, without clean-ups and compensations",
		Long: `Ends an open run as CANCELLED at once. It neither cleans up nor undoes anything: the
command lists the steps that are not undone. No engine needs to have its workflow. A run that
carries out the decision of a TCC is not terminated.`,
		Example: "  perdure runs terminate ord-1001 --reason 'it never ends'",
	}, journal.Cancelled, "is asked to end at once", &admin.Order{Action: journal.ActionTerminate})
}

// between returns a check that there is one argument for each name; those from least on may be left
// out.
func between(least int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= len(names) {
			return nil
		}
		if len(args) < least {
			return fmt.Errorf("%s is missing", names[len(args)])
		}
		return fmt.Errorf("%s is one argument too many", args[len(names)])
	}
}
