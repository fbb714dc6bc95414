package app

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
)

func (p *program) newWorkflows() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workflows", Short: "List and show workflows",
		Example: "  perdure workflows list\n  perdure workflows show order-fulfilment",
	}
	db := p.database(cmd)
	return group(cmd, newWorkflowsList(db), newWorkflowsShow(db), newWorkflowsGraph(db),
		newWorkflowsPause(db),
		newWorkflowsResume(db), newWorkflowsPaused(db), newWorkflowsVersions(db))
}

func newWorkflowsList(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the workflows of this program, and those that the database has runs of",
		Long: `Lists the workflows that this program was built with, and those that the database
has runs of, with how many. It reads a line of each run.`,
		Example: "  perdure workflows list\n  perdure workflows list -o json",
		Args:    exactly(),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		all, err := db.workflows(cmd)
		if err != nil {
			return err
		}
		return list(out, cmd.OutOrStdout(), all, workflowColumns)
	}
	return cmd
}

var workflowColumns = []column[api.Workflow]{
	{"WORKFLOW", func(w api.Workflow) string { return w.Name }},
	{"HERE", func(w api.Workflow) string {
		if w.Here {
			return "yes"
		}
		return "no"
	}},
	{"VERSION", func(w api.Workflow) string { return w.Version }},
	{"OPEN", func(w api.Workflow) string { return strconv.Itoa(w.Open) }},
	{"PARKED", func(w api.Workflow) string { return strconv.Itoa(w.Parked) }},
	{"ENDED", func(w api.Workflow) string { return strconv.Itoa(w.Ended) }},
	{"DESCRIPTION", func(w api.Workflow) string { return w.Description }},
}

// workflows returns the workflows of the program and of the database, sorted by name. If
// the program has workflows, the database need not exist yet.
func (d *database) workflows(cmd *cobra.Command) ([]api.Workflow, error) {
	all := map[string]*api.Workflow{}
	for _, r := range d.program.known {
		all[r.Name] = &api.Workflow{Definition: present.Definition(r)}
	}
	at, err := d.place()
	if err != nil {
		return nil, err
	}
	if at.IsThere() || len(all) == 0 {
		err := using(cmd, d.read, func(ctx context.Context, c *client) error {
			return c.count(ctx, all)
		})
		if err != nil {
			return nil, err
		}
	}
	var out []api.Workflow
	for _, name := range sorted(all) {
		out = append(out, *all[name])
	}
	return out, nil
}

// count adds the numbers of runs to all.
func (c *client) count(ctx context.Context, all map[string]*api.Workflow) error {
	for q := (perdure.Query{Limit: 1000}); ; {
		heads, next, err := c.List(ctx, q)
		if err != nil {
			return err
		}
		for _, h := range heads {
			w := all[h.Workflow]
			if w == nil {
				w = &api.Workflow{Definition: api.Definition{
					Name: h.Workflow, Pattern: h.Pattern.String(),
				}}
				all[h.Workflow] = w
			}
			switch {
			case h.Status.IsTerminal():
				w.Ended++
			case h.Status == journal.Suspended:
				w.Parked++
			default:
				w.Open++
			}
		}
		if q.After = next; next.IsZero() {
			return nil
		}
	}
}

func newWorkflowsShow(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show WORKFLOW", Short: "Show the definition of a workflow",
		Example: "  perdure workflows show order-fulfilment",
		Args:    exactly("WORKFLOW"),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		all, err := db.workflows(cmd)
		if err != nil {
			return err
		}
		var names []string
		for _, w := range all {
			if w.Name == args[0] {
				return one(out, cmd.OutOrStdout(), w, func(to io.Writer) error {
					return printWorkflow(to, w)
				})
			}
			names = append(names, w.Name)
		}
		at, err := db.place()
		if err != nil {
			return err
		}
		return &perdure.Error{
			Code: journal.CodeNotFound, Op: "show " + args[0],
			Message: "neither this program nor " + at.String() + " has such a workflow",
			Hint: didYouMean(nearest(args[0], names), db.program.name+
				" workflows list shows the workflows"),
		}
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		return db.offer(cmd, typed, db.workflowNames)
	}
	return cmd
}

func printWorkflow(w io.Writer, f api.Workflow) error {
	here := "yes"
	if !f.Here {
		here = "no: another program executes it"
	}
	pairs := []string{
		"workflow", f.Name, "in this program", here, "pattern", f.Pattern, "version", f.Version,
		"description", f.Description,
		"timeout", f.Timeout, "started by", f.Trigger, "mode", f.Mode, "workflow ID", f.IDField,
		"input", string(f.Input),
		"open runs", strconv.Itoa(f.Open), "parked", strconv.Itoa(f.Parked), "ended",
		strconv.Itoa(f.Ended),
	}
	for _, n := range f.Steps {
		after := ""
		if len(n.After) > 0 {
			after = " after " + strings.Join(n.After, ", ")
		}
		if len(n.To) > 0 {
			after = " to " + strings.Join(n.To, ", ")
		}
		pairs = append(pairs, "step", n.Name+after)
	}
	return fields(w, pairs...)
}
