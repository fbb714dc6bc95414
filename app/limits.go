package app

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/limit"
)

func (p *program) newLimits() *cobra.Command {
	cmd := &cobra.Command{
		Use: "limits", Short: "Set and show limits of runs, steps and semaphores",
		Example: `  perdure limits set bill --concurrency 10
  perdure limits list`,
	}
	db := p.database(cmd)
	return group(cmd, newLimitsList(db), newLimitsGet(db), newLimitsSet(db), newLimitsReset(db))
}

var limitColumns = []column[api.Limit]{
	{"NAME", func(l api.Limit) string { return limitName(l.Name) }},
	{"SET TO", boundsText},
	{"BY", func(l api.Limit) string { return l.By }},
	{"USED", func(l api.Limit) string { return strconv.FormatInt(used(l).Used, 10) }},
	{"WAITING", func(l api.Limit) string { return strconv.FormatInt(used(l).Waiting, 10) }},
}

func limitName(name string) string {
	if name == admin.DefaultLimit {
		return "(default)"
	}
	return name
}

// boundsText returns the numbers that an operator has set, as flags of the command.
func boundsText(l api.Limit) string {
	var parts []string
	add := func(flag string, n *int) {
		if n != nil {
			parts = append(parts, flag+" "+strconv.Itoa(*n))
		}
	}
	add("--concurrency", l.Concurrency)
	add("--per-key", l.PerKey)
	add("--slots", l.Slots)
	if l.Rate != "" {
		parts = append(parts, "--rate "+l.Rate)
	}
	if l.Burst > 0 {
		parts = append(parts, "--burst "+strconv.Itoa(l.Burst))
	}
	return strings.Join(parts, " ")
}

// used adds up what runs hold and wait for.
func used(l api.Limit) (all api.LimitUse) {
	for _, u := range l.Uses {
		all.Used, all.Waiting = all.Used+u.Used, all.Waiting+u.Waiting
	}
	return all
}

func newLimitsList(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the limits that are set, and those that runs hold or wait for",
		Long: `Lists the limits that operators have set, and the limits of the code as far as runs hold
slots or tokens of them or wait for some. Of a limit with many keys it reads at most
1,000 keys, and at most 20,000 of all.`,
		Example: "  perdure limits list -o json",
		Args:    exactly(),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			all, err := c.limits(ctx)
			if err != nil {
				return err
			}
			return list(out, cmd.OutOrStdout(), all, limitColumns)
		})
	}
	return cmd
}

func (c *client) limits(ctx context.Context) (all []api.Limit, err error) {
	limits, err := admin.New(c.Client).Limits(ctx)
	for _, l := range limits {
		all = append(all, present.Limit(l))
	}
	return all, err
}

// limit returns a limit by name.
func (c *client) limit(ctx context.Context, name string) (api.Limit, bool, error) {
	all, err := c.limits(ctx)
	for _, l := range all {
		if l.Name == name {
			return l, true, nil
		}
	}
	return api.Limit{Name: name}, false, err
}

// limitNamed adds the argument NAME or the flag --default to a command about a limit.
func limitNamed(cmd *cobra.Command) func(args []string) (string, error) {
	return namedOrDefault(cmd, "the NAME of a limit",
		"the limit of workflows that have no other one")
}

// namedOrDefault adds an argument, or the flag --default for the empty name, to a command.
func namedOrDefault(
	cmd *cobra.Command, argument, help string,
) func(args []string) (string, error) {
	byDefault := cmd.Flags().Bool("default", false, help)
	cmd.Args = cobra.MaximumNArgs(1)
	return func(args []string) (string, error) {
		if *byDefault == (len(args) == 1) {
			return "", usage(cmd, "write "+argument+" or --default")
		}
		return strings.Join(args, ""), nil
	}
}

func newLimitsGet(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get [NAME]", Short: "Show a limit, and the slots of each key",
		Example: "  perdure limits get bill -o json",
	}
	out, named := newOutput(cmd), limitNamed(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := named(args)
		if err != nil {
			return err
		}
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			l, found, err := c.limit(ctx, name)
			if err == nil && !found {
				err = hinted(&journal.Error{
					Code: journal.CodeNotFound, Op: "get limit " + limitName(name),
					Message: "nobody has set this limit, and no run has or waits for any of it",
				}, c.place.Command("limits list")+" shows the limits")
			}
			if err != nil {
				return err
			}
			return one(out, cmd.OutOrStdout(), l, func(w io.Writer) error {
				return printLimit(w, l)
			})
		})
	}
	return cmd
}

func printLimit(w io.Writer, l api.Limit) error {
	at := ""
	if l.At != nil {
		at = moment(*l.At)
	}
	if err := fields(w, "limit", limitName(l.Name), "set to", boundsText(l), "by", l.By,
		"reason", l.Reason, "at", at); err != nil || len(l.Uses) == 0 {
		return err
	}
	rows := [][]string{{""}, {"OF", "KEY", "SLOTS", "USED", "WAITING"}}
	for _, u := range l.Uses {
		rows = append(rows, []string{
			u.Of, plain(u.Key), strconv.Itoa(u.Slots), strconv.FormatInt(u.Used, 10),
			strconv.FormatInt(u.Waiting, 10),
		})
	}
	return align(w, rows)
}

func newLimitsSet(db *database) *cobra.Command {
	var concurrency, perKey, slots, burst int
	var rate string
	var note admin.Note
	cmd := &cobra.Command{
		Use: "set [NAME]", Short: "Set numbers of a limit, for all engines and at once",
		Long: `Sets the numbers that the flags name; others stay. NAME is that of a limit in code, or of
any workflow: its runs are limited then, those that have begun count. --default limits
all workflows that have no other limit. 0 means no limit. Runs that wait go on as soon
as the new numbers let them; no run loses its slot.`,
		Example: `  perdure limits set bill --concurrency 10 --reason 'the bank has few lines'
  perdure limits set bank --rate 10/1s --burst 20
  perdure limits set --default --concurrency 100`,
	}
	out, named := newOutput(cmd), limitNamed(cmd)
	flags := cmd.Flags()
	flags.IntVar(&concurrency, "concurrency", 0, "runs at a time")
	flags.IntVar(&perKey, "per-key", 0, "runs at a time with one key, if the code has a key")
	flags.StringVar(&rate, "rate", "", "starts or attempts in a time, such as 10/1s; 0 for any")
	flags.IntVar(&burst, "burst", 0, "how many of them may come at once")
	flags.IntVar(&slots, "slots", 0, "slots of a semaphore")
	noteFlags(cmd, &note)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := named(args)
		if err != nil {
			return err
		}
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			l, _, err := c.limit(ctx, name)
			if err != nil {
				return err
			}
			b := limit.Bounds{Concurrency: l.Concurrency, PerKey: l.PerKey, Slots: l.Slots}
			for flag, to := range map[string]struct {
				at **int
				n  *int
			}{
				"concurrency": {&b.Concurrency, &concurrency}, "per-key": {&b.PerKey, &perKey},
				"slots": {&b.Slots, &slots},
			} {
				if flags.Changed(flag) {
					*to.at = to.n
				}
			}
			if b.Rate, err = newRate(cmd, l, rate, burst); err != nil {
				return err
			}
			if err := admin.New(c.Client).SetLimit(ctx, name, b, signedNote(note)); err != nil {
				return err
			}
			return c.showLimit(ctx, cmd, out, name)
		})
	}
	return cmd
}

// newRate returns the rate of a limit that the flags change.
func newRate(cmd *cobra.Command, l api.Limit, rate string, burst int) (*limit.Rate, error) {
	flags := cmd.Flags()
	if !flags.Changed("rate") {
		rate = l.Rate
	}
	if !flags.Changed("burst") {
		burst = l.Burst
	}
	switch {
	case rate == "" && burst == 0:
		return nil, nil
	case rate == "":
		return nil, usage(cmd, "--burst needs --rate")
	}
	r, ok := present.ParseRate(rate)
	if !ok {
		return nil, usage(cmd, fmt.Sprintf("--rate %q is not valid: allowed are a number and a "+
			"time, such as 10/1s or 100/1h30m, and 0 for no limit", rate))
	}
	r.Burst = burst
	return &r, nil
}

func newLimitsReset(db *database) *cobra.Command {
	var note admin.Note
	cmd := &cobra.Command{
		Use: "reset [NAME]", Short: "Make the numbers of the code hold again",
		Example: "  perdure limits reset bill",
	}
	out, named := newOutput(cmd), limitNamed(cmd)
	noteFlags(cmd, &note)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := named(args)
		if err != nil {
			return err
		}
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			if err := admin.New(c.Client).ResetLimit(ctx, name, signedNote(note)); err != nil {
				return err
			}
			return c.showLimit(ctx, cmd, out, name)
		})
	}
	return cmd
}

func (c *client) showLimit(ctx context.Context, cmd *cobra.Command, out *output,
	name string) error {
	l, _, err := c.limit(ctx, name)
	if err != nil {
		return err
	}
	if err := one(out, cmd.OutOrStdout(), l, func(w io.Writer) error {
		return printLimit(w, l)
	}); err != nil {
		return err
	}
	return c.warn(ctx, cmd.ErrOrStderr())
}

// noteFlags adds the flags --by and --reason to a command that changes a setting.
func noteFlags(cmd *cobra.Command, n *admin.Note) {
	cmd.Flags().StringVar(&n.By, "by", "", "who does it; without it, the user and the host")
	cmd.Flags().StringVar(&n.Reason, "reason", "", "the reason; it is kept with the setting")
}

// signedNote sets the user and the host as the author of a change that names none.
func signedNote(n admin.Note) admin.Note {
	if n.By == "" {
		n.By = operator()
	}
	return n
}
