package app

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

const helpTemplate = `{{with .Example}}Examples:
{{.}}

{{end}}{{with (or .Long .Short)}}{{.}}

{{end}}{{.UsageString}}
` + exitHelp

const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{$all := .Commands}}{{range .Groups}}{{$group := .}}

{{.Title}}:{{range $all}}{{if and .IsAvailableCommand (eq .GroupID $group.ID)}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{else}}

Commands:{{range $all}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{else}}{{.UseLine}}{{end}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{with .InheritedFlags.FlagUsages}}
{{. | trimTrailingWhitespaces}}{{end}}
`

// execute runs the command that args name. An error before the command itself begins is an
// error of the command line.
func (p *program) execute(ctx context.Context, args []string, stdin io.Reader, stdout,
	stderr io.Writer) error {
	root, began := p.root(), false
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	printed := helpFails(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return *printed
	}
	var e *perdure.Error
	switch {
	case errors.As(err, &e) && e.Hint != "":
		return err
	case !began:
		return usage(cmd, err.Error())
	case exitCode(err) == exitUsage:
		return hinted(err, seeHelp(cmd))
	}
	return err
}

// helpFails returns a pointer that gets the error of a help text that could not be printed.
// Cobra drops that error.
func helpFails(root *cobra.Command) *error {
	failed, print := new(error), root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		var text bytes.Buffer
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		print(cmd, args)
		_, *failed = out.Write(text.Bytes())
	})
	return failed
}

// hinted returns the error with a hint.
func hinted(err error, hint string) error {
	e := &perdure.Error{Code: journal.CodeOf(err), Err: err, Hint: hint}
	if errors.As(err, &e) {
		known := *e
		known.Hint = hint
		e = &known
	}
	return e
}

func (p *program) root() *cobra.Command {
	root := group(&cobra.Command{
		Use:   p.name,
		Short: "Durable workflows: ordinary Go functions that survive a crash.",
		Example: `  perdure demo                             see runs survive kill -9, and the proof
  perdure start greet -i '"ada"' --wait    start a run and wait for its result
  perdure runs list                        the runs, and how far they are
  perdure dev                              try it: samples and the API, on this machine
  perdure serve                            execute the workflows of this program`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	})
	root.SetFlagErrorFunc(wrongFlag)
	root.SetHelpTemplate(helpTemplate)
	root.SetUsageTemplate(usageTemplate)
	addGroup(root, "Runs", p.newDev(), p.newServe(), p.newStart(), p.newRuns(), p.newWhy(),
		p.newWorkflows(),
		p.newBatch(), p.newSchedules(), p.newLimits(), p.newAlerts(), p.newUnrouted(),
		p.newApprovals(), p.newCallbacks(), p.newKeys(), p.newDeadLetters(),
		p.newDoctor(), p.newWorkers(), p.newTokens())
	addGroup(root, "See and measure", p.newDemo(), p.newBench())
	addGroup(root, "The rest", p.newDB(), newVersion())
	root.AddCommand(newDemoWorker(), newDemoWorld(), p.newDevWorker())
	root.SetCompletionCommandGroupID("The rest")
	root.SetHelpCommandGroupID("The rest")
	addCompletion(root)
	addHelp(root)
	rename(root, p.name)
	return root
}

// addGroup adds commands that the help lists under one title.
func addGroup(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

// addHelp adds the command help. For an unknown command it returns an error.
func addHelp(root *cobra.Command) {
	root.SetHelpCommand(&cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command, as --help does",
		Example: "  perdure help runs list",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, left, err := root.Find(args)
			if err == nil && len(left) == 0 {
				return cmd.Help()
			}
			return unknownCommand(cmd, strings.Join(left, " "))
		},
	})
	root.InitDefaultHelpCmd()
}

// group makes a command that only has subcommands. Alone it prints its help. For an unknown
// subcommand it returns an error that names the nearest one.
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

// rename puts the name that the user called the program by into the examples.
func rename(cmd *cobra.Command, name string) {
	cmd.Example = strings.ReplaceAll(" "+cmd.Example, " perdure ", " "+name+" ")[1:]
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
		Hint: didYouMean(nearest(name, names), seeHelp(root)),
	}
}

// wrongFlag returns the error of a flag. For an unknown flag it names the nearest one.
func wrongFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	typed, _, _ := strings.Cut(cmp.Or(unknown.GetSpecifiedShortnames(),
		unknown.GetSpecifiedName()), "=")
	near := nearest(typed, names)
	if len(near) == 0 {
		return err
	}
	return &perdure.Error{
		Code: journal.CodeInvalid, Message: err.Error(),
		Hint: "did you mean --" + strings.Join(near, " or --") + "?",
	}
}

// usage returns the error of an invalid command line.
func usage(cmd *cobra.Command, message string) error {
	return &perdure.Error{Code: journal.CodeInvalid, Message: message, Hint: seeHelp(cmd)}
}

// seeHelp returns the hint that names the help of a command.
func seeHelp(cmd *cobra.Command) string {
	listed := "arguments"
	if cmd.HasAvailableSubCommands() {
		listed = "commands"
	}
	return "run '" + cmd.CommandPath() + " --help' for the " + listed + " and flags"
}
