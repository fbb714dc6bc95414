package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/approval"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
)

func (p *program) newApprovals() *cobra.Command {
	cmd := &cobra.Command{
		Use: "approvals", Short: "List and decide what runs ask people for",
		Long: `These commands use the database directly. The engine that has a run judges and records a
decision, so one must be running. On a database, --as and --role are what you assert: they
are recorded with your user and host.`,
		Example: `  perdure approvals list --role manager
  perdure approvals approve ord-1001 discount --as ada --role manager`,
	}
	db := p.database(cmd)
	return group(cmd, newApprovalsList(db), newDecision(db, true), newDecision(db, false))
}

var approvalColumns = []column[api.Approval]{
	{"AGE", func(a api.Approval) string { return a.Age }},
	{"RUN", func(a api.Approval) string { return a.WorkflowID }},
	{"KEY", func(a api.Approval) string { return a.Key }},
	{"ROLES", func(a api.Approval) string { return strings.Join(a.Roles, " ") }},
	{"DECIDED", func(a api.Approval) string {
		yes := 0
		for _, d := range a.Decisions {
			if d.Approved {
				yes++
			}
		}
		return fmt.Sprintf("%d of %d", yes, a.Quorum)
	}},
	{"DUE", func(a api.Approval) string {
		if a.Due == nil {
			return ""
		}
		return moment(*a.Due)
	}},
	{"TITLE", func(a api.Approval) string { return a.Title }},
}

func newApprovalsList(db *database) *cobra.Command {
	var q approval.Query
	var after string
	cmd := &cobra.Command{
		Use: "list", Short: "List what runs ask for, the oldest first",
		Example: "  perdure approvals list --role manager -o json",
		Args:    exactly(),
	}
	out := newOutput(cmd)
	cmd.Flags().StringVar(&q.Role, "role", "", "what this role may decide now")
	cmd.Flags().StringVar(&q.Workflow, "workflow", "", "of runs of this workflow")
	cmd.Flags().StringVar(&after, "after", "", "list what comes behind this cursor")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "number to list, at most 1000")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := out.check()
		if err == nil {
			q.After, err = approval.ParseCursor(after)
		}
		if err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			open, next, err := approval.List(ctx, c.Client, q)
			if err != nil {
				return err
			}
			all := make([]api.Approval, len(open))
			for i, p := range open {
				all[i] = present.Approval(p)
			}
			if err := list(out, cmd.OutOrStdout(), all, approvalColumns); err != nil ||
				next.IsZero() {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "there are more: --after %s goes on\n", next)
			return err
		})
	}
	return cmd
}

func newDecision(db *database, approved bool) *cobra.Command {
	verb := "reject"
	if approved {
		verb = "approve"
	}
	var d approval.Decision
	var data, key string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   verb + " ID KEY",
		Short: strings.ToUpper(verb[:1]) + verb[1:] + " what a run asks for",
		Long: `Decides what the open run of ID asks for under KEY, and waits until the run has recorded
it. A decision that does not count is refused, and the run goes on asking.`,
		Example: "  perdure approvals " + verb + " ord-1001 discount --as ada --role manager " +
			"--reason 'a good customer'",
		Args: exactly("ID", "KEY"),
	}
	out := newOutput(cmd)
	cmd.Flags().StringVar(&d.By, "as", "", "who decides; without it, the user and the host")
	cmd.Flags().StringVar(&d.Role, "role", "", "the role in which they decide")
	cmd.Flags().StringVar(&d.Reason, "reason", "", "the reason; it is recorded")
	cmd.Flags().StringVar(&data, "data", "", "data for the form, as JSON")
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: the same key is the same decision")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "time to wait; 0 for no limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		w := waiter{out: out, timeout: timeout}
		if err := w.check(); err != nil {
			return err
		}
		d.Approved, d.AssertedBy = approved, operator()
		if d.By == "" {
			d.By = d.AssertedBy
		}
		if cmd.Flags().Changed("data") {
			if d.Data = json.RawMessage(data); !json.Valid(d.Data) {
				return usage(cmd, "--data is not JSON")
			}
		}
		var opts []perdure.SendOption
		if key != "" {
			opts = append(opts, perdure.SendKey(key))
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			h, err := c.find(ctx, args[0])
			if err != nil {
				return err
			}
			if err := c.warnOf(ctx, cmd.ErrOrStderr(), h.Workflow); err != nil {
				return err
			}
			bounded, cancel := w.bound(ctx)
			defer cancel()
			r, err := approval.Decide(bounded, c.Client, string(h.ID), args[1], d, opts...)
			if err != nil {
				return w.undecided(bounded, err)
			}
			return one(out, cmd.OutOrStdout(), present.Receipt(r), func(w io.Writer) error {
				_, err := fmt.Fprintln(w, r)
				return err
			})
		})
	}
	return cmd
}

// undecided returns the error of a decision that was refused, or has no receipt.
func (w *waiter) undecided(ctx context.Context, err error) error {
	if ctx.Err() == nil || journal.CodeOf(err) != journal.CodeTimedOut {
		return err
	}
	if !errors.Is(context.Cause(ctx), errWaited) {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	e := new(perdure.Error)
	errors.As(err, &e)
	return &perdure.Error{
		Code: journal.CodeTimedOut, Err: errWaited, Hint: e.Hint,
		Message: fmt.Sprintf("the run has not recorded the decision within %v", w.timeout),
	}
}
