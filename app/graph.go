package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
)

// The languages of drawings.
const (
	inMermaid = "mermaid"
	inDOT     = "dot"
)

func newWorkflowsGraph(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "graph WORKFLOW",
		Short: "Draw a workflow that this program has, as text for Mermaid or Graphviz",
		Long: `Draws a graph, saga or step machine of this program: its steps, and which may follow
which. With --run the steps that a run of a step machine has come to are highlighted.`,
		Example: "  perdure workflows graph onboarding\n" +
			"  perdure workflows graph onboarding --run ord-1 --as dot | dot -Tsvg",
		Args: exactly("WORKFLOW"),
	}
	as := cmd.Flags().String("as", inMermaid, "the language: "+inMermaid+" or "+inDOT)
	run := cmd.Flags().String("run", "", "a run of a step machine, by run ID or workflow ID")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *as != inMermaid && *as != inDOT {
			return &perdure.Error{
				Code: journal.CodeInvalid, Op: "graph",
				Message: fmt.Sprintf("--as %s is not known", *as),
				Hint:    "it is " + inMermaid + " or " + inDOT,
			}
		}
		about, err := db.outline(args[0])
		if err != nil {
			return err
		}
		var visited []string
		if *run != "" {
			err := using(cmd, db.read, func(ctx context.Context, c *client) error {
				r, err := c.Report(ctx, *run)
				visited = machine.Visited(r)
				return err
			})
			if err != nil {
				return err
			}
		}
		_, err = io.WriteString(cmd.OutOrStdout(), drawing(args[0], about, *as, visited))
		return err
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, _ []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		return db.offer(cmd, typed, db.workflowNames)
	}
	return cmd
}

// outline returns the outline of a workflow of this program that can be drawn.
func (d *database) outline(workflow string) (definition.Outline, error) {
	var drawn []string
	for _, r := range d.program.known {
		if r.Outline.Graph == nil && r.Outline.Diagram == nil {
			continue
		}
		if r.Name == workflow {
			return r.Outline, nil
		}
		drawn = append(drawn, r.Name)
	}
	slices.Sort(drawn)
	hint := "this program has no graph, saga or step machine: use the one that executes it"
	if len(drawn) > 0 {
		hint = "it can draw " + strings.Join(drawn, ", ")
	}
	return definition.Outline{}, &perdure.Error{
		Code: journal.CodeNotFound, Op: "graph " + workflow,
		Message: "this program has nothing to draw for it", Hint: hint,
	}
}

func drawing(name string, about definition.Outline, as string, visited []string) string {
	switch {
	case about.Diagram != nil && as == inDOT:
		return about.Diagram.DOT(name, visited...)
	case about.Diagram != nil:
		return about.Diagram.Mermaid(visited...)
	case as == inDOT:
		return about.Graph.DOT(name)
	}
	return about.Graph.Mermaid()
}
