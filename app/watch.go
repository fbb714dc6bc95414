package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// How often a waiting command looks at the database.
const (
	lookEvery   = 200 * time.Millisecond // for new entries of a run
	engineEvery = 10                     // looks between two checks for an engine
)

// errWaited is the error of a wait whose --timeout is over.
var errWaited = errors.New("the time is over")

func newRunsWatch(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch ID",
		Short: "Show the journal of a run as it grows, until the run ends",
		Long: `Shows the journal of a run as it grows, until the run ends. Of runs that continue as new
it shows one after the other. Its exit code is that of the run. An interrupt ends this
command, not the run.`,
		Example: "  perdure runs watch ord-1001\n  perdure runs watch @latest -o jsonl",
	}
	w := newWaiter(cmd)
	return aboutRun(db, cmd, w.check, db.read, func(ctx context.Context, c *client,
		h journal.Head) error {
		return w.watch(ctx, c, h, cmd)
	})
}

func newRunsWait(db *database) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until a run ends, and print its output",
		Long: `Waits until a run ends, and prints its output. Its exit code is that of the run, or 7 after
--timeout. An interrupt ends this command, not the run.`,
		Example: "  perdure runs wait ord-1001 --timeout 1m",
	}
	w := newWaiter(cmd)
	return aboutRun(db, cmd, w.check, db.read, func(ctx context.Context, c *client,
		h journal.Head) error {
		return w.wait(ctx, c, h, cmd)
	})
}

// A waiter waits for the end of a run.
type waiter struct {
	out     *output
	timeout time.Duration
}

func newWaiter(cmd *cobra.Command) *waiter {
	w := &waiter{out: newOutput(cmd)}
	cmd.Flags().DurationVar(&w.timeout, "timeout", 0, "time to wait; 0 for no limit")
	return w
}

// check returns an error for invalid flags.
func (w *waiter) check() error {
	if w.timeout < 0 {
		return &perdure.Error{
			Code: journal.CodeInvalid, Message: fmt.Sprintf(
				"--timeout %v is not valid: allowed is 0 or more", w.timeout),
		}
	}
	return w.out.check()
}

// bound limits ctx by the timeout.
func (w *waiter) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.timeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, w.timeout, errWaited)
}

// ended returns the error of a wait that was over before the run ended: by the timeout or
// by an interrupt.
func (w *waiter) ended(ctx context.Context, id journal.RunID) error {
	if errors.Is(context.Cause(ctx), errWaited) {
		return &perdure.Error{
			Code: journal.CodeTimedOut, Message: fmt.Sprintf("run %s has not ended within %v", id,
				w.timeout), Err: errWaited,
			Hint: "it goes on; --timeout 0 waits for as long as it takes",
		}
	}
	return fmt.Errorf("%w: run %s goes on", errInterrupted, id)
}

// wait waits for the end of a run and prints its output.
func (w *waiter) wait(ctx context.Context, c *client, h journal.Head, cmd *cobra.Command) error {
	if !h.Status.IsTerminal() {
		if err := c.warn(ctx, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	bounded, cancel := w.bound(ctx)
	defer cancel()
	var output json.RawMessage
	run, failed := c.Get(bounded, string(h.ID))
	if failed == nil {
		output, failed = run.Result(bounded)
	}
	if bounded.Err() != nil {
		return w.ended(bounded, h.ID)
	}
	last, d, err := c.last(ctx, h)
	if err != nil {
		return err
	}
	if last.Status.IsOpen() { // the database has not answered
		return failed
	}
	if failed == nil || w.out.format != asTable {
		d.Output = api.Data(output)
		err = one(w.out, cmd.OutOrStdout(), d.Outcome, func(to io.Writer) error {
			_, err := escaper{to}.Write(append(output, '\n'))
			return err
		})
	}
	return errors.Join(err, endedWith(last.Status, failed))
}

// watch prints entries as they come. It returns the error that the run ended with.
func (w *waiter) watch(ctx context.Context, c *client, h journal.Head, cmd *cobra.Command) error {
	bounded, cancel := w.bound(ctx)
	defer cancel()
	v := &viewer{
		waiter: w,
		client: c,
		head:   h,
		out:    cmd.OutOrStdout(),
		err:    cmd.ErrOrStderr(),
		of:     api.JournalOf(h),
	}
	v.live = w.out.format == asTable && terminal(v.out)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for looks := 0; ; looks++ {
		over, err := v.look(bounded, looks)
		if bounded.Err() != nil {
			v.clear()
			return w.ended(bounded, v.head.ID)
		}
		if over || err != nil {
			v.clear()
			return err
		}
		select {
		case <-tick.C:
		case <-bounded.Done():
		}
	}
}

// A viewer shows a run while it goes on.
type viewer struct {
	*waiter
	client   *client
	head     journal.Head
	seq      int64 // of the last entry shown
	of       *api.Journal
	out, err io.Writer
	live     bool // out is a terminal, and its last line shows what the run waits for
	engine   string
	asked    bool
	why      string
}

// look prints new entries. It reports whether the run has ended, and returns its error.
func (v *viewer) look(ctx context.Context, looks int) (over bool, err error) {
	if looks%engineEvery == 0 {
		if err := v.lookForEngine(ctx); err != nil {
			return false, err
		}
	}
	heads, err := v.client.Statuses(ctx, string(v.head.ID))
	if err != nil {
		return false, err
	}
	if !heads[0].Found {
		return false, &perdure.Error{
			Code: journal.CodeNotFound, Op: "watch " + string(v.head.ID),
			Message: "the run was removed",
		}
	}
	v.head = heads[0].Head
	entries, err := v.client.History(ctx, string(v.head.ID), v.seq+1, 0)
	if err != nil {
		return false, err
	}
	if err := v.show(entries); err != nil {
		return false, err
	}
	if v.head.Status.IsOpen() {
		return false, v.status(ctx, len(entries) > 0, looks)
	}
	if v.head.Status == journal.ContinuedAsNew {
		return false, v.follow(ctx)
	}
	v.clear()
	return true, v.end(heads[0])
}

func (v *viewer) show(entries []journal.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	v.clear()
	v.seq = entries[len(entries)-1].Seq
	told := make([]api.Entry, len(entries))
	for i, e := range entries {
		told[i] = v.of.Entry(e)
	}
	if v.waiter.out.format != asTable {
		return lines(v.out, told)
	}
	for _, e := range told {
		if _, err := fmt.Fprintf(v.out, "%s  %-16s %-20s %s\n", e.At.Format("15:04:05.000"), e.Kind,
			plain(e.Operation), plain(detail(e))); err != nil {
			return err
		}
	}
	return nil
}

// end prints how the run ended if the format is text, and returns the run's error.
func (v *viewer) end(s perdure.Status) error {
	if v.waiter.out.format == asTable {
		_, err := fmt.Fprintf(v.out, "%s after %s  %s\n", hued(v.out, s.Head.Status.String()),
			took(s.Head.Ended.Sub(s.Head.Created)), plain(string(s.Output)))
		return errors.Join(err, endedWith(s.Head.Status, s.Err))
	}
	return endedWith(s.Head.Status, s.Err)
}

// follow goes on with the successor of a run that has continued as new.
func (v *viewer) follow(ctx context.Context) error {
	d, err := v.client.Describe(ctx, string(v.head.ID))
	if err != nil {
		return err
	}
	heads, err := v.client.Statuses(ctx, string(d.State.Successor))
	if err != nil {
		return err
	}
	v.head, v.seq = heads[0].Head, 0
	v.head.ID = d.State.Successor // if the successor was removed, the next look returns that error
	v.of = api.JournalOf(v.head)
	return nil
}

var spinner = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// status shows on the last line of a terminal what the run waits for.
func (v *viewer) status(ctx context.Context, news bool, looks int) error {
	if !v.live {
		return nil
	}
	if news || looks%engineEvery == 0 {
		d, err := v.client.Describe(ctx, string(v.head.ID))
		if err != nil {
			return err
		}
		v.why = d.Why
	}
	text := fmt.Sprintf("%s %s  %s  %s", spinner[looks%len(spinner)], v.head.Status,
		took(time.Since(v.head.Created).Round(time.Second)), plain(v.why))
	_, err := fmt.Fprint(v.out, "\r\x1b[K"+cut(v.out, text))
	return err
}

// clear clears the last line of a terminal.
func (v *viewer) clear() {
	if v.live {
		fmt.Fprint(v.out, "\r\x1b[K")
	}
}

// lookForEngine prints a note when the engines that have the database change.
func (v *viewer) lookForEngine(ctx context.Context) error {
	if v.head.Status.IsTerminal() {
		return nil
	}
	engines, err := v.client.engines(ctx)
	if err != nil {
		return err
	}
	now := v.client.noEngine()
	if len(engines) > 0 {
		now = enginesText(engines) + " " + v.client.place.String()
	}
	if now != v.engine && (len(engines) == 0 || v.asked) {
		v.clear()
		fmt.Fprintln(v.err, now)
	}
	v.engine, v.asked = now, true
	return nil
}

// enginesText returns the subject of a note about the engines that have a database.
func enginesText(engines []store.Engine) string {
	if len(engines) > 1 {
		return fmt.Sprintf("%d engines have", len(engines))
	}
	return fmt.Sprintf("process %d on %s has", engines[0].PID, engines[0].Host)
}
