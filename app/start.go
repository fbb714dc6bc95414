package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/pattern"
	"github.com/perdure/perdure/schedule"
)

// A starting holds the flags of the command start.
type starting struct {
	db          *database
	id          string
	dedup       time.Duration
	at          string
	delay       time.Duration
	attributes  map[string]string
	headers     map[string]string
	force       bool
	wait, watch bool
	in          *input
	waiter      *waiter
	// mode is the mode of the workflow; empty if it has none or this program does not know
	// it.
	mode pattern.Mode
}

func (p *program) newStart() *cobra.Command {
	s := &starting{}
	cmd := &cobra.Command{
		Use:   "start WORKFLOW",
		Short: "Start a run of a workflow",
		Long: `Starts a run. The run is durable when the command ends. It begins when an engine that
knows the workflow uses the database. If a run with the --id is open, or has ended
within --dedup, the command returns that run and starts nothing.

With --at or --delay the run exists at once, and is PENDING until its time.

For a graph of mode SYNC the command waits without --wait too, until --timeout. For one
of mode ASYNC it does not wait.`,
		Example: `  perdure start remind -i '"ada"' --at 2026-03-07T14:30:00+01:00
  perdure start order-fulfilment -i '{"id":"ord-1"}' --id ord-1 --watch
  perdure start greet -i '"ada"' --wait
  cat order.json | perdure start order-fulfilment -f -`,
		Args: exactly("WORKFLOW"),
	}
	s.db = p.database(cmd)
	s.in = newInput(cmd, "the input")
	s.waiter = newWaiter(cmd)
	flags := cmd.Flags()
	flags.StringVar(&s.id, "id", "", "workflow ID: at most one open run has it (default a new one)")
	flags.DurationVar(&s.dedup, "dedup", 24*time.Hour,
		"a run with this ID that ended less than this ago counts too; 0 for open runs only")
	flags.StringVar(&s.at, "at", "",
		"when the run begins: 2026-03-07T14:30 in UTC, or 2026-03-07T14:30:00+01:00")
	flags.DurationVar(&s.delay, "delay", 0, "how long after its start the run begins, as 90s or 2h")
	flags.StringToStringVar(&s.attributes, "attribute", nil, "search attribute, as name=value")
	flags.StringToStringVar(&s.headers, "header", nil, "header, as name=value")
	flags.BoolVar(&s.force, "force", false,
		"start a workflow that neither this program nor an engine knows")
	flags.BoolVar(&s.wait, "wait", false, "wait until the run ends, and print its output")
	flags.BoolVar(&s.watch, "watch", false, "show the journal as it grows, until the run ends")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return s.run(cmd, args[0]) }
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string,
		cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return s.db.offer(cmd, typed, s.db.workflowNames)
	}
	return cmd
}

func (s *starting) run(cmd *cobra.Command, workflow string) error {
	if err := s.waiter.check(); err != nil {
		return err
	}
	if s.wait && s.watch {
		return usage(cmd, "--wait and --watch are two ways to wait: choose one")
	}
	begins, err := s.begins(cmd)
	if err != nil {
		return err
	}
	if err := s.check(workflow); err != nil {
		return err
	}
	if s.mode == pattern.ModeSync && !s.watch {
		s.wait = true
	}
	if s.mode == pattern.ModeAsync && (s.wait || s.watch) {
		return usage(cmd, workflow+" is ASYNC: start it without --wait and --watch; runs wait "+
			"waits for a run")
	}
	input, err := s.in.read(cmd)
	if err != nil {
		return err
	}
	return using(cmd, s.db.write, func(ctx context.Context, c *client) error {
		if err := s.ask(ctx, c, workflow); err != nil {
			return err
		}
		run, err := c.Start(ctx, workflow, input, append(s.options(), begins...)...)
		if err != nil {
			return err
		}
		switch {
		case s.wait, s.watch:
			fmt.Fprintf(cmd.ErrOrStderr(), "run %s\n", run.RunID())
		default:
			err := one(s.waiter.out, cmd.OutOrStdout(), api.Started{
				RunID: run.RunID(), WorkflowID: run.ID(), New: run.New(),
			}, func(w io.Writer) error { return printStarted(w, run.RunID(), run.ID(), run.New()) })
			if err != nil {
				return err
			}
			return c.warnOf(ctx, cmd.ErrOrStderr(), workflow)
		}
		h, err := c.find(ctx, run.RunID())
		if err != nil {
			return err
		}
		if s.watch {
			return s.waiter.watch(ctx, c, h, cmd)
		}
		return s.waiter.wait(ctx, c, h, cmd)
	})
}

func printStarted(w io.Writer, run, id string, isNew bool) error {
	verb := "was started"
	if !isNew {
		verb = "is there already"
	}
	_, err := fmt.Fprintf(w, "run %s %s, workflow ID %s\n", run, verb, id)
	return err
}

// check sets the mode of the workflow. It returns an error if this program has workflows,
// but not this one.
func (s *starting) check(workflow string) error {
	known := s.db.program.known
	if i := slices.IndexFunc(known, func(w perdure.Registered) bool {
		return w.Name == workflow
	}); i >= 0 {
		s.mode = pattern.Mode(known[i].Outline.Mode)
		return nil
	}
	if s.force || len(known) == 0 {
		return nil
	}
	var names []string
	for _, w := range known {
		names = append(names, w.Name)
	}
	return &perdure.Error{
		Code: journal.CodeUnregistered, Op: "start " + workflow,
		Message: "this program does not know the workflow",
		Hint: didYouMean(nearest(workflow, names), s.db.program.name+
			" workflows list shows the workflows") +
			" (--force starts it all the same, for another program)",
	}
}

// ask returns an error if this program has no workflows of its own, and living engines say that
// none of them has this one.
func (s *starting) ask(ctx context.Context, c *client, workflow string) error {
	if s.force || len(s.db.program.known) > 0 {
		return nil
	}
	info, err := c.info(ctx)
	if err != nil {
		return err
	}
	return present.Unregistered(info, workflow,
		"(--force starts it all the same, for a later engine)")
}

// begins returns the option for the time at which the run begins; none for at once.
func (s *starting) begins(cmd *cobra.Command) ([]perdure.StartOption, error) {
	delayed := cmd.Flags().Changed("delay")
	switch {
	case delayed && s.at != "":
		return nil, usage(cmd, "--at and --delay are two ways to set a time: choose one")
	case delayed && s.delay <= 0:
		return nil, usage(cmd, fmt.Sprintf("--delay %v is not valid: allowed are durations above 0",
			s.delay))
	case delayed:
		return []perdure.StartOption{schedule.At(time.Now().Add(s.delay))}, nil
	case s.at == "":
		return nil, nil
	}
	at, err := instant("--at", s.at, "UTC")
	return []perdure.StartOption{schedule.At(at)}, err
}

func (s *starting) options() []perdure.StartOption {
	opts := []perdure.StartOption{perdure.Dedup(s.dedup)}
	if s.wait || s.watch {
		opts = append(opts, pattern.ModeSync)
	}
	if s.id != "" {
		opts = append(opts, perdure.ID(s.id))
	}
	if len(s.attributes) > 0 {
		opts = append(opts, perdure.Attributes(s.attributes))
	}
	if len(s.headers) > 0 {
		opts = append(opts, perdure.Headers(s.headers))
	}
	return opts
}
