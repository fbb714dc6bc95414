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
			v := versionsOf(got)
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

// shownRuns is the number of runs of each marker in JSON.
const shownRuns = 10

func versionsOf(v admin.Versions) api.Versions {
	out := api.Versions{
		Builds: []api.Build{}, Markers: []api.Marker{}, Partial: v.Partial,
		PartialFailed: v.PartialFailed,
	}
	for _, b := range v.Builds {
		engines := []int64{}
		for _, id := range b.Engines {
			engines = append(engines, int64(id))
		}
		out.Builds = append(out.Builds, api.Build{
			Workflow: b.Workflow, Build: b.Build, Engines: engines, Open: b.Open,
			Failed: b.Failed, MayGo: b.MayGo, Why: b.Why,
		})
	}
	for _, m := range v.Markers {
		ids := []string{}
		for _, id := range m.Runs[:min(len(m.Runs), shownRuns)] {
			ids = append(ids, string(id))
		}
		out.Markers = append(out.Markers, api.Marker{
			Workflow: m.Workflow, Change: m.Change, Version: m.Version, Open: len(m.Runs),
			Undecided: m.Undecided, Failed: m.Failed, MayGo: m.MayGo, Why: m.Why, Runs: ids,
		})
	}
	return out
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
