package app

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
)

func (p *program) newUnrouted() *cobra.Command {
	cmd := &cobra.Command{
		Use: "unrouted", Short: "List and deliver signals that found no run",
		Example: "  perdure unrouted list\n  perdure unrouted deliver 17 ord-1001",
	}
	db := p.database(cmd)
	return group(cmd, newUnroutedList(db), newUnroutedDeliver(db))
}

var messageColumns = []column[api.Message]{
	{"NUMBER", func(m api.Message) string { return strconv.FormatInt(m.Number, 10) }},
	{"SIGNAL", func(m api.Message) string { return m.Name }},
	{"SENT", func(m api.Message) string { return moment(m.Sent) }},
	{"DATA", func(m api.Message) string { return string(m.Data) }},
	{"FOR", func(m api.Message) string { return m.To }},
	{"UNTIL", func(m api.Message) string { return moment(m.Until) }},
}

func newUnroutedList(db *database) *cobra.Command {
	var from int64
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List signals that were sent to a workflow ID that no open run has",
		Long: `Lists signals that wait for a run with their workflow ID. The next run that is started
with it gets them. They expire if none is started.`,
		Example: "  perdure unrouted list -o jsonl",
		Args:    exactly(),
	}
	out := newOutput(cmd)
	cmd.Flags().Int64Var(&from, "from", 0, "begin at this number")
	cmd.Flags().IntVar(&limit, "limit", 100, "number of signals to list; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if from < 0 || limit < 0 {
			return usage(cmd, "--from and --limit are 0 or more")
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			messages, err := c.Unrouted(ctx, from, limit)
			if err != nil {
				return err
			}
			all := make([]api.Message, len(messages))
			for i, m := range messages {
				all[i] = present.Message(m)
			}
			defer sayMore(cmd, limit > 0 && len(all) == limit)
			return list(out, cmd.OutOrStdout(), all, messageColumns)
		})
	}
	return cmd
}

func newUnroutedDeliver(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "deliver NUMBER ID", Short: "Deliver one of them to a run",
		Example: "  perdure unrouted deliver 17 ord-1001",
		Args:    exactly("NUMBER", "ID"),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		number, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			return usage(cmd, fmt.Sprintf("%q is not a number", args[0]))
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			h, err := c.find(ctx, args[1])
			if err != nil {
				return err
			}
			d, err := c.Deliver(ctx, number, string(h.ID))
			if err != nil {
				return err
			}
			if err := one(out, cmd.OutOrStdout(), present.Delivery(d), func(w io.Writer) error {
				return printDelivery(w, args[1], d)
			}); err != nil {
				return err
			}
			return c.warn(ctx, cmd.ErrOrStderr())
		})
	}
	return cmd
}
