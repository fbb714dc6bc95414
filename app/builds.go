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
)

func newWorkflowsVersions(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "versions [WORKFLOW]",
		Short: "Show which versions of the code runs need, and which may go",
		Long: `Shows for each workflow the builds of the program that have executed its open runs, or
that an engine has, and the numbers that perdure.Version has decided in its open runs,
with how many runs, and whether that code may go. Failed runs do not keep code from
going, but a retry of them needs it. The command reads the journals of at most
100,000 open runs and 10,000 failed ones.`,
		Example: "  perdure workflows versions\n  perdure workflows versions order -o json",
		Args:    cobra.MaximumNArgs(1),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			got, err := admin.New(c.Client).Versions(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			v := present.Versions(got)
			return one(out, cmd.OutOrStdout(), v, func(w io.Writer) error {
				return printVersions(w, v)
			})
		})
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		return db.offer(cmd, typed, db.workflowNames)
	}
	return cmd
}

var buildColumns = []column[api.Build]{
	{"WORKFLOW", func(b api.Build) string { return b.Workflow }},
	{"BUILD", func(b api.Build) string { return b.Build }},
	{"ENGINES", func(b api.Build) string { return strconv.Itoa(len(b.Engines)) }},
	{"OPEN", func(b api.Build) string { return strconv.Itoa(b.Open) }},
	{"FAILED", func(b api.Build) string { return strconv.Itoa(b.Failed) }},
	{"MAY GO", func(b api.Build) string { return mayGo(b.MayGo, b.Why) }},
}

var markerColumns = []column[api.Marker]{
	{"WORKFLOW", func(m api.Marker) string { return m.Workflow }},
	{"CHANGE", func(m api.Marker) string { return m.Change }},
	{"VERSION", func(m api.Marker) string { return strconv.Itoa(m.Version) }},
	{"OPEN", func(m api.Marker) string { return strconv.Itoa(m.Open) }},
	{"UNDECIDED", func(m api.Marker) string { return strconv.Itoa(m.Undecided) }},
	{"FAILED", func(m api.Marker) string { return strconv.Itoa(m.Failed) }},
	{"MAY GO", func(m api.Marker) string { return mayGo(m.MayGo, m.Why) }},
}

func mayGo(may bool, why string) string {
	if may {
		return "yes: " + why
	}
	return "no: " + why
}

func printVersions(w io.Writer, v api.Versions) error {
	if err := table(w, v.Builds, buildColumns); err != nil || len(v.Markers) == 0 {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return table(w, v.Markers, markerColumns)
}
