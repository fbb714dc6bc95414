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
func (p *program) execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	root, began := p.root(), false
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

func (p *program) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:   p.name,
		Short: "Durable workflows: ordinary Go functions that survive a crash.",
		Example: `  perdure demo                             see runs survive kill -9, and the proof
  perdure start greet -i '"ada"' --wait    start a run and wait for its result
  perdure runs list                        what there is, and how far it is
  perdure serve                            execute the workflows of this program`,
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetHelpTemplate(helpTemplate)
	root.SetUsageTemplate(usageTemplate)
	root.AddCommand(
		p.newServe(), p.newStart(), p.newRuns(), p.newWorkflows(), p.newUnrouted(), p.newDB(),
		newDemo(), newDemoWorker(), newDemoWorld(), newBench(), newVersion(),
	)
	addCompletion(root)
	rename(root, p.name)
	return root
}

// group makes a command that only has others: alone it gives its help, and a word
// that is none of them is answered with the nearest.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.AddCommand(commands...)
	return cmd
}

// rename has the examples call the program as the user did.
func rename(cmd *cobra.Command, name string) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "  perdure ", "  "+name+" ")
	for _, c := range cmd.Commands() {
		rename(c, name)
	}
}

func unknownCommand(root *cobra.Command, name string) error {
	var names []string
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return &perdure.Error{
		Code: journal.CodeInvalid, Message: "there is no command " + name,
		Hint: didYouMean(nearest(name, names), root.CommandPath()+" --help lists them"),
	}
}

// usage is the error of a command line that cannot be.
func usage(cmd *cobra.Command, message string) error {
	return &perdure.Error{
		Code: journal.CodeInvalid, Message: message, Hint: cmd.CommandPath() + " --help shows what can be",
	}
}
