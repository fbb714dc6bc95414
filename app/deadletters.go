package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/deadletter"
	"github.com/perdure/perdure/journal"
)

func (p *program) newDeadLetters() *cobra.Command {
	cmd := &cobra.Command{
		Use: "deadletters", Aliases: []string{"dlq"},
		Short:   "List, show, add, retry and close dead letters",
		Example: "  perdure deadletters list\n  perdure deadletters retry " + exampleLetter,
	}
	db := p.database(cmd)
	return group(cmd, newDeadLettersList(db), newDeadLettersGet(db), newDeadLettersAdd(db),
		newDeadLettersRetry(db),
		newDeadLettersHandle(db), newDeadLettersDelete(db))
}

// exampleLetter is the ID of a dead letter in examples.
const exampleLetter = "perdure.dead-letter:bdg5vqhs-1-7:charge"

// letterColumns returns the columns of dead letters that are open, or handled.
func letterColumns(handled bool) []column[deadletter.Letter] {
	columns := []column[deadletter.Letter]{
		{"ID", func(l deadletter.Letter) string { return l.ID }},
		{"WORKFLOW", func(l deadletter.Letter) string { return l.Workflow }},
		{"WORKFLOW ID", func(l deadletter.Letter) string { return l.WorkflowID }},
		{"STEP", func(l deadletter.Letter) string { return l.Step }},
		{"SINCE", func(l deadletter.Letter) string { return moment(l.CreatedAt) }},
		{"RETRIES", func(l deadletter.Letter) string { return strconv.Itoa(l.Retries) }},
	}
	if handled {
		columns = append(columns,
			column[deadletter.Letter]{"HANDLED", func(l deadletter.Letter) string {
				return moment(l.HandledAt)
			}},
			column[deadletter.Letter]{"NOTE", func(l deadletter.Letter) string { return l.Note }})
	}
	return append(columns, column[deadletter.Letter]{"ERROR", func(l deadletter.Letter) string {
		if l.Damaged != "" {
			return "damaged: " + l.Damaged
		}
		return l.Error
	}})
}

func newDeadLettersList(db *database) *cobra.Command {
	var q admin.DeadLetterQuery
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what has failed for good and waits for somebody",
		Long: `Lists the open dead letters, newest first: steps that have failed for good, and failures
that were added from outside. The JSON of a dead letter has the input, too.`,
		Example: `  perdure deadletters list --workflow order-fulfilment
  perdure deadletters list --handled -o jsonl`,
		Args: exactly(),
	}
	out := newOutput(cmd)
	flags := cmd.Flags()
	flags.StringVar(&q.Workflow, "workflow", "", "only those of this workflow")
	flags.StringVar(&q.WorkflowID, "id", "", "only those of this workflow ID")
	flags.BoolVar(&q.Handled, "handled", false, "those that were marked as handled instead")
	flags.IntVar(&limit, "limit", 100, "number of dead letters to list; 0 for all")
	completeFlag(cmd, db, "workflow", db.workflowNames)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if limit < 0 {
			return usage(cmd, "--limit is 0 or more")
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			all, more, err := c.letters(ctx, q, limit)
			if err != nil {
				return err
			}
			defer sayMore(cmd, more)
			return list(out, cmd.OutOrStdout(), all, letterColumns(q.Handled))
		})
	}
	return cmd
}

// letters returns at most limit dead letters of a query, and whether there may be more. A limit of
// 0 means all.
func (c *client) letters(ctx context.Context, q admin.DeadLetterQuery,
	limit int) ([]deadletter.Letter, bool, error) {
	return pages(limit, func(after journal.Cursor) ([]deadletter.Letter, journal.Cursor, error) {
		q.After = after
		return admin.New(c.Client).DeadLetters(ctx, q)
	})
}

func newDeadLettersAdd(db *database) *cobra.Command {
	var l deadletter.Letter
	cmd := &cobra.Command{
		Use:   "add WORKFLOW",
		Short: "Add a failure that no run has: in another system, or of a message",
		Long: `Adds a dead letter. WORKFLOW is the kind of work that has failed, whatever it is called
elsewhere. While a dead letter for the same WORKFLOW, --id and --step is open, it gets the
new error, and there is no second one. Without --id each call adds one.`,
		Example: `  perdure deadletters add mail --id msg-17 --error 'the mailbox is full' -f mail.json`,
		Args:    exactly("WORKFLOW"),
	}
	in, out := newInput(cmd, "the input of the work"), newOutput(cmd)
	flags := cmd.Flags()
	flags.StringVar(&l.WorkflowID, "id", "", "what the work was about")
	flags.StringVar(&l.Step, "step", "", "the step that has failed")
	flags.StringVar(&l.Error, "error", "", "the error (required)")
	flags.StringVar(&l.Type, "type", "", "the type of the error")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		l.Workflow = args[0]
		if l.Error == "" {
			return usage(cmd, "--error is needed")
		}
		data, err := in.read(cmd)
		if err != nil {
			return err
		}
		if string(data) != "null" {
			l.Input = data
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			id, err := admin.New(c.Client).AddDeadLetter(ctx, l)
			if err != nil {
				return err
			}
			l.ID, l.Status = id, journal.Failed
			return one(out, cmd.OutOrStdout(), l, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "dead letter %s is open\n", id)
				return err
			})
		})
	}
	return cmd
}

func newDeadLettersGet(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get ID", Short: "Show one open dead letter, with its input",
		Example: "  perdure deadletters get " + exampleLetter,
	}
	out := newOutput(cmd)
	return aboutLetter(db, cmd, out.check, func(ctx context.Context, a *admin.Client,
		id string) error {
		l, err := a.DeadLetter(ctx, id)
		if err != nil {
			return err
		}
		return one(out, cmd.OutOrStdout(), l, func(w io.Writer) error {
			pairs := []string{"run", l.RunID, "code", string(l.Code), "input", string(l.Input)}
			for _, c := range letterColumns(false) {
				pairs = append(pairs, strings.ToLower(c.name), c.of(l))
			}
			return fields(w, pairs...)
		})
	})
}

func newDeadLettersRetry(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry ID... | --workflow NAME",
		Short: "Retry the run of a dead letter from the step that has failed",
		Long: `Retries the run of a dead letter from the step that has failed. The dead letter ends by
itself when the new run has passed the step.

Several IDs, or --workflow for all of a workflow, start a batch: an engine retries the runs
one after the other, and goes on after a crash. --preview shows them, and without --yes
nothing is done.`,
		Example: "  perdure deadletters retry " + exampleLetter + `
  perdure deadletters retry --workflow order --rate 10 --yes`,
	}
	out, do := newOutput(cmd), admin.Order{Action: journal.ActionRetry}
	why(cmd, &do)
	aboutLetter(db, cmd, out.check, func(ctx context.Context, a *admin.Client,
		id string) error {
		acted, err := a.ActOnDeadLetter(ctx, id, signed(do))
		if err != nil {
			return err
		}
		return one(out, cmd.OutOrStdout(), api.Started{
			RunID: acted.RunID, WorkflowID: acted.WorkflowID, New: acted.New,
		}, func(w io.Writer) error {
			return printStarted(w, acted.RunID, acted.WorkflowID, acted.New)
		})
	})
	retryLetters(db, cmd, out, func() admin.Order { return signed(do) })
	return cmd
}

func newDeadLettersHandle(db *database) *cobra.Command {
	var note string
	cmd := &cobra.Command{
		Use: "handle ID", Short: "Mark a dead letter as handled, without a retry",
		Long: `Marks a dead letter as handled: somebody has dealt with the failure. It is not open any
more, and list --handled shows it with the note.`,
		Example: "  perdure deadletters handle " + exampleLetter + " --note 'ada: paid by hand'",
	}
	cmd.Flags().StringVar(&note, "note", "from the command line", "by whom it was handled, or why")
	return aboutLetter(db, cmd, (*output)(nil).check, func(ctx context.Context, a *admin.Client,
		id string) error {
		if err := a.MarkHandled(ctx, id, note); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "dead letter %s is marked as handled\n", id)
		return err
	})
}

func newDeadLettersDelete(db *database) *cobra.Command {
	var do admin.Order
	cmd := &cobra.Command{
		Use: "delete ID", Short: "Delete a dead letter; the run that it is about stays",
		Example: "  perdure deadletters delete " + exampleLetter,
	}
	out := newOutput(cmd)
	why(cmd, &do)
	return aboutLetter(db, cmd, out.check, func(ctx context.Context, a *admin.Client,
		id string) error {
		by := admin.Note{By: signed(do).By, Reason: do.Reason}
		if err := a.DeleteDeadLetter(ctx, id, by); err != nil {
			return err
		}
		return one(out, cmd.OutOrStdout(), api.Deleted{ID: id}, func(io.Writer) error {
			_, err := fmt.Fprintf(cmd.ErrOrStderr(), "dead letter %s is deleted\n", id)
			return err
		})
	})
}

// noLetter adds to the error of an unknown dead letter how to find the known ones.
func (c *client) noLetter(err error) error {
	if e := (*perdure.Error)(nil); errors.As(err, &e) && e.Hint == "" &&
		e.Code == journal.CodeNotFound {
		return hinted(err, c.place.Command("deadletters list")+" shows the open ones")
	}
	return err
}

// aboutLetter completes a command about one open dead letter, whose ID is the argument.
func aboutLetter(db *database, cmd *cobra.Command, check func() error,
	do func(context.Context, *admin.Client, string) error) *cobra.Command {
	cmd.Args = exactly("ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(); err != nil {
			return err
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			err := do(ctx, admin.New(c.Client), args[0])
			if err != nil {
				return c.noLetter(err)
			}
			return c.warn(ctx, cmd.ErrOrStderr())
		})
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return db.offer(cmd, typed, func(ctx context.Context, c *client) (ids []string) {
			all, _, err := c.letters(ctx, admin.DeadLetterQuery{}, 0)
			if err != nil {
				return nil
			}
			for _, l := range all {
				ids = append(ids, l.ID)
			}
			return ids
		})
	}
	return cmd
}
