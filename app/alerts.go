package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/alert"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
)

func (p *program) newAlerts() *cobra.Command {
	cmd := &cobra.Command{
		Use: "alerts", Short: "Set and show whom to alert when runs fail or stand still",
		Example: `  perdure alerts set --default --to mailto:ops@example.com
  perdure alerts set bill --in-a-row 3 --to https://hooks.example.com/bill
  perdure alerts test bill`,
	}
	db := p.database(cmd)
	return group(cmd, newAlertsList(db), newAlertsGet(db), newAlertsSet(db), newAlertsReset(db),
		newAlertsTest(db))
}

var alertColumns = []column[api.Alert]{
	{"WORKFLOW", func(a api.Alert) string { return alertName(a.Workflow) }},
	{"RULE", alertText},
	{"TO", func(a api.Alert) string { return strings.Join(a.To, " ") }},
	{"BY", func(a api.Alert) string { return a.By }},
}

func alertName(workflow string) string { return cmp.Or(workflow, "(default)") }

// alertText returns a rule as flags of the command.
func alertText(a api.Alert) string {
	var parts []string
	add := func(flag, value string) {
		if value != "" && value != "0" {
			parts = append(parts, strings.TrimSpace("--"+flag+" "+value))
		}
	}
	if a.Off {
		parts = append(parts, "--off")
	}
	add("causes", strings.Join(a.Causes, ","))
	add("statuses", strings.Join(a.Statuses, ","))
	add("in-a-row", fmt.Sprint(a.InARow))
	add("times", fmt.Sprint(a.Times))
	add("within", a.Within)
	add("longest", a.Longest)
	add("longest-wait", a.LongestWait)
	return strings.Join(parts, " ")
}

// rule returns the rule that is set for a workflow, and reports whether there is one.
func (c *client) rule(ctx context.Context, workflow string) (alert.Setting, bool, error) {
	all, err := alert.List(ctx, c.Client)
	for _, s := range all {
		if s.Workflow == workflow {
			return s, true, nil
		}
	}
	return alert.Setting{Workflow: workflow}, false, err
}

// alertNamed adds the argument WORKFLOW or the flag --default to a command about a rule.
func alertNamed(cmd *cobra.Command) func(args []string) (string, error) {
	return namedOrDefault(cmd, "the name of a WORKFLOW",
		"the rule of workflows that have none of their own")
}

func newAlertsList(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the rules of alerts", Example: "  perdure alerts list -o json",
		Args: exactly(),
	}
	out := newOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			set, err := alert.List(ctx, c.Client)
			if err != nil {
				return err
			}
			var all []api.Alert
			for _, s := range set {
				all = append(all, present.Alert(s))
			}
			return list(out, cmd.OutOrStdout(), all, alertColumns)
		})
	}
	return cmd
}

func newAlertsGet(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "get [WORKFLOW]", Short: "Show the rule of a workflow",
		Example: "  perdure alerts get bill -o json",
	}
	out, named := newOutput(cmd), alertNamed(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := named(args)
		if err != nil {
			return err
		}
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.read, func(ctx context.Context, c *client) error {
			s, found, err := c.rule(ctx, name)
			if err == nil && !found {
				err = hinted(&journal.Error{
					Code: journal.CodeNotFound, Op: "get alert " + alertName(name),
					Message: "no rule of this name is set",
				}, c.place.Command("alerts list")+" shows the rules")
			}
			if err != nil {
				return err
			}
			return printAlert(cmd, out, present.Alert(s))
		})
	}
	return cmd
}

func printAlert(cmd *cobra.Command, out *output, a api.Alert) error {
	return one(out, cmd.OutOrStdout(), a, func(w io.Writer) error {
		return fields(w, "alerts of", alertName(a.Workflow), "rule", alertText(a), "to",
			strings.Join(a.To, " "), "by", a.By, "reason", a.Reason, "at", moment(*a.At))
	})
}

// alertFlags are the flags of a rule.
type alertFlags struct {
	rule             alert.Rule
	causes, statuses []string
}

func (f *alertFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.rule.Off, "off", false, "be silent; --off=false ends that")
	flags.StringSliceVar(&f.causes, "causes", nil, "the causes; empty for all")
	flags.StringSliceVar(&f.statuses, "statuses", nil, "the ends; empty for those of failures")
	flags.IntVar(&f.rule.InARow, "in-a-row", 0,
		"alert after so many ends without a success in between")
	flags.IntVar(&f.rule.Times, "times", 0, "alert after so many ends in the time of --within")
	flags.DurationVar(&f.rule.Within, "within", 0, "the time of --times, such as 10m")
	flags.DurationVar(&f.rule.Longest, "longest", 0, "alert about runs that are open for longer")
	flags.DurationVar(&f.rule.LongestWait, "longest-wait", 0,
		"alert about runs that wait longer for a slot or an engine")
	flags.StringSliceVar(&f.rule.To, "to", nil,
		"the recipients: https://HOST/PATH or mailto:ADDRESS")
	completeWords(cmd, "causes", words(alert.Causes())...)
}

func words(causes []alert.Cause) (all []string) {
	for _, c := range causes {
		all = append(all, string(c))
	}
	return all
}

// change sets what the flags of a command name, and keeps the rest of a rule.
func (f *alertFlags) change(cmd *cobra.Command, r *alert.Rule) error {
	changed := cmd.Flags().Changed
	set := map[string]func(){
		"off": func() { r.Off = f.rule.Off }, "in-a-row": func() { r.InARow = f.rule.InARow },
		"times": func() { r.Times = f.rule.Times }, "within": func() { r.Within = f.rule.Within },
		"longest":      func() { r.Longest = f.rule.Longest },
		"longest-wait": func() { r.LongestWait = f.rule.LongestWait },
		"to":           func() { r.To = f.rule.To }, "causes": func() { r.Causes = nil },
		"statuses": func() { r.Statuses = nil },
	}
	for flag, do := range set {
		if changed(flag) {
			do()
		}
	}
	for _, c := range f.causes {
		r.Causes = append(r.Causes, alert.Cause(c))
	}
	for _, name := range f.statuses {
		s, known := journal.ParseStatus(name)
		if !known {
			return usage(cmd, fmt.Sprintf("--statuses %q is not valid: allowed are the statuses "+
				"of ends, such as FAILED,TIMED_OUT", name))
		}
		r.Statuses = append(r.Statuses, s)
	}
	return nil
}

func newAlertsSet(db *database) *cobra.Command {
	var f alertFlags
	var note admin.Note
	cmd := &cobra.Command{
		Use: "set [WORKFLOW]", Short: "Set whom to alert about a workflow, and when",
		Long: `Sets what the flags name; the rest of the rule stays. A workflow without a rule has the
default. Without a threshold each end of a run with one of the statuses alerts at once;
with --in-a-row and --times the threshold that is met first. The causes are ended,
dead-lettered, stalled, too-slow (--longest), waiting (--longest-wait), no-engine and
approval-due;
all of them but the first are looked for each minute, and alert once for a run.

serve sends the alerts. Its environment has the secret that signs webhooks and the mail
server: PERDURE_ALERT_SECRET and PERDURE_SMTP. An alert that cannot be sent is a dead
letter.`,
		Example: `  perdure alerts set --default --to mailto:ops@example.com
  perdure alerts set bill --in-a-row 3 --times 5 --within 10m --longest 1h
  perdure alerts set import --off --reason 'it fails all night'`,
	}
	out, named := newOutput(cmd), alertNamed(cmd)
	f.add(cmd)
	noteFlags(cmd, &note)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := named(args)
		if err != nil {
			return err
		}
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			s, _, err := c.rule(ctx, name)
			if err == nil {
				err = f.change(cmd, &s.Rule)
			}
			if err == nil {
				err = alert.Set(ctx, c.Client, name, s.Rule, signedNote(note))
			}
			if err == nil {
				s, _, err = c.rule(ctx, name)
			}
			if err != nil {
				return err
			}
			if err := printAlert(cmd, out, present.Alert(s)); err != nil {
				return err
			}
			return c.warn(ctx, cmd.ErrOrStderr())
		})
	}
	return cmd
}

func newAlertsReset(db *database) *cobra.Command {
	var note admin.Note
	cmd := &cobra.Command{
		Use: "reset [WORKFLOW]", Short: "Remove a rule, so that the default applies",
		Example: "  perdure alerts reset bill",
	}
	out, named := newOutput(cmd), alertNamed(cmd)
	noteFlags(cmd, &note)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := named(args)
		if err != nil {
			return err
		}
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			if err := alert.Reset(ctx, c.Client, name, signedNote(note)); err != nil {
				return err
			}
			s := present.Alert(alert.Setting{Workflow: name})
			s.At = nil
			return one(out, cmd.OutOrStdout(), s, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "no rule is set for %s\n", alertName(name))
				return err
			})
		})
	}
	return cmd
}

func newAlertsTest(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use: "test [WORKFLOW]", Short: "Send a test to the recipients of a rule",
		Long: `Starts a run for each recipient of the rule that applies, which sends the test. It does
not wait for them.`,
		Example: `  perdure alerts test bill
  perdure alerts test --default`,
	}
	out, named := newOutput(cmd), alertNamed(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := named(args)
		if err != nil {
			return err
		}
		if err := out.check(); err != nil {
			return err
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			sent, err := alert.Test(ctx, c.Client, name)
			if err != nil {
				return err
			}
			var all []api.AlertTest
			for _, t := range sent {
				all = append(all, api.AlertTest(t))
			}
			if err := list(out, cmd.OutOrStdout(), all, []column[api.AlertTest]{
				{"TO", func(t api.AlertTest) string { return t.To }},
				{"RUN ID", func(t api.AlertTest) string { return t.RunID }},
			}); err != nil {
				return err
			}
			return c.warn(ctx, cmd.ErrOrStderr())
		})
	}
	return cmd
}
