// Package actor makes the calls of clients and operators on the programs of a torture: it starts
// them, sends what they wait for, decides, mends, resumes and retries, and makes other calls in
// between.
package actor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/torture/play"
	"github.com/perdure/perdure/internal/torture/program"
	"github.com/perdure/perdure/journal"
)

// Reason is the reason of suspensions and cancels.
const Reason = "as torture does"

// A Mender repairs broken things in the outside world.
type Mender interface{ Mend(labels ...string) error }

// A Case is one program under one workflow ID.
type Case struct {
	Program *program.Program
	ID      string
	Want    program.Expect
	Acked   []program.Message // acknowledged signals, each under a key of its own
}

// NewCase makes a case.
func NewCase(p *program.Program, id string) *Case {
	return &Case{Program: p, ID: id, Want: program.Foresee(p, id)}
}

// String returns the program and its required result.
func (c *Case) String() string {
	p, _ := json.Marshal(c.Program)
	w, _ := json.Marshal(c.Want)
	return fmt.Sprintf("%s: %s\nmust come to %s", c.ID, p, w)
}

// An Actor makes calls for cases.
type Actor struct {
	// what programs are started with, and the client for calls
	Now   func() (*play.Env, *perdure.Client)
	World Mender
	Pace  time.Duration // the interval of its looks at the runs
	Seed  uint64
	Purge func(context.Context) error // makes an engine remove runs whose retention has passed
	Count func(verb string)           // is called for each operation; may be nil
}

func (d *Actor) client() *perdure.Client {
	_, c := d.Now()
	return c
}

// A dealing is a case that goes on.
type dealing struct {
	*Actor
	*Case
	rng     *rand.Rand
	retried int
	acts    []string
	ordered int      // how many orders have been given to the run that had ended
	beside  []string // workflow IDs of runs that operators have started
	sent    int
	stuck   int64 // the last entry of a run that is suspended without a known reason
	looks   int   // how often it was seen like that
}

// Deal makes calls for a case until all of its runs have ended. It fails if the result is wrong,
// and if ctx ends first.
func (d *Actor) Deal(ctx context.Context, c *Case) error {
	x := &dealing{
		Actor: d, Case: c, rng: rand.New(rand.NewPCG(d.Seed, c.Program.Seed)), acts: c.Program.Acts,
	}
	// some messages come before the run exists
	if x.rng.IntN(2) == 0 && !strings.HasPrefix(c.Program.Workflow, "graph") {
		if err := x.some(ctx); err != nil {
			return err
		}
	}
	if err := x.start(ctx); err != nil {
		return err
	}
	for {
		over, err := x.look(ctx)
		if err == nil && over {
			return x.settle(ctx)
		}
		if err != nil {
			return err
		}
		if err := x.rest(ctx); err != nil {
			return err
		}
		if err := x.meddle(ctx); err != nil {
			return err
		}
	}
}

// start starts the program. A program that is started with a signal would be started again after
// its end, so a start of unknown outcome is repeated only if the program does not exist.
func (x *dealing) start(ctx context.Context) error {
	tried := false
	return x.insist(ctx, "start", func(*perdure.Client) error {
		env, c := x.Now()
		if tried {
			if all, err := c.Statuses(ctx, x.ID); err != nil || all[0].Found {
				return err
			}
		}
		tried = true
		return env.Start(ctx, c, x.Program, x.ID)
	})
}

// some sends some of the remaining messages.
func (x *dealing) some(ctx context.Context) error {
	for n := x.rng.IntN(4); n > 0 && x.sent < len(x.Want.Messages); n-- {
		m := x.Want.Messages[x.sent]
		if err := x.insist(ctx, "send "+m.Name, func(c *perdure.Client) error {
			return x.tell(ctx, c, m)
		}); err != nil {
			return err
		}
		x.sent++
	}
	return nil
}

// rest waits a while.
func (x *dealing) rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("%s has not ended: %w", x.ID, context.Cause(ctx))
	case <-time.After(x.Pace/2 + time.Duration(x.rng.Int64N(int64(x.Pace)))):
		return nil
	}
}

func (x *dealing) count(verb string) {
	if x.Count != nil {
		x.Count(verb)
	}
}

// insist repeats an operation as long as its outcome is unknown.
func (x *dealing) insist(ctx context.Context, what string, do func(*perdure.Client) error) error {
	for {
		err := do(x.client())
		if err == nil {
			x.count(what)
			return nil
		}
		if e := x.rest(ctx); e != nil {
			return errors.Join(fmt.Errorf("%s of %s: %w", what, x.ID, err), e)
		}
		if !passing(err) {
			return fmt.Errorf("%s of %s: %w", what, x.ID, err)
		}
	}
}

// passing reports whether an error may be gone the next time.
func passing(err error) bool {
	var e *perdure.Error
	if !errors.As(err, &e) {
		return true
	}
	return slices.Contains([]journal.Code{
		journal.CodeStopped, journal.CodeUnavailable, journal.CodeTimedOut, journal.CodeCancelled,
		"",
	}, e.Code)
}

// tell sends one message.
func (x *dealing) tell(ctx context.Context, c *perdure.Client, m program.Message) error {
	var err error
	switch m.What {
	case "signal":
		err = x.send(ctx, m)
	case "update":
		err = x.update(ctx, c, m)
	case "approve":
		err = x.approve(ctx, c, m)
	default:
		err = x.answer(ctx, c, m)
	}
	if is(err, journal.CodeWrongState) || is(err, journal.CodeNotFound) {
		return nil // it has ended, or does not exist yet
	}
	return err
}

// send sends a signal, and notes it if it is acknowledged. The key is the same after a retry: the
// run that goes on has the signal already, unless a child is begun again.
func (x *dealing) send(ctx context.Context, m program.Message) error {
	env, c := x.Now()
	d, err := env.Send(ctx, c, m, m.Key)
	if err == nil && !d.NotDelivered && !slices.Contains(x.Acked, m) {
		x.Acked = append(x.Acked, m)
	}
	return err
}

func is(err error, code journal.Code) bool { return errors.Is(err, &perdure.Error{Code: code}) }

// look looks at the runs of the case, and makes the calls that they need. It reports whether all
// have ended.
func (x *dealing) look(ctx context.Context) (over bool, err error) {
	ids := slices.Concat([]string{x.ID}, x.Want.Children, x.beside)
	var all []perdure.Status
	err = x.insist(ctx, "statuses", func(c *perdure.Client) (err error) {
		all, err = c.Statuses(ctx, ids...)
		return err
	})
	if err != nil {
		return false, err
	}
	over = true
	for i, s := range all {
		switch {
		case !s.Found && i == 0:
			return false, fmt.Errorf("%s was started and is not there", x.ID)
		case !s.Found:
			continue
		case s.Head.Status.IsTerminal() && slices.Contains(x.beside, ids[i]):
			over = false // until it is removed
			if err := x.insist(ctx, "purge", func(*perdure.Client) error {
				return x.Purge(ctx)
			}); err != nil {
				return false, err
			}
		case !s.Head.Status.IsTerminal():
			over = false
			if err := x.open(ctx, ids[i], s); err != nil {
				return false, err
			}
		}
	}
	top := all[0].Head.Status
	if top == journal.Failed && x.Want.Retried && x.retried < 5 {
		return false, x.retry(ctx)
	}
	if !over || x.hasChildren(ctx, all[0]) {
		return false, nil
	}
	if x.ordered < len(x.Program.Then) {
		return false, x.order(ctx, all[0])
	}
	return true, nil
}

// patientLooks is how many looks in a row find a run suspended whose reason has gone. Its code may
// block outside of the engine, which takes some seconds to find that out for each branch.
const patientLooks = 3000

// hasChildren reports whether a run of a declaration has, or may have, children that go on, which
// have no workflow ID.
func (x *dealing) hasChildren(ctx context.Context, s perdure.Status) bool {
	if x.Program.Workflow == "code" {
		return false
	}
	heads, _, err := x.client().List(ctx, perdure.Query{Parent: string(s.Head.ID), Open: true})
	return err != nil || len(heads) > 0
}

// open makes the calls for an open run.
func (x *dealing) open(ctx context.Context, id string, s perdure.Status) error {
	if err := x.some(ctx); err != nil {
		return err
	}
	if x.sent == len(x.Want.Messages) && x.rng.IntN(10) == 0 {
		for _, m := range x.Want.Messages { // decisions and timers that did not exist before
			if m.What != "signal" {
				if err := x.tell(ctx, x.client(), m); err != nil && !passing(err) {
					return err
				}
			}
		}
	}
	if s.Head.Status == journal.CompensationFailed {
		return x.unstick(ctx, id)
	}
	if s.Head.Status != journal.Suspended {
		return nil
	}
	var why perdure.Description
	err := x.insist(ctx, "describe", func(c *perdure.Client) (err error) {
		why, err = c.Describe(ctx, id)
		return err
	})
	if err != nil {
		return err
	}
	if why.Head.Status != journal.Suspended {
		return nil
	}
	asked := slices.ContainsFunc(why.State.Waits, func(w journal.Wait) bool {
		return w.Kind == journal.WaitDecision
	})
	broken := strings.Contains(why.State.Reason+why.Head.Cause+why.Why, play.ErrBroken.Error())
	meddled := strings.Contains(why.State.Reason+why.Head.Cause+why.Why, Reason)
	switch {
	case meddled, broken:
		if x.rng.IntN(3) > 0 {
			return nil // later
		}
		if err := x.World.Mend(x.Want.Mends...); err != nil {
			return err
		}
		err := x.insist(ctx, "resume", func(c *perdure.Client) error { return c.Resume(ctx, id) })
		if is(err, journal.CodeWrongState) {
			return nil
		}
		return err
	case asked || why.State.Seq != x.stuck:
		x.stuck, x.looks = why.State.Seq, 0
		return nil
	case x.looks < patientLooks: // it has not noticed yet that the reason has gone
		x.looks++
		return nil
	}
	return fmt.Errorf("%s is suspended and should not be: %s", id, why.Why)
}
