package app

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

const helpTemplate = `{{with .Example}}Examples:
{{.}}

{{end}}{{with (or .Long .Short)}}{{.}}

{{end}}{{.UsageString}}
` + exitHelp

const usageTemplate = `Usage:
  {{.UseLine}}{{if .HasAvailableSubCommands}} [command]

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}
`

// execute runs the command that args name. What goes wrong before the command
// itself begins is wrong with the command line.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	root, began := newRoot(), false
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !began {
		return usage(cmd, err.Error())
	}
	return err
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "perdure",
		Short: "Durable workflows: ordinary Go functions that survive a crash.",
		Example: `  perdure demo --once --kills 3            see runs survive kill -9, and the proof
  perdure bench --workload sequential      measure this machine`,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, args[0])
		},
	}
	root.SetHelpTemplate(helpTemplate)
	root.SetUsageTemplate(usageTemplate)
	root.AddCommand(newDemo(), newDemoWorker(), newDemoWorld(), newBench(), newVersion())
	return root
}

func unknownCommand(root *cobra.Command, name string) error {
	root.SuggestionsMinimumDistance = 2
	err := &perdure.Error{
		Code: journal.CodeInvalid, Message: "there is no command " + name,
		Hint: root.CommandPath() + " --help lists them",
	}
	if near := root.SuggestionsFor(name); len(near) > 0 {
		err.Hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return err
}

// usage is the error of a command line that cannot be.
func usage(cmd *cobra.Command, message string) error {
	return &perdure.Error{
		Code: journal.CodeInvalid, Message: message, Hint: cmd.CommandPath() + " --help shows what can be",
	}
}
