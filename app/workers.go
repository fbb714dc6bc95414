package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
)

func (p *program) newWorkers() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workers", Short: "List the engines that execute the runs",
		Example: "  perdure workers list\n  perdure workers list --store " +
			"postgres://shop@db.internal/shop -o json",
	}
	return group(cmd, newWorkersList(p.database(cmd)))
}

func newWorkersList(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the engines that use the database, and their runs",
		Long: `Lists the engines that use the database: one on an SQLite file, any number on PostgreSQL.
For each it shows its host and process, the number of its runs and its capacity, its last
sign of life, and the rest of its lease, by the clock of the database. An engine that stops
shows until when it waits, and what it still has in memory. With -o json it shows all workflows
that the engine has. A dead engine is listed until another one takes over its runs.`,
		Example: "  perdure workers list -o jsonl",
		Args:    exactly(),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			info, err := c.info(ctx)
			if err != nil {
				return err
			}
			all := make([]api.Engine, len(info.Engines))
			for i, e := range info.Engines {
				all[i] = present.Engine(e, info.Now)
			}
			if err := list(out, cmd.OutOrStdout(), all, engineColumns); err != nil || len(all) > 0 {
				return err
			}
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), c.noEngine())
			return err
		})
	}
	return cmd
}

var engineColumns = []column[api.Engine]{
	{"ENGINE", func(e api.Engine) string { return strconv.FormatInt(e.ID, 10) }},
	{"HOST", func(e api.Engine) string { return e.Host }},
	{"PROCESS", func(e api.Engine) string { return strconv.Itoa(e.PID) }},
	{"BUILD", func(e api.Engine) string { return e.Build }},
	{"RUNS", func(e api.Engine) string { return slots(e.Runs, e.Slots) }},
	{"SINCE", func(e api.Engine) string { return e.Since }},
	{"HEARD OF", func(e api.Engine) string { return e.Seen }},
	{"LEASE", leaseText},
	{"DRAINS", drainText},
	{"WORKFLOWS", workflowsText},
}

// slots returns the number of runs, with the capacity if it is known.
func slots(runs int64, slots int) string {
	if slots == 0 {
		return strconv.FormatInt(runs, 10)
	}
	return fmt.Sprintf("%d of %d", runs, slots)
}

// drainText returns what an engine that stops waits for.
func drainText(e api.Engine) string {
	if e.Drain == nil {
		return ""
	}
	return fmt.Sprintf("until %s, steps left: %d", e.Drain.Until, e.Drain.Steps)
}

// workflowsText returns the first names of an engine's workflows, and the number of the others.
func workflowsText(e api.Engine) string {
	const most = 4
	names := e.Workflows
	if left := len(names) - most; left > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), left)
	}
	return strings.Join(names, ", ")
}

// leaseText returns the rest of an engine's lease as text. An SQLite file has no leases.
func leaseText(e api.Engine) string {
	switch {
	case !e.Alive:
		return "it has died"
	case e.Until == "":
		return "until it ends"
	}
	return took(time.Duration(e.Left*float64(time.Second))) + " left"
}
