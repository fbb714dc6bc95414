package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/filter"
	"github.com/perdure/perdure/journal"
)

// A listing holds the flags of the command runs list.
type listing struct {
	db      *database
	out     *output
	filter  filterFlags
	columns []string
	after   string
	limit   int
}

func newRunsList(db *database) *cobra.Command {
	l := &listing{db: db}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first",
		Long: `Lists the runs that meet all conditions of the filter. The other flags are short for
conditions of it:

` + filterHelp + `
A run without -o json has the columns of --columns. In JSON each run has a cursor: with it,
--after lists the runs behind that one.`,
		Example: `  perdure runs list --open
  perdure runs list --filter 'status=failed workflow=order since=24h error~declined'
  perdure runs list --attribute customer=ada --limit 20 -o json
  perdure runs list --status failed --columns run-id,age,error`,
		Args: exactly(),
	}
	l.out = newOutput(cmd)
	l.filter.add(cmd, db)
	flags := cmd.Flags()
	flags.StringSliceVar(&l.columns, "columns", nil, "columns of the table: "+
		strings.Join(columnNames(allRunColumns), ", "))
	flags.StringVar(&l.after, "after", "", "list the runs behind this cursor")
	flags.IntVar(&l.limit, "limit", 50, "number of runs to list; 0 for all")
	completeWords(cmd, "columns", columnNames(allRunColumns)...)
	cmd.RunE = l.run
	return cmd
}

func (l *listing) run(cmd *cobra.Command, _ []string) error {
	if err := l.out.check(); err != nil {
		return err
	}
	if l.limit < 0 {
		return usage(cmd, fmt.Sprintf("--limit %d is not valid: allowed is 0 or more", l.limit))
	}
	columns, err := columnsOf(l.columns)
	if err != nil {
		return err
	}
	q, err := l.filter.query()
	if err != nil {
		return err
	}
	if q.After, err = journal.ParseCursor(l.after); err != nil {
		return err
	}
	return using(cmd, l.db.read, func(ctx context.Context, c *client) error {
		if err := c.resolve(ctx, &q); err != nil {
			return err
		}
		heads, next, err := c.newest(ctx, q, l.limit)
		if err != nil {
			return err
		}
		runs := make([]api.Run, len(heads))
		for i, h := range heads {
			runs[i] = api.RunOf(h)
			runs[i].Cursor = h.Cursor().String()
		}
		if err := list(l.out, cmd.OutOrStdout(), runs, columns); err != nil {
			return err
		}
		if !next.IsZero() {
			fmt.Fprintf(cmd.ErrOrStderr(), "there may be more: --after %s goes on, --limit 0 "+
				"lists all\n", next)
		}
		return nil
	})
}

// filterFlags are the flags by which a command selects runs. All but one are short for conditions
// of the filter.
type filterFlags struct {
	text                          string
	statuses, workflows, patterns []string
	id, parent, since, errorPart  string
	open                          bool
	attributes                    []string
}

const filterHelp = `  status=FAILED,TIMED_OUT  workflow=order,refund  pattern=SAGA  id=ord-1  parent=ord-1  open
  since=T until=T, or created>=T created<T; ended>=T ended<T; stale=T: open, no entry since T
  error~"card declined": a part of the failure; attr.customer=4711: a search attribute

T is 2026-11-01, 2026-11-01T09:00:00Z, or how long ago: 90s, 24h, 7d, 2w.
`

func (f *filterFlags) add(cmd *cobra.Command, db *database) {
	flags := cmd.Flags()
	flags.StringVar(&f.text, "filter", "", "only runs that meet these conditions")
	flags.StringSliceVar(&f.workflows, "workflow", nil, "only runs of these workflows")
	flags.StringVar(&f.id, "id", "", "only runs with this workflow ID")
	flags.StringSliceVar(&f.statuses, "status", nil, "only runs in one of these statuses")
	flags.StringSliceVar(&f.patterns, "pattern", nil, "only runs of these patterns")
	flags.BoolVar(&f.open, "open", false, "only runs that have not ended")
	flags.StringVar(&f.parent, "parent", "", "only children of the run with this ID")
	flags.StringVar(&f.since, "since", "", "only runs that were created since then")
	flags.StringVar(&f.errorPart, "error", "", "only runs whose failure contains this")
	flags.StringArrayVar(&f.attributes, "attribute", nil,
		"only runs with this search attribute, as name=value")
	completeFlag(cmd, db, "workflow", db.workflowNames)
	completeFlag(cmd, db, "status", func(context.Context, *client) []string {
		return statusNames()
	})
	completeWords(cmd, "pattern", "workflow", "saga", "tcc", "machine")
}

// all returns the filter together with the conditions of the other flags.
func (f *filterFlags) all() string {
	parts := []string{f.text}
	list := func(key string, values ...string) {
		var quoted []string
		for _, v := range values {
			quoted = append(quoted, filter.Quote(v))
		}
		if len(values) > 0 {
			parts = append(parts, key+strings.Join(quoted, ","))
		}
	}
	one := func(key, value string) {
		if value != "" {
			list(key, value)
		}
	}
	list("status=", f.statuses...)
	list("workflow=", f.workflows...)
	list("pattern=", f.patterns...)
	one("id=", f.id)
	one("parent=", f.parent)
	one("since=", f.since)
	one("error~", f.errorPart)
	if f.open {
		parts = append(parts, "open")
	}
	for _, a := range f.attributes {
		name, value, _ := strings.Cut(a, "=")
		list("attr."+name+"=", value)
	}
	return strings.TrimSpace(strings.Join(parts, " "))
}

// query returns an error that shows the whole filter if a condition comes from a flag.
func (f *filterFlags) query() (perdure.Query, error) {
	for _, a := range f.attributes {
		if !strings.Contains(a, "=") {
			return perdure.Query{}, &perdure.Error{
				Code: journal.CodeInvalid, Op: "filter", Message: "--attribute " +
					strconv.Quote(a) + " is not valid: allowed is name=value",
			}
		}
	}
	all := f.all()
	q, err := filter.Parse(all, time.Now())
	var e *perdure.Error
	if all != f.text && errors.As(err, &e) {
		shown := *e
		shown.Message += ", in " + all
		err = &shown
	}
	return q, err
}

// resolve replaces the parent of a query, which may be @latest, by its run ID.
func (c *client) resolve(ctx context.Context, q *perdure.Query) error {
	if q.Parent == "" {
		return nil
	}
	h, err := c.find(ctx, q.Parent)
	q.Parent = string(h.ID)
	return err
}

func statusNames() []string {
	var names []string
	for _, s := range journal.Statuses() {
		names = append(names, strings.ToLower(s.String()))
	}
	return names
}

// allRunColumns are the columns of a list of runs. The first ones are shown by default.
var allRunColumns = []column[api.Run]{
	{"RUN ID", func(r api.Run) string { return r.RunID }},
	{"WORKFLOW ID", func(r api.Run) string { return r.WorkflowID }},
	{"WORKFLOW", func(r api.Run) string { return r.Workflow }},
	{"STATUS", func(r api.Run) string { return r.Status }},
	{"STARTED", func(r api.Run) string { return moment(r.Created) }},
	{"TOOK", lasted},
	{"NEXT", next},
	{"AGE", func(r api.Run) string { return age(time.Since(r.Created)) }},
	{"ENDED", func(r api.Run) string { return moment(r.Ended) }},
	{"ERROR", func(r api.Run) string { return r.Error }},
	{"PATTERN", func(r api.Run) string { return r.Pattern }},
	{"ENGINE", func(r api.Run) string {
		if r.Engine == 0 {
			return ""
		}
		return strconv.FormatInt(r.Engine, 10)
	}},
	{"CURSOR", func(r api.Run) string { return r.Cursor }},
}

var runColumns = allRunColumns[:7]

// columnNames returns the names of columns as the command line has them.
func columnNames[T any](columns []column[T]) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = strings.ReplaceAll(strings.ToLower(c.name), " ", "-")
	}
	return names
}

// columnsOf returns the columns with these names, or the default columns if there are no names.
func columnsOf(names []string) ([]column[api.Run], error) {
	if len(names) == 0 {
		return runColumns, nil
	}
	var out []column[api.Run]
	known := columnNames(allRunColumns)
	for _, name := range names {
		i := slices.Index(known, strings.ToLower(strings.ReplaceAll(name, "_", "-")))
		if i < 0 {
			return nil, &perdure.Error{
				Code: journal.CodeInvalid, Op: "runs list", Message: "column " +
					strconv.Quote(name) + " is not valid: allowed are " +
					strings.Join(known, ", "),
				Hint: didYouMean(nearest(name, known), ""),
			}
		}
		out = append(out, allRunColumns[i])
	}
	return out, nil
}

// lasted returns how long an ended run lasted, as text.
func lasted(r api.Run) string {
	if r.Ended.IsZero() {
		return ""
	}
	return took(r.Ended.Sub(r.Created))
}

// age returns how old something is, in its two largest units.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0); {
	case d < time.Minute:
		return d.Truncate(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// next returns what an open run waits for, if its head has it.
func next(r api.Run) string {
	switch {
	case r.Cause != "":
		return r.Cause
	case !r.Wake.IsZero() && r.Engine == 0 && r.Status == journal.Waiting.String():
		return "wakes " + moment(r.Wake)
	}
	return ""
}
