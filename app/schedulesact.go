package app

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
)

// author adds the flags --by and --reason to a command that changes a schedule.
func author(cmd *cobra.Command) *schedule.Note {
	n := &schedule.Note{}
	cmd.Flags().StringVar(&n.By, "by", os.Getenv("USER"), "the author of the change")
	cmd.Flags().Lookup("by").DefValue = "" // help does not depend on who asks for it
	cmd.Flags().StringVar(&n.Why, "reason", "", "the reason of the change")
	return n
}

func newSchedulesSet(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME", Short: "Create a schedule, or change one",
		Long: `Creates a schedule, or changes what the flags name of one that exists. It begins with its
next future time. One of --cron, --every and --after is needed.

--overlap decides about a time that comes while a run of the schedule is open: skip misses
it, allow starts a run beside it, buffer starts one when it has ended, and cancel cancels
it and then starts one. --catch-up decides about times at which no engine had the
schedule: last starts the last of them, none misses them, all starts each, up to --window.`,
		Example: `  perdure schedules set nightly --workflow bill --cron '0 2 * * *' --zone Europe/Berlin
  perdure schedules set poll --workflow poll --every 5m --jitter 30s -i '{"shop":7}'
  perdure schedules set nightly --overlap buffer`,
		Args: exactly("NAME"),
	}
	var flagged schedule.Spec
	var asDeclared bool
	in, out, note := newInput(cmd, "the input of the runs"), newOutput(cmd), author(cmd)
	specFlags(cmd.Flags(), &flagged)
	cmd.Flags().BoolVar(&asDeclared, "declared", false, "go back to the spec that code declares")
	completeFlag(cmd, db, "workflow", db.workflowNames)
	completeWords(cmd, "overlap", "skip", "allow", "buffer", "cancel")
	completeWords(cmd, "catch-up", "last", "none", "all")
	completeSchedules(cmd, db)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		data, err := in.read(cmd)
		if err != nil {
			return err
		}
		flagged.Input = data
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			old, err := schedule.Get(ctx, c.Client, args[0])
			if err != nil && journal.CodeOf(err) != journal.CodeNotFound {
				return err
			}
			spec := schedule.Spec{}
			isNew := err != nil || old.Status == schedule.Deleted ||
				old.Status == schedule.Finished
			if !isNew {
				spec = old.Spec
			}
			if asDeclared && old.Declared != nil {
				spec = *old.Declared
			}
			change(&spec, flagged, cmd.Flags())
			if err := schedule.Set(ctx, c.Client, args[0], spec, *note); err != nil {
				return err
			}
			return c.showSchedule(ctx, cmd, out, args[0])
		})
	}
	return cmd
}

// specFlags adds the flags of a spec, except for the input.
func specFlags(flags *pflag.FlagSet, s *schedule.Spec) {
	flags.StringVar(&s.Workflow, "workflow", "", "the workflow to start")
	flags.StringVar(&s.Cron, "cron", "", "cron expression with five or six fields")
	flags.StringVar(&s.Zone, "zone", "", "time zone of the expression (default UTC)")
	flags.DurationVar(&s.Every, "every", 0, "fixed rate, from start to start, such as 5m")
	flags.DurationVar(&s.After, "after", 0, "fixed delay, from the end of a run to the next start")
	flags.DurationVar(&s.InitialDelay, "initial-delay", 0, "delay of the first time")
	flags.StringVar((*string)(&s.Overlap), "overlap", "", "skip, allow, buffer or cancel "+
		"(default skip)")
	flags.StringVar((*string)(&s.CatchUp), "catch-up", "", "last, none or all (default last)")
	flags.DurationVar(&s.Window, "window", 0, "how late a time may start a run (default no limit; "+
		"24h with --catch-up all)")
	flags.DurationVar(&s.Jitter, "jitter", 0, "longest delay of a start, by chance")
	flags.IntVar(&s.Times, "times", 0, "number of runs; then the schedule is finished "+
		"(default no limit)")
	flags.StringVar(&s.Paused, "paused", "", "the reason for which the schedule is paused at once")
	flags.StringVar(&s.Description, "description", "", "a description, for people")
	flags.StringToStringVar(&s.Headers, "header", nil, "header of the runs, as NAME=VALUE")
	flags.StringToStringVar(&s.Attributes, "attribute", nil, "search attribute of the runs, as "+
		"NAME=VALUE")
}

// change sets the parts of a spec whose flags were given.
func change(s *schedule.Spec, flagged schedule.Spec, flags *pflag.FlagSet) {
	if flags.Changed("cron") || flags.Changed("every") || flags.Changed("after") {
		if !flags.Changed("cron") {
			s.Cron, s.Zone = "", ""
		}
		s.Every, s.After = 0, 0
	}
	for name, set := range map[string]func(){
		"workflow":      func() { s.Workflow = flagged.Workflow },
		"cron":          func() { s.Cron = flagged.Cron },
		"zone":          func() { s.Zone = flagged.Zone },
		"every":         func() { s.Every = flagged.Every },
		"after":         func() { s.After, s.Overlap = flagged.After, "" },
		"initial-delay": func() { s.InitialDelay = flagged.InitialDelay },
		"overlap":       func() { s.Overlap = flagged.Overlap },
		"catch-up":      func() { s.CatchUp = flagged.CatchUp },
		"window":        func() { s.Window = flagged.Window },
		"jitter":        func() { s.Jitter = flagged.Jitter },
		"times":         func() { s.Times = flagged.Times },
		"paused":        func() { s.Paused = flagged.Paused },
		"description":   func() { s.Description = flagged.Description },
		"header":        func() { s.Headers = flagged.Headers },
		"attribute":     func() { s.Attributes = flagged.Attributes },
		"input":         func() { s.Input = flagged.Input },
		"file":          func() { s.Input = flagged.Input },
	} {
		if flags.Changed(name) {
			set()
		}
	}
}

// showSchedule prints a schedule that was changed.
func (c *client) showSchedule(ctx context.Context, cmd *cobra.Command, out *output,
	name string) error {
	s, err := schedule.Get(ctx, c.Client, name)
	if err != nil {
		return err
	}
	err = one(out, cmd.OutOrStdout(), s, func(w io.Writer) error { return printSchedule(w, s) })
	if err != nil {
		return err
	}
	return c.warn(ctx, cmd.ErrOrStderr())
}

// aboutSchedule completes a command about one schedule, whose name is the argument.
func aboutSchedule(db *database, cmd *cobra.Command,
	do func(context.Context, *client, string) error) *cobra.Command {
	cmd.Args = exactly("NAME")
	out := newOutput(cmd)
	completeSchedules(cmd, db)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			if err := do(ctx, c, args[0]); err != nil {
				return c.noSchedule(err)
			}
			return c.showSchedule(ctx, cmd, out, args[0])
		})
	}
	return cmd
}

func newSchedulesPause(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "pause NAME", Short: "Pause a schedule, with a reason; its open run goes on",
		Example: "  perdure schedules pause nightly --reason 'the bank is down'",
	}
	note := author(cmd)
	return aboutSchedule(db, cmd, func(ctx context.Context, c *client, name string) error {
		return schedule.Pause(ctx, c.Client, name, *note)
	})
}

func newSchedulesResume(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "resume NAME", Short: "Let a paused schedule go on with its next future time",
		Example: "  perdure schedules resume nightly",
	}
	note := author(cmd)
	return aboutSchedule(db, cmd, func(ctx context.Context, c *client, name string) error {
		return schedule.Resume(ctx, c.Client, name, *note)
	})
}

func newSchedulesRun(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "run NAME", Short: "Start a run of a schedule now, also if it is paused",
		Long: `Starts a run of a schedule now, also if it is paused. While another run of the schedule is
open, the run waits for its end, except with --overlap allow.`,
		Example: "  perdure schedules run nightly --reason 'the first one failed'",
	}
	note := author(cmd)
	return aboutSchedule(db, cmd, func(ctx context.Context, c *client, name string) error {
		id, err := schedule.RunNow(ctx, c.Client, name, *note)
		if err == nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "a run is asked for, workflow ID %s\n", id)
		}
		return err
	})
}

func newSchedulesDelete(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete a schedule; its open run goes on",
		Long: `Deletes a schedule. Its open run goes on. A schedule that code declares comes back when an
engine starts that has the code; to stop it, pause it.`,
		Example: "  perdure schedules delete nightly",
	}
	note := author(cmd)
	return aboutSchedule(db, cmd, func(ctx context.Context, c *client, name string) error {
		return schedule.Delete(ctx, c.Client, name, *note)
	})
}

var plannedColumns = []column[schedule.Planned]{
	{"TIME", func(p schedule.Planned) string { return p.At.Format(time.RFC3339) }},
	{"STARTED", func(p schedule.Planned) string {
		if p.Started {
			return "yes"
		}
		return "no"
	}},
	{"WORKFLOW ID", func(p schedule.Planned) string { return p.ID }},
	{"NOTE", func(p schedule.Planned) string { return p.Note }},
}

func newSchedulesBackfill(db *database) *cobra.Command {
	var from, to string
	var preview bool
	cmd := &cobra.Command{
		Use: "backfill NAME", Short: "Start the runs of past times that are missing",
		Long: `Starts the runs of the times of a past period that have not started theirs: one after the
other, or with --overlap allow all at once. --preview lists the times and starts nothing.
A period has at most 10,000 times. A day is one in the time zone of the schedule.`,
		Example: "  perdure schedules backfill nightly --from 2026-03-01 --to 2026-03-07 --preview",
		Args:    exactly("NAME"),
	}
	out, note := newOutput(cmd), author(cmd)
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "the beginning of the period (required)")
	flags.StringVar(&to, "to", "", "the end of the period, which is in it (default now)")
	flags.BoolVar(&preview, "preview", false, "list the times, and start nothing")
	completeSchedules(cmd, db)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if from == "" {
			return usage(cmd, "--from is needed")
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			s, err := schedule.Get(ctx, c.Client, args[0])
			if err != nil {
				return c.noSchedule(err)
			}
			begin, err := instant("--from", from, s.Spec.Zone)
			if err != nil {
				return err
			}
			end := time.Now()
			if to != "" {
				if end, err = instant("--to", to, s.Spec.Zone); err != nil {
					return err
				}
			}
			all, err := schedule.PreviewBackfill(ctx, c.Client, args[0], begin, end)
			if err != nil {
				return err
			}
			if !preview {
				n, err := schedule.Backfill(ctx, c.Client, args[0], begin, end, *note)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%d runs are asked for\n", n)
			}
			return list(out, cmd.OutOrStdout(), all, plannedColumns)
		})
	}
	return cmd
}
