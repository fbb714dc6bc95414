package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/schedule"
)

func (p *program) newSchedules() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schedules", Short: "Start runs at times: by cron, at a rate, with a delay",
		Example: `  perdure schedules set nightly --workflow bill --cron '0 2 * * *' --zone Europe/Berlin
  perdure schedules next '0 2 * * *' --zone Europe/Berlin`,
	}
	db := p.database(cmd)
	return group(cmd, newSchedulesList(db), newSchedulesGet(db), newSchedulesSet(db),
		newSchedulesNext(db), newSchedulesPause(db), newSchedulesResume(db), newSchedulesRun(db),
		newSchedulesBackfill(db), newSchedulesDelete(db))
}

var scheduleColumns = []column[schedule.Schedule]{
	{"NAME", func(s schedule.Schedule) string { return s.Name }},
	{"STATUS", func(s schedule.Schedule) string { return string(s.Status) }},
	{"WORKFLOW", func(s schedule.Schedule) string { return s.Spec.Workflow }},
	{"TIMES", func(s schedule.Schedule) string { return timesOf(s.Spec) }},
	{"NEXT", func(s schedule.Schedule) string {
		if s.Next == nil {
			return ""
		}
		return s.Next.At.Format(time.RFC3339)
	}},
	{"LAST", func(s schedule.Schedule) string { return lastRun(s) }},
	{"STARTED", func(s schedule.Schedule) string { return strconv.FormatInt(s.Started, 10) }},
	{"MISSED", func(s schedule.Schedule) string { return strconv.FormatInt(s.Missed, 10) }},
	{"WHY", func(s schedule.Schedule) string { return whyHeld(s) }},
}

// timesOf describes the times of a spec.
func timesOf(s schedule.Spec) string {
	switch {
	case s.Every > 0:
		return "every " + s.Every.String()
	case s.After > 0:
		return s.After.String() + " after each run"
	case s.Zone != "":
		return s.Cron + " in " + s.Zone
	}
	return s.Cron
}

// lastRun describes the newest run of a schedule.
func lastRun(s schedule.Schedule) string {
	if len(s.Recent) == 0 {
		return ""
	}
	r := s.Recent[len(s.Recent)-1]
	if r.Status == "" {
		return "open since " + moment(r.At)
	}
	return r.Status + " " + moment(r.Ended)
}

// whyHeld describes why a schedule starts nothing.
func whyHeld(s schedule.Schedule) string {
	if s.Paused == nil {
		return s.Problem
	}
	return strings.TrimSpace(s.Paused.Why + by(s.Paused.Note))
}

// by describes the author of a change.
func by(n schedule.Note) string {
	if n.By == "" {
		return ""
	}
	return " (" + n.By + ")"
}

func newSchedulesList(db *database) *cobra.Command {
	var q schedule.Query
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the schedules, with their next times",
		Long: `Lists the schedules. Those that are finished or deleted are listed with --all, as long
as they are kept. -o json has everything that is known of each.`,
		Example: `  perdure schedules list --workflow bill
  perdure schedules list --all -o jsonl`,
		Args: exactly(),
	}
	out := newOutput(cmd)
	flags := cmd.Flags()
	flags.StringVar(&q.Workflow, "workflow", "", "only those that start this workflow")
	flags.BoolVar(&q.All, "all", false, "finished and deleted ones too")
	flags.IntVar(&limit, "limit", 100, "number of schedules to list; 0 for all")
	completeFlag(cmd, db, "workflow", db.workflowNames)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if limit < 0 {
			return usage(cmd, "--limit is 0 or more")
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			all, more, err := c.schedules(ctx, q, limit)
			if err != nil {
				return err
			}
			defer sayMore(cmd, more)
			return list(out, cmd.OutOrStdout(), all, scheduleColumns)
		})
	}
	return cmd
}

// schedules returns at most limit schedules of a query, and whether there may be more. A limit of 0
// means all.
func (c *client) schedules(ctx context.Context, q schedule.Query,
	limit int) ([]schedule.Schedule, bool, error) {
	return pages(limit, func(after journal.Cursor) ([]schedule.Schedule, journal.Cursor, error) {
		q.After = after
		return schedule.List(ctx, c.Client, q)
	})
}

func newSchedulesGet(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get NAME", Short: "Show a schedule: its spec, its last runs, and the times it missed",
		Example: "  perdure schedules get nightly -o json",
		Args:    exactly("NAME"),
	}
	out := newOutput(cmd)
	completeSchedules(cmd, db)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			s, err := schedule.Get(ctx, c.Client, args[0])
			if err != nil {
				return c.noSchedule(err)
			}
			return one(out, cmd.OutOrStdout(), s, func(w io.Writer) error {
				return printSchedule(w, s)
			})
		})
	}
	return cmd
}

// noSchedule adds to the error of an unknown schedule how to find the known ones.
func (c *client) noSchedule(err error) error {
	if e := (*perdure.Error)(nil); errors.As(err, &e) && e.Code == journal.CodeNotFound {
		return hinted(err, c.place.Command("schedules list")+" shows the schedules")
	}
	return err
}

func printSchedule(w io.Writer, s schedule.Schedule) error {
	next, left := "", ""
	if s.Next != nil {
		next = s.Next.At.Format(time.RFC3339) + noted(s.Next.Note)
	}
	if s.Spec.Times > 0 {
		left = fmt.Sprintf("%d of %d times", s.Left, s.Spec.Times)
	}
	jitter, window := "", ""
	if s.Spec.Jitter > 0 {
		jitter = s.Spec.Jitter.String()
	}
	if s.Spec.Window > 0 {
		window = ", at most " + s.Spec.Window.String() + " late"
	}
	err := fields(w,
		"schedule", s.Name,
		"status", string(s.Status),
		"why", whyHeld(s),
		"description", s.Spec.Description,
		"workflow", s.Spec.Workflow,
		"times", timesOf(s.Spec),
		"next", next,
		"left", left,
		"overlap", string(s.Spec.Overlap),
		"catch-up", string(s.Spec.CatchUp)+window,
		"jitter", jitter,
		"input", string(s.Spec.Input),
		"started", strconv.FormatInt(s.Started, 10),
		"missed", strconv.FormatInt(s.Missed, 10),
		"changed", moment(s.Changed)+by(s.By)+noted(s.By.Why),
		"declared", declared(s),
	)
	if err != nil {
		return err
	}
	var rows [][]string
	if len(s.Recent) > 0 {
		rows = append(rows, []string{""}, []string{"TIME", "CAUSE", "STATUS", "RUN", "NOTE"})
	}
	for _, r := range s.Recent {
		status := r.Status
		if status == "" {
			status = "open"
		}
		rows = append(rows, []string{
			moment(r.Time), string(r.Cause), status, r.RunID, plain(strings.Trim(r.Note+" "+r.Error,
				" ")),
		})
	}
	if len(s.Misses) > 0 {
		rows = append(rows, []string{""}, []string{"MISSED FROM", "TO", "TIMES", "WHY"})
	}
	for _, m := range s.Misses {
		n := strconv.Itoa(m.N)
		if m.More {
			n = "over " + n
		}
		rows = append(rows, []string{moment(m.From), moment(m.To), n, m.Why})
	}
	for _, b := range s.Backfills {
		rows = append(rows, []string{""}, []string{
			"backfill", moment(b.From), "to", moment(b.To), fmt.Sprintf("%d started", b.Started),
		})
	}
	return align(w, rows)
}

// declared describes the spec of the code, if it is another one.
func declared(s schedule.Schedule) string {
	if s.Declared == nil {
		return ""
	}
	return "the code has " + timesOf(*s.Declared) + "; it was changed since"
}

func noted(note string) string {
	if note == "" {
		return ""
	}
	return ": " + note
}

// completeSchedules completes the name of a schedule.
func completeSchedules(cmd *cobra.Command, db *database) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return db.offer(cmd, typed, func(ctx context.Context, c *client) (names []string) {
			all, _, err := c.schedules(ctx, schedule.Query{}, 0)
			if err != nil {
				return nil
			}
			for _, s := range all {
				names = append(names, s.Name)
			}
			return names
		})
	}
}

var timeColumns = []column[schedule.Time]{
	{"TIME", func(t schedule.Time) string { return t.At.Format(time.RFC3339) }},
	{"DAY", func(t schedule.Time) string { return t.At.Weekday().String()[:3] }},
	{"NOTE", func(t schedule.Time) string { return t.Note }},
}

func newSchedulesNext(db *database) *cobra.Command {
	var zone, from string
	var n int
	cmd := &cobra.Command{
		Use: "next CRON|NAME", Short: "Show the next times of a cron expression, or of a schedule",
		Long: `Shows the next times of a cron expression in a time zone, without a database; or the next
times of a schedule, by its name.

An expression has five fields: minute, hour, day of the month, month, day of the week. Or
it has six, with a second before them. If the day of the month and the day of the week are
both given, one of them is enough. Words such as @daily are allowed.

If the hour is fixed, a time that the clock skips in spring comes once, right after the
gap, and a time that comes twice in autumn comes the first time. If the hour is * or */2,
the times follow the elapsed time.`,
		Example: `  perdure schedules next '30 2 * * *' --zone America/New_York --from 2026-03-07 -n 3
  perdure schedules next nightly`,
		Args: exactly("CRON|NAME"),
	}
	out := newOutput(cmd)
	flags := cmd.Flags()
	flags.StringVar(&zone, "zone", "", "time zone of the expression (default UTC)")
	flags.StringVar(&from, "from", "", "first time or day, such as 2026-03-07 (default now)")
	flags.IntVarP(&n, "number", "n", 10, "number of times to show, 1 to 1,000")
	completeSchedules(cmd, db)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		if n < 1 || n > 1000 {
			return usage(cmd, "-n is 1 to 1000")
		}
		expression := strings.TrimSpace(args[0])
		if expression != "" && !strings.ContainsAny(expression, " @*") {
			if zone != "" || from != "" {
				return usage(cmd, "--zone and --from are for an expression, and "+args[0]+
					" is a name")
			}
			return using(cmd, db.read, func(ctx context.Context, c *client) error {
				s, err := schedule.Get(ctx, c.Client, args[0])
				if err != nil {
					return c.noSchedule(err)
				}
				all, err := s.Coming(n)
				if err != nil {
					return err
				}
				return list(out, cmd.OutOrStdout(), all, timeColumns)
			})
		}
		all, err := nextOf(args[0], zone, from, n)
		if err != nil {
			return err
		}
		return list(out, cmd.OutOrStdout(), all, timeColumns)
	}
	return cmd
}

// nextOf returns the next times of an expression, from a time on.
func nextOf(cron, zone, from string, n int) ([]schedule.Time, error) {
	spec := schedule.Spec{Cron: cron, Zone: zone}
	if from == "" {
		return schedule.Preview(spec, time.Now(), n)
	}
	if _, err := schedule.Preview(spec, time.Now(), 1); err != nil {
		return nil, err
	}
	at, err := instant("--from", from, zone)
	if err != nil {
		return nil, err
	}
	return schedule.Preview(spec, at.Add(-time.Nanosecond), n) // the time itself is shown
}

// instant reads a time: a day or a time of the wall clock in a zone, or a time with an offset.
func instant(what, text, zone string) (time.Time, error) {
	in, err := time.LoadLocation(zone)
	if err != nil {
		in = time.UTC
	}
	for _, form := range []string{
		time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", time.DateTime,
		time.RFC3339Nano,
	} {
		if t, err := time.ParseInLocation(form, text, in); err == nil && t.Year() > 0 {
			return t, nil
		}
	}
	return time.Time{}, &perdure.Error{
		Code: journal.CodeInvalid, Message: what + " " + strconv.Quote(text) + " is not valid",
		Hint: "write it as 2026-03-07, 2026-03-07T14:30 or 2026-03-07T14:30:00+01:00",
	}
}
