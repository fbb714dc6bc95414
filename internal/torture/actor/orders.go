package actor

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/admin"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
)

// operator is the name of the operator in orders.
const operator = "the actor"

// retry mends what is broken, and lets the run go on.
func (x *dealing) retry(ctx context.Context) error {
	if err := x.World.Mend(x.Want.Mends...); err != nil {
		return err
	}
	do, plain, err := x.repair()
	if err != nil {
		return err
	}
	if x.rng.IntN(4) == 0 {
		if came, err := x.bulk(ctx, do); came || err != nil {
			x.retried++
			x.sent = 0
			return err
		}
	}
	waits := false
	err = x.insist(ctx, string(do.Action), func(c *perdure.Client) error {
		err := x.repairBy(ctx, c, do, plain)
		switch {
		case is(err, journal.CodeWrongState):
			return nil
		case is(err, journal.CodeConflict):
			waits, err = x.isFailed(ctx, c)
		}
		return err
	})
	if waits { // for a child that is being ended, and may need the actor for that
		return err
	}
	x.retried++
	x.sent = 0
	return err
}

// repairBy calls one of several verbs that carry out the order.
func (x *dealing) repairBy(ctx context.Context, c *perdure.Client, do admin.Order,
	plain bool) error {
	op := admin.New(c)
	letters, _, err := op.DeadLetters(ctx, admin.DeadLetterQuery{WorkflowID: x.ID})
	if err != nil {
		return err
	}
	switch n := x.rng.IntN(4); {
	case n == 0 && len(letters) > 0 && plain:
		_, err = op.RetryDeadLetter(ctx, letters[0].ID)
	case n == 1 && len(letters) > 0:
		_, err = op.ActOnDeadLetter(ctx, letters[0].ID, do)
	case n == 2 && plain:
		_, err = c.Retry(ctx, x.ID)
	default:
		if _, err = op.Preview(ctx, x.ID, do); err == nil {
			_, err = op.Act(ctx, x.ID, do)
		}
	}
	return err
}

// isFailed reports whether the run of the case has not gone on, by an order before whose outcome
// was not known.
func (x *dealing) isFailed(ctx context.Context, c *perdure.Client) (bool, error) {
	d, err := c.Describe(ctx, x.ID)
	return err == nil && d.Head.Status == journal.Failed, err
}

// repair returns the order by which a failed run goes on, and whether it is a retry of the run as
// it was.
func (x *dealing) repair() (do admin.Order, plain bool, err error) {
	do = admin.Order{Action: journal.ActionRetry, By: operator, Reason: "it is mended"}
	plain = true
	x.Program.Body.All(func(op *program.Op) {
		switch {
		case op.Kind != program.Broken:
		case op.Way == "skip":
			plain, do.Action = false, journal.ActionSkip
			do.Output = json.RawMessage(strconv.Itoa(op.Skipped()))
			if x.rng.IntN(2) == 0 {
				do.Step = op.Name()
			}
		case op.Way == "input":
			plain = false
			do.Input, err = json.Marshal(play.Input{
				Instance: x.ID, ID: x.ID, Program: x.Program, Mended: true,
			})
		}
	})
	return do, plain, err
}

// order lets a run of a declaration that has ended go on by the next order.
func (x *dealing) order(ctx context.Context, s perdure.Status) error {
	n := x.ordered
	run, what := string(s.Head.ID), x.Program.Then[n]
	do := admin.Order{Action: journal.ActionCompensate, By: operator, Reason: Reason}
	if deeds, changed := x.Program.Ordered(n, x.Want.Fork); changed {
		in, err := json.Marshal(play.DeedsOf(x.ID, deeds))
		if err != nil {
			return err
		}
		do.Input = in
	}
	switch {
	// A retry of a TCC that has failed goes on to cancel. A fork begins it from the top.
	case what == "mended" && s.Head.Status == journal.Failed && x.Program.Seed%2 == 0 &&
		!x.Program.IsTCC():
		do.Action = journal.ActionRetry
	case what != "compensate":
		do.Action = journal.ActionFork
		step, err := x.step(ctx, run, x.Want.Fork[n])
		if err != nil {
			return err
		}
		do.Step = step
	}
	err := x.insist(ctx, "preview", func(c *perdure.Client) error {
		_, err := admin.New(c).Preview(ctx, run, do)
		return err
	})
	if do.Action == journal.ActionFork && is(err, journal.CodeNotFound) {
		// A run that goes on from another one has what was done within a step, and may have ended
		// before it came to the step.
		do.Step, err = x.other(ctx, run, do.Step)
	}
	if err != nil {
		return err
	}
	x.ordered++
	x.retried++
	x.sent = 0
	return x.insist(ctx, string(do.Action), func(c *perdure.Client) error {
		_, err := admin.New(c).Act(ctx, run, do)
		return err
	})
}

// unstick lets a rollback go on that has stopped, now or at a later look. It may stop again.
func (x *dealing) unstick(ctx context.Context, id string) error {
	choice := x.Program.Stuck
	if choice == "" || x.rng.IntN(3) > 0 {
		return nil
	}
	if x.Program.IsMended() {
		if err := x.World.Mend(x.Want.Undos...); err != nil {
			return err
		}
	}
	err := x.insist(ctx, "rollback-"+choice, func(c *perdure.Client) error {
		if choice == "resume" {
			_, err := admin.New(c).Act(ctx, id, admin.Order{
				Action: journal.ActionResume, By: operator, Reason: Reason,
			})
			return err
		}
		d, err := c.Describe(ctx, id)
		for _, w := range d.State.Waits {
			if err == nil && w.Kind == journal.WaitDecision {
				err = c.Decide(ctx, id, w.Path, perdure.Decision{Choice: choice, Reason: Reason})
			}
		}
		return err
	})
	if is(err, journal.CodeWrongState) || is(err, journal.CodeNotFound) {
		return nil // it goes on, by a call before whose outcome was not known
	}
	return err
}

// forward matches the paths of the steps of declarations.
var forward = regexp.MustCompile(`(^|/)(try:)?step\d+$`)

// other returns the path of the first step of a declaration but one.
func (x *dealing) other(ctx context.Context, run, but string) (path string, err error) {
	err = x.insist(ctx, "describe", func(c *perdure.Client) error {
		d, err := c.Describe(ctx, run)
		for _, s := range d.State.Steps {
			if path == "" && forward.MatchString(s.Path) && s.Path != but {
				path = s.Path
			}
		}
		return err
	})
	return path, err
}

// step returns the path of a step of a declaration; that of its first one if the run has not come
// to the step.
func (x *dealing) step(ctx context.Context, run string, number int) (path string, err error) {
	err = x.insist(ctx, "describe", func(c *perdure.Client) error {
		d, err := c.Describe(ctx, run)
		for _, s := range d.State.Steps {
			if path == "" && forward.MatchString(s.Path) {
				path = s.Path
			}
			if strings.HasSuffix("/"+s.Path, "/step"+strconv.Itoa(number)) {
				path = s.Path
				return err
			}
		}
		return err
	})
	return path, err
}
