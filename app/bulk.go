package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/batch"
	"github.com/perdure/perdure/filter"
	"github.com/perdure/perdure/journal"
)

// standardInput is the argument that stands for IDs from the standard input.
const standardInput = "-"

// bulkHelp ends the help of a command that acts on one run or on many.
const bulkHelp = `

Several IDs, - for IDs on the standard input, one a line, or --filter start a batch: an
engine acts on the runs one after the other, and goes on after a crash. --preview shows
the runs, and without --yes nothing is done. See batch and runs list for more.`

// A bulk is the part of a command about one run by which it acts on many.
type bulk struct {
	db      *database
	out     *output
	order   func(*cobra.Command) (admin.Order, error)
	filter  string
	step    string
	rate    float64
	yes     bool
	preview bool
}

// inBulk adds the flags by which a command acts on many runs. hasStep adds a flag for the step,
// with which every argument is an ID.
func inBulk(db *database, cmd *cobra.Command, out *output, hasStep bool,
	order func(*cobra.Command) (admin.Order, error)) *bulk {
	b := &bulk{db: db, out: out, order: order}
	cmd.Flags().StringVar(&b.filter, "filter", "", "act on all runs that meet these conditions")
	b.add(cmd)
	if hasStep {
		cmd.Flags().StringVar(&b.step, "step", "", "the step; then every argument is an ID")
	}
	cmd.Long += bulkHelp
	args, run := cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, list []string) error {
		if b.isFor(cmd, list) || b.oneWithStep(cmd, list) {
			return nil
		}
		return args(cmd, list)
	}
	cmd.RunE = func(cmd *cobra.Command, list []string) error {
		switch {
		case b.isFor(cmd, list):
			return b.run(cmd, list)
		case b.isOdd(cmd):
			return usage(cmd, onlyForMany)
		}
		return run(cmd, list)
	}
	return b
}

// add adds the flags of every command that acts on many runs.
func (b *bulk) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Float64Var(&b.rate, "rate", 0, "with several runs: at most so many per second "+
		"(default no limit)")
	flags.BoolVar(&b.yes, "yes", false, "with several runs: start the batch")
	if flags.Lookup("preview") == nil {
		flags.BoolVar(&b.preview, "preview", false, "with several runs: show them, and change "+
			"nothing")
	}
}

// isOdd reports whether a command about one run has a flag that is for many.
func (b *bulk) isOdd(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("rate") || b.yes || b.preview
}

const onlyForMany = "--rate, --yes and --preview are for several runs"

// oneWithStep reports whether a command is for one run and has its step as a flag.
func (b *bulk) oneWithStep(cmd *cobra.Command, args []string) bool {
	return cmd.Flags().Changed("step") && len(args) == 1
}

// isFor reports whether a command is for many runs.
func (b *bulk) isFor(cmd *cobra.Command, args []string) bool {
	flags := cmd.Flags()
	hasStep := flags.Lookup("step") != nil
	return flags.Changed("filter") || len(args) > 0 && args[0] == standardInput ||
		len(args) > 1 && (!hasStep || flags.Changed("step"))
}

func (b *bulk) run(cmd *cobra.Command, args []string) error {
	if err := b.out.check(); err != nil {
		return err
	}
	if cmd.Flags().Changed("filter") && strings.TrimSpace(b.filter) == "" {
		return usage(cmd, "an empty --filter is not valid: it selects every run")
	}
	ids, err := idsOf(cmd, args)
	if err != nil {
		return err
	}
	order, err := b.order(cmd)
	if err != nil {
		return err
	}
	order.Step = b.step
	spec := batch.Spec{Order: order, Filter: b.filter, Runs: ids, Rate: b.rate}
	preview, _ := cmd.Flags().GetBool("preview") // it is a flag of the command
	open := b.db.read
	if b.yes && !preview {
		open = b.db.write
	}
	return using(cmd, open, func(ctx context.Context, c *client) error {
		if err := c.latestOf(ctx, spec.Runs); err != nil {
			return err
		}
		if err := c.latestParent(ctx, &spec.Filter); err != nil {
			return err
		}
		return c.bulk(ctx, cmd, b.out, spec, preview, b.yes)
	})
}

// bulk shows or starts a batch.
func (c *client) bulk(ctx context.Context, cmd *cobra.Command, out *output, spec batch.Spec,
	preview, yes bool) error {
	if preview || !yes {
		p, err := batch.Preview(ctx, c.Client, spec)
		switch {
		case err != nil:
			return explainedSpec(err)
		case preview:
			return printPlan(cmd, out, p)
		}
		return &perdure.Error{
			Code: journal.CodeInvalid, Op: string(spec.Order.Action),
			Message: runsOf(p) + " would be acted on, and --yes is missing",
			Hint:    "--preview shows the runs, --yes starts the batch",
		}
	}
	b, err := batch.Start(ctx, c.Client, spec)
	if err != nil {
		return explainedSpec(err)
	}
	if err := one(out, cmd.OutOrStdout(), b, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "batch %s was started: %s of %s\n%s shows how far it is\n", b.ID,
			b.Spec.Order.Action, expected(b), c.place.Command("batch get "+b.ID))
		return err
	}); err != nil {
		return err
	}
	h, err := c.find(ctx, b.RunID)
	if err != nil {
		return err
	}
	return c.warnOf(ctx, cmd.ErrOrStderr(), h.Workflow)
}

// explainedSpec adds to the error of a missing step the flag that names it.
func explainedSpec(err error) error {
	if e := (*perdure.Error)(nil); errors.As(err, &e) && e.Message == "a fork needs a step" {
		return hinted(err, "--step names it")
	}
	return err
}

// runsOf describes how many runs a batch would have.
func runsOf(p batch.Plan) string {
	text := counted(p.Count, p.More)
	if n := len(p.Unknown); n > 0 {
		text += fmt.Sprintf(" (and %d unknown IDs)", n)
	}
	return text
}

// counted describes a number of runs. If there are more, it is the lowest that is known.
func counted(n int, more bool) string {
	switch {
	case more:
		return fmt.Sprintf("more than %d runs", n)
	case n == 1:
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

// A plan is the preview of a batch as JSON.
type plan struct {
	Filter   string         `json:"filter,omitempty"`
	Count    int            `json:"count"`
	More     bool           `json:"more,omitempty"`
	Statuses map[string]int `json:"statuses"`
	LeftOut  int            `json:"left_out,omitempty"`
	Unknown  []string       `json:"unknown,omitempty"`
	First    []api.Run      `json:"first"`
}

func printPlan(cmd *cobra.Command, out *output, p batch.Plan) error {
	shown := plan{
		p.Filter, p.Count, p.More, map[string]int{}, p.LeftOut, p.Unknown,
		make([]api.Run, len(p.First)),
	}
	for status, n := range p.Statuses {
		shown.Statuses[status.String()] = n
	}
	for i, h := range p.First {
		shown.First[i] = api.RunOf(h)
	}
	return one(out, cmd.OutOrStdout(), shown, func(w io.Writer) error {
		if err := fields(w, "runs", runsOf(p), "filter", p.Filter,
			"unknown", strings.Join(p.Unknown, ", ")); err != nil || len(shown.First) == 0 {
			return err
		}
		fmt.Fprintln(w, "\nthe first of them:")
		return table(w, shown.First, runColumns[:5])
	})
}

// idsOf returns the IDs of a command line, or those of the standard input.
func idsOf(cmd *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 || args[0] != standardInput {
		return args, nil
	}
	if len(args) > 1 {
		return nil, usage(cmd, "- stands for all IDs, and "+args[1]+" is one argument too many")
	}
	if file := cmd.Flags().Lookup("file"); file != nil && file.Value.String() == standardInput {
		return nil, usage(cmd, "the standard input is either the IDs or the JSON of -f")
	}
	var ids []string
	lines := bufio.NewScanner(io.LimitReader(cmd.InOrStdin(), maxInput))
	for lines.Scan() {
		if id := strings.TrimSpace(lines.Text()); id != "" {
			ids = append(ids, id)
		}
		if len(ids) > batch.MaxRuns {
			break
		}
	}
	if err := lines.Err(); err != nil {
		return nil, &perdure.Error{
			Code: journal.CodeInvalid, Op: cmd.Name(), Err: err,
			Message: "the IDs cannot be read: line " + strconv.Itoa(len(ids)+1),
			Hint:    "write one run ID or workflow ID a line",
		}
	}
	if len(ids) == 0 {
		return nil, usage(cmd, "the standard input has no ID")
	}
	return ids, nil
}

// latestParent replaces the parent @latest in a filter. It leaves a filter alone that is not valid:
// the batch refuses it.
func (c *client) latestParent(ctx context.Context, text *string) error {
	q, err := filter.Parse(*text, time.Now())
	if err != nil || q.Parent != latest {
		return nil
	}
	if err := c.resolve(ctx, &q); err != nil {
		return err
	}
	*text = filter.Print(q)
	return nil
}

// latestOf replaces @latest in a list of IDs.
func (c *client) latestOf(ctx context.Context, ids []string) error {
	for i := range ids {
		if ids[i] != latest {
			continue
		}
		h, err := c.find(ctx, latest)
		if err != nil {
			return err
		}
		ids[i] = string(h.ID)
	}
	return nil
}
