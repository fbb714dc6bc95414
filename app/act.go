package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// why adds the flags --by and --reason to a command, which set these fields of the action.
func why(cmd *cobra.Command, do *admin.Order) {
	cmd.Flags().StringVar(&do.Reason, "reason", "from the command line",
		"the reason; it is recorded with the run")
	cmd.Flags().StringVar(&do.By, "by", "", "who does it; it is recorded with the run. Without "+
		"it, the user and the host")
}

// signed sets the user and the host as the operator of an action that names none.
func signed(do admin.Order) admin.Order {
	if do.By == "" {
		do.By = operator()
	}
	return do
}

// operator returns the user of this process, and its host.
func operator() string {
	name := cmp.Or(os.Getenv("USER"), os.Getenv("LOGNAME"), "unknown")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return strings.ToValidUTF8(name[:min(len(name), journal.MaxName)], "")
}

// acting makes a command that asks for a change of a run's status, such as a cancel. done
// is the text that it prints afterwards.
func acting(db *database, cmd *cobra.Command, to journal.Status, done string,
	action journal.Action) *cobra.Command {
	do := &admin.Order{Action: action}
	why(cmd, do)
	return actingOn(db, cmd, to, done, newOutput(cmd), do)
}

// actingInBulk makes such a command, which also acts on many runs.
func actingInBulk(db *database, cmd *cobra.Command, to journal.Status, done string,
	do *admin.Order) *cobra.Command {
	out := newOutput(cmd)
	why(cmd, do)
	actingOn(db, cmd, to, done, out, do)
	inBulk(db, cmd, out, false, func(*cobra.Command) (admin.Order, error) {
		return signed(*do), nil
	})
	return cmd
}

func actingOn(db *database, cmd *cobra.Command, to journal.Status, done string, out *output,
	do *admin.Order) *cobra.Command {
	return aboutRun(db, cmd, out.check, db.write, func(ctx context.Context, c *client,
		h journal.Head) error {
		acted, err := admin.New(c.Client).Act(ctx, string(h.ID), signed(*do))
		if err != nil {
			return c.explained(err, h)
		}
		if h.Status == to {
			done = "is " + to.String() + " already"
		}
		if err := c.printActed(cmd, out, acted, func(w io.Writer) error {
			fmt.Fprintf(cmd.ErrOrStderr(), "run %s %s\n", h.ID, done)
			for _, step := range acted.NotUndone {
				fmt.Fprintf(cmd.ErrOrStderr(), "not undone: %s\n", step)
			}
			return nil
		}); err != nil {
			return err
		}
		return c.warnActed(ctx, cmd.ErrOrStderr(), h, do.Action)
	})
}

// printActed prints the result of an action, as JSON or by text.
func (c *client) printActed(cmd *cobra.Command, out *output, acted admin.Acted,
	text func(io.Writer) error) error {
	return one(out, cmd.OutOrStdout(), api.Acted{
		RunID: acted.RunID, WorkflowID: acted.WorkflowID, New: acted.New,
		NotUndone: acted.NotUndone,
	}, text)
}

// explained adds a hint to the error of an action that the state of the run does not allow.
func (c *client) explained(err error, h journal.Head) error {
	if exitCode(err) == exitConflict {
		return hinted(err, c.place.Command("runs describe "+string(h.ID))+" shows how far it is")
	}
	return err
}

// warn prints a note if no engine has the database.
func (c *client) warn(ctx context.Context, w io.Writer) error { return c.warnOf(ctx, w, "") }

// warnOf prints a note if no engine has the database, or if none has the workflow: then nothing is
// done with its runs.
func (c *client) warnOf(ctx context.Context, w io.Writer, workflow string) error {
	return c.warnAbout(ctx, w, workflow, "")
}

// warnActed prints such a note about an action on an open run. A run is terminated by any engine.
func (c *client) warnActed(ctx context.Context, w io.Writer, h journal.Head,
	action journal.Action) error {
	switch action {
	case journal.ActionTerminate:
		return c.warn(ctx, w)
	case journal.ActionCancel:
		return c.warnAbout(ctx, w, h.Workflow, "; "+
			c.place.Command("runs terminate "+string(h.ID))+" ends it without its code")
	}
	return c.warnOf(ctx, w, h.Workflow)
}

// warnAbout is warnOf with the end of the note that no engine has the workflow.
func (c *client) warnAbout(ctx context.Context, w io.Writer, workflow, end string) error {
	engines, err := c.engines(ctx)
	switch {
	case err != nil:
		return err
	case len(engines) == 0:
		fmt.Fprintln(w, c.noEngine())
	case workflow != "" && !slices.ContainsFunc(engines, func(e store.Engine) bool {
		return e.Workflows == nil || slices.Contains(e.Workflows, workflow)
	}):
		fmt.Fprintf(w, "no engine has workflow %s: nothing is done with the run until one has%s\n",
			workflow, end)
	}
	return nil
}

func newRunsCancel(db *database) *cobra.Command {
	do := &admin.Order{Action: journal.ActionCancel}
	cmd := &cobra.Command{
		Use: "cancel ID...", Short: "Cancel a run: it ends as CANCELLED after its clean-ups",
		Long: `Ends an open run as CANCELLED, after its clean-ups. Sagas and TCCs undo what they have
done. A graph does so only with --compensate.`,
		Example: `  perdure runs cancel ord-1001 --reason 'the customer changed her mind'
  perdure runs cancel ord-1001 --compensate`,
	}
	cmd.Flags().BoolVar(&do.Compensate, "compensate", false, "undo the steps that a graph has done")
	return actingInBulk(db, cmd, journal.Cancelled, "is asked to end", do)
}

func newRunsSuspend(db *database) *cobra.Command {
	return acting(db, &cobra.Command{
		Use: "suspend ID", Short: "Park a run until it is resumed",
		Example: "  perdure runs suspend ord-1001 --reason 'the bank is down'",
	}, journal.Suspended, "is held", journal.ActionSuspend)
}

func newRunsResume(db *database) *cobra.Command {
	return acting(db, &cobra.Command{
		Use: "resume ID", Short: "Let a parked run, or a rollback that has stopped, go on",
		Long: `Lets a parked run go on. In a run that is COMPENSATION_FAILED, it tries the
compensations that have failed again. What is undone already stays so.`,
		Example: "  perdure runs resume ord-1001",
	}, journal.Running, "goes on", journal.ActionResume)
}

func newRunsDecide(db *database) *cobra.Command {
	var do admin.Order
	cmd := &cobra.Command{
		Use:   "decide ID NAME CHOICE",
		Short: "Answer a parked run that waits for a decision",
		Long: `Answers a run that waits for an operator. runs describe shows the decisions that it waits
for. NAME is the path of a decision, or its name if the run waits for only one of that
name.`,
		Example: `  perdure runs describe ord-1001
  perdure runs decide ord-1001 refund-failed retry --reason 'the bank is back'`,
		Args: exactly("ID", "NAME", "CHOICE"),
	}
	in := newInput(cmd, "data that goes with the choice")
	why(cmd, &do)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		data, err := in.read(cmd)
		if err != nil {
			return err
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			h, err := c.find(ctx, args[0])
			if err != nil {
				return err
			}
			d := perdure.Decision{
				Choice: args[2], Data: data, By: signed(do).By, Reason: do.Reason,
			}
			if err := c.Decide(ctx, string(h.ID), args[1], d); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "run %s is told\n", h.ID)
			return c.warnOf(ctx, cmd.ErrOrStderr(), h.Workflow)
		})
	}
	completeWaits(cmd, db, journal.WaitDecision)
	return cmd
}

// waits returns the waits of one kind of an open run. A run that has ended has none.
func (c *client) waits(ctx context.Context, h journal.Head, kind journal.WaitKind) ([]journal.Wait,
	error) {
	d, err := c.Describe(ctx, string(h.ID))
	if err != nil || d.Head.Status.IsTerminal() {
		return nil, err
	}
	return slices.DeleteFunc(d.State.Waits, func(w journal.Wait) bool {
		return w.Kind != kind || w.Op.Name == journal.CallbackName // no signal ends it
	}), nil
}

// nameOf returns the name of a wait without the scopes that it is in.
func nameOf(w journal.Wait) string {
	name, _, _ := strings.Cut(w.Path[strings.LastIndexByte(w.Path, '/')+1:], "#")
	return name
}

// names returns the names of waits, joined with "or".
func names(waits []journal.Wait) string {
	var out []string
	for _, w := range waits {
		out = append(out, nameOf(w))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " or ")
}

func newRunsSignal(db *database) *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:   "signal ID NAME",
		Short: "Send a signal to a run, or to a workflow ID",
		Long: `Sends a signal. The signal is durable when the command ends. If no open run has the
workflow ID, the signal is kept for the next run that has it: unrouted list shows it.`,
		Example: `  perdure runs signal exp-9 answer -i '{"by":"manager","approved":true}'
  perdure runs signal sub-5 change -f plan.json --key change-17`,
		Args: exactly("ID", "NAME"),
	}
	in := newInput(cmd, "the payload")
	out := newOutput(cmd)
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: the same key is delivered once")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := out.check(); err != nil {
			return err
		}
		data, err := in.read(cmd)
		if err != nil {
			return err
		}
		var opts []perdure.SendOption
		if key != "" {
			opts = append(opts, perdure.SendKey(key))
		}
		return using(cmd, db.write, func(ctx context.Context, c *client) error {
			id := args[0]
			if id == latest {
				h, err := c.find(ctx, id)
				if err != nil {
					return err
				}
				id = string(h.ID)
			}
			d, err := c.Send(ctx, id, args[1], data, opts...)
			if err != nil {
				return err
			}
			if err := one(out, cmd.OutOrStdout(), present.Delivery(d), func(w io.Writer) error {
				return printDelivery(w, id, d)
			}); err != nil {
				return err
			}
			if err := c.warnUnheard(ctx, cmd.ErrOrStderr(), d, args[1]); err != nil {
				return err
			}
			return c.warn(ctx, cmd.ErrOrStderr())
		})
	}
	completeWaits(cmd, db, journal.WaitSignal)
	return cmd
}

// warnUnheard prints a note if the run got the signal but now waits only for signals with
// other names.
func (c *client) warnUnheard(ctx context.Context, w io.Writer, d perdure.Delivery,
	name string) error {
	if d.Duplicate || d.Unrouted || d.NotDelivered {
		return nil
	}
	waits, err := c.waits(ctx, journal.Head{ID: journal.RunID(d.RunID)}, journal.WaitSignal)
	if len(waits) > 0 && !slices.ContainsFunc(waits, func(w journal.Wait) bool {
		return nameOf(w) == name || w.Reason == journal.ReasonAnySignal
	}) {
		fmt.Fprintf(w, "it is kept until the run waits for %s; now it waits for %s\n", name,
			names(waits))
	}
	return err
}

func printDelivery(w io.Writer, id string, d perdure.Delivery) error {
	var err error
	switch {
	case d.Duplicate:
		_, err = fmt.Fprintf(w, "nothing was done: a signal with this key came to %s before\n", id)
	case d.Unrouted:
		_, err = fmt.Fprintf(w, "no open run has the workflow ID %s: the signal is kept for one, "+
			"as number %d\n", id, d.Number)
	case d.NotDelivered && d.Status != 0:
		_, err = fmt.Fprintf(w, "not delivered: run %s is %v\n", d.RunID, d.Status)
	case d.NotDelivered:
		_, err = fmt.Fprintf(w, "not delivered: there is no run %s\n", id)
	default:
		_, err = fmt.Fprintf(w, "run %s has it, as message %d\n", d.RunID, d.Number)
	}
	return err
}

// An input is a JSON value that a command takes from a flag, a file or the standard input.
type input struct {
	what, text, file string
}

// newInput adds the flags --input and --file to a command.
func newInput(cmd *cobra.Command, what string) *input {
	in := &input{what: what}
	cmd.Flags().StringVarP(&in.text, "input", "i", "", what+", as JSON")
	cmd.Flags().StringVarP(&in.file, "file", "f", "", what+
		", as a file with JSON; - is the standard input")
	return in
}

// read returns the JSON, or null if neither flag is set.
func (in *input) read(cmd *cobra.Command) ([]byte, error) {
	data, err := []byte(in.text), error(nil)
	switch text, file := cmd.Flags().Changed("input"), cmd.Flags().Changed("file"); {
	case text && file:
		return nil, usage(cmd, in.what+" is given twice, by -i and by -f")
	case file && in.file == "-":
		data, err = readAll(cmd.InOrStdin())
	case file:
		var f *os.File
		if f, err = os.Open(in.file); err == nil {
			data, err = readAll(f)
			_ = f.Close() // it was only read
		}
	case !text:
		return []byte("null"), nil
	}
	if err != nil {
		return nil, &perdure.Error{Code: journal.CodeInvalid, Op: cmd.Name(), Message: in.what +
			" cannot be read", Err: err, Hint: "-f names a file, and - the standard input"}
	}
	err = json.Unmarshal(data, new(json.RawMessage))
	if err == nil && !utf8.Valid(data) {
		err = errors.New("it is not UTF-8")
	}
	if err != nil {
		var at *json.SyntaxError
		message := in.what + " is not JSON"
		if errors.As(err, &at) {
			message = fmt.Sprintf("%s is not JSON at byte %d", in.what, at.Offset)
		}
		return nil, &perdure.Error{
			Code: journal.CodeInvalid, Op: cmd.Name(), Message: message, Err: err,
			Hint: `a text needs quotes of its own: -i '"ada"'`,
		}
	}
	return data, nil
}

// maxInput is the limit of one payload, which a client cannot change.
const maxInput = 64 << 20

// readAll reads a stream that may be endless: it fails after maxInput bytes.
func readAll(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err == nil && len(data) > maxInput {
		err = fmt.Errorf("it has more than %d bytes", maxInput)
	}
	return data, err
}
