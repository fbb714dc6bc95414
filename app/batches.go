package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/journal"
)

func (p *program) newBatch() *cobra.Command {
	cmd := &cobra.Command{
		Use: "batch", Short: "Show and stop batches: what is done with many runs",
		Long: `Shows and stops batches. runs retry, skip, fork, compensate, cancel and terminate start
one with --filter or several IDs.`,
		Example: `  perdure runs retry --filter 'status=failed workflow=order since=24h' --preview
  perdure runs retry --filter 'status=failed workflow=order since=24h' --yes
  perdure batch list`,
	}
	db := p.database(cmd)
	return group(cmd, newBatchList(db), newBatchGet(db), newBatchStop(db))
}

const exampleBatch = "k3v9q2mzx7"

var batchColumns = []column[batch.Batch]{
	{"ID", func(b batch.Batch) string { return b.ID }},
	{"ACTION", func(b batch.Batch) string { return string(b.Spec.Order.Action) }},
	{"STATUS", func(b batch.Batch) string { return string(b.Status) }},
	{"EXPECTED", func(b batch.Batch) string {
		if b.More {
			return "over " + strconv.Itoa(b.Expected)
		}
		return strconv.Itoa(b.Expected)
	}},
	{"DONE", func(b batch.Batch) string { return strconv.FormatInt(b.Done, 10) }},
	{"SKIPPED", func(b batch.Batch) string { return strconv.FormatInt(b.Skipped, 10) }},
	{"FAILED", func(b batch.Batch) string { return strconv.FormatInt(b.Failed, 10) }},
	{"STARTED", func(b batch.Batch) string { return moment(b.Created) }},
	{"BY", func(b batch.Batch) string { return b.Spec.Order.By }},
	{"FILTER", func(b batch.Batch) string { return b.Spec.Filter }},
}

// expected describes the number of runs that a batch had at its start.
func expected(b batch.Batch) string { return counted(b.Expected, b.More) }

func newBatchList(db *database) *cobra.Command {
	var q batch.Query
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List batches, newest first",
		Example: "  perdure batch list --open\n  perdure batch list -o json",
		Args:    exactly(),
	}
	out := newOutput(cmd)
	cmd.Flags().BoolVar(&q.Open, "open", false, "only batches that have not ended")
	cmd.Flags().IntVar(&limit, "limit", 100, "number of batches to list; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if limit < 0 {
			return usage(cmd, "--limit is 0 or more")
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			all, more, err := c.batches(ctx, q, limit)
			if err != nil {
				return err
			}
			defer sayMore(cmd, more)
			return list(out, cmd.OutOrStdout(), all, batchColumns)
		})
	}
	return cmd
}

// batches returns at most limit batches of a query, and whether there may be more. A limit of 0
// means all.
func (c *client) batches(ctx context.Context, q batch.Query, limit int) ([]batch.Batch, bool,
	error) {
	return pages(limit, func(after journal.Cursor) ([]batch.Batch, journal.Cursor, error) {
		q.After = after
		return batch.List(ctx, c.Client, q)
	})
}

func newBatchGet(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get ID", Short: "Show how far a batch is, and the runs that it could not act on",
		Example: "  perdure batch get " + exampleBatch + " -o json",
		Args:    exactly("ID"),
	}
	out := newOutput(cmd)
	completeBatches(cmd, db, batch.Query{})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			b, err := batch.Get(ctx, c.Client, args[0])
			if err != nil {
				return c.noBatch(err)
			}
			if err := one(out, cmd.OutOrStdout(), b, func(w io.Writer) error {
				return printBatch(w, b)
			}); err != nil || !b.Ended.IsZero() {
				return err
			}
			return c.warn(ctx, cmd.ErrOrStderr())
		})
	}
	return cmd
}

// noBatch adds to the error of an unknown batch how to find the known ones.
func (c *client) noBatch(err error) error {
	if e := (*perdure.Error)(nil); errors.As(err, &e) && e.Code == journal.CodeNotFound {
		return hinted(err, c.place.Command("batch list")+" shows the batches")
	}
	return err
}

func printBatch(w io.Writer, b batch.Batch) error {
	rate, stop := "", ""
	if b.Spec.Rate > 0 {
		rate = strconv.FormatFloat(b.Spec.Rate, 'g', -1, 64) + " runs per second"
	}
	if b.Stop != nil {
		stop = moment(b.Stop.At) + " by " + b.Stop.By + noted(b.Stop.Reason)
	}
	err := fields(w,
		"batch", b.ID,
		"status", string(b.Status),
		"why", b.Problem,
		"action", string(b.Spec.Order.Action),
		"step", b.Spec.Order.Step,
		"filter", b.Spec.Filter,
		"by", b.Spec.Order.By+noted(b.Spec.Order.Reason),
		"rate", rate,
		"expected", expected(b),
		"done", strconv.FormatInt(b.Done, 10),
		"skipped", strconv.FormatInt(b.Skipped, 10),
		"failed", strconv.FormatInt(b.Failed, 10),
		"started", moment(b.Created),
		"ended", moment(b.Ended),
		"stopped", stop,
	)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, part := range []struct {
		name  string
		items []batch.Item
	}{{"FAILED", b.Errors}, {"SKIPPED", b.Skips}} {
		if len(part.items) > 0 {
			rows = append(rows, []string{""}, []string{part.name, "ERROR"})
		}
		for _, i := range part.items {
			rows = append(rows, []string{i.RunID, plain(i.Error)})
		}
	}
	return align(w, rows)
}

func newBatchStop(db *database) *cobra.Command {
	var do admin.Order
	cmd := &cobra.Command{
		Use: "stop ID", Short: "Stop a batch; the runs that it has not come to stay as they are",
		Example: "  perdure batch stop " + exampleBatch + " --reason 'the bank is down again'",
		Args:    exactly("ID"),
	}
	out := newOutput(cmd)
	why(cmd, &do)
	completeBatches(cmd, db, batch.Query{Open: true})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			err := batch.Stop(ctx, c.Client, args[0], signed(do).By, do.Reason)
			if err != nil {
				return c.noBatch(err)
			}
			b, err := batch.Get(ctx, c.Client, args[0])
			if err != nil {
				return err
			}
			if err := one(out, cmd.OutOrStdout(), b, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "batch %s is %s\n", b.ID, b.Status)
				return err
			}); err != nil {
				return err
			}
			return c.warn(ctx, cmd.ErrOrStderr())
		})
	}
	return cmd
}

// completeBatches completes the ID of a batch.
func completeBatches(cmd *cobra.Command, db *database, q batch.Query) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return db.offer(cmd, typed, func(ctx context.Context, c *client) (ids []string) {
			all, _, err := c.batches(ctx, q, 0)
			if err != nil {
				return nil
			}
			for _, b := range all {
				ids = append(ids, b.ID)
			}
			return ids
		})
	}
}
