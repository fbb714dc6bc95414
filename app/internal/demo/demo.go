package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/journal"
)

// Options say what a demo does.
type Options struct {
	Executable string // this program; its commands WorkerCommand and WorldCommand run Worker and World
	Dir        string // where the database and the ledger are; what an earlier demo left there is removed
	Seed       uint64 // chooses orders, refusals and kills
	Kills      int    // how often the worker is killed
	Orders     int    // how many there are; see DefaultOrders
}

// Run runs one demo, tells it line by line on out, and ends with the checks. It
// returns an error where the demo could not be run, where one of the checks is
// false, or where ctx ends. No child process outlives it.
func Run(ctx context.Context, o Options, out io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	plan, err := NewPlan(o.Seed, o.Orders, o.Kills)
	if err != nil {
		return invalid(err.Error(), "raise --orders, or leave it out")
	}
	f, err := prepare(ctx, o.Dir, plan)
	if err != nil {
		return err
	}
	s := &supervisor{
		executable: o.Executable, plan: plan, files: f, report: newReport(out, plan, f),
		evidence: Evidence{Plan: plan, Accepted: map[string]bool{}}, ended: map[string]bool{},
	}
	s.report.begin()
	if err := s.run(ctx); err != nil {
		return err
	}
	if s.evidence.Calls, err = ReadLedger(f.ledger); err != nil {
		return err
	}
	if s.evidence.Runs, err = f.runs(ctx); err != nil {
		return err
	}
	return s.report.end(Judge(s.evidence))
}

func (o Options) validate() error {
	switch {
	case o.Kills < 0:
		return invalid(fmt.Sprintf("%d kills cannot be", o.Kills), "--kills is 0 or more")
	case o.Kills > mostKills:
		return invalid(fmt.Sprintf("%d kills are too many", o.Kills), fmt.Sprintf("--kills is at most %d", mostKills))
	case o.Orders < 1:
		return invalid(fmt.Sprintf("%d orders cannot be", o.Orders), "--orders is 1 or more")
	case o.Orders > mostOrders:
		return invalid(fmt.Sprintf("%d orders are too many", o.Orders), fmt.Sprintf("--orders is at most %d", mostOrders))
	case o.Dir == "":
		return invalid("a directory is needed", "--dir names one")
	}
	return nil
}

const (
	mostKills  = 100_000
	mostOrders = 1_000_000
)

func invalid(message, hint string) error {
	return &perdure.Error{Code: journal.CodeInvalid, Op: "demo", Message: message, Hint: hint}
}

// A supervisor starts the world and one worker after the other, and kills the
// workers where the plan says so.
type supervisor struct {
	executable string
	plan       Plan
	files      files
	report     *report
	world      *child[worldEvent]
	address    string // of the world
	evidence   Evidence
	ended      map[string]bool // orders whose end was told
}

func (s *supervisor) run(ctx context.Context) error {
	defer func() {
		if s.world != nil {
			s.world.kill()
		}
	}()
	if err := s.startWorld(); err != nil {
		return err
	}
	for died := (time.Time{}); ; died = time.Now() {
		w, err := start[workerEvent](s.executable, WorkerCommand, workerSetup{
			Store: s.files.store, World: s.address, Orders: s.plan.Orders,
		})
		if err != nil {
			return fmt.Errorf("start a worker: %w", err)
		}
		killed, err := s.attend(ctx, w, died)
		if err != nil || !killed {
			return err
		}
	}
}

func (s *supervisor) startWorld() error {
	w, err := start[worldEvent](s.executable, WorldCommand, worldSetup{
		Ledger: s.files.ledger, Stock: s.plan.Stock, Holds: s.plan.Kills,
		Refused: slices.Sorted(maps.Keys(s.plan.Refused)),
	})
	if err != nil {
		return fmt.Errorf("start the outside world: %w", err)
	}
	e, ok := <-w.events
	if !ok {
		return worldEnded(w)
	}
	s.world, s.address = w, e.Address
	return s.files.sign(mark{Plan: s.plan, World: e.Address})
}

// worldEnded is the error of a world that nobody told to end.
func worldEnded(w *child[worldEvent]) error {
	return fmt.Errorf("the outside world has ended: %w", cmp.Or(w.ended(), errors.New("it does not say why")))
}

// attend looks after a worker until it has ended by itself or was killed as
// planned. The one before it, if any, died at a time.
func (s *supervisor) attend(ctx context.Context, w *child[workerEvent], died time.Time) (killed bool, err error) {
	defer w.kill()
	alive := sync.OnceFunc(func() {
		if !died.IsZero() {
			s.report.restarted(w.pid(), time.Since(died))
		}
	})
	for {
		select {
		case e, more := <-w.events:
			if !more {
				return false, w.ended()
			}
			alive()
			if err := s.note(e); err != nil {
				return false, err
			}
		case e, more := <-s.world.events:
			if !more {
				return false, worldEnded(s.world)
			}
			alive()
			killed, err := s.strike(ctx, w, *e.Held)
			if killed || err != nil {
				return killed, err
			}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// strike kills the worker that waits for the answer to a call, lets the call go,
// and notes what the journal knows at that moment. A call of a worker that is
// dead already stays planned.
func (s *supervisor) strike(ctx context.Context, w *child[workerEvent], c Call) (bool, error) {
	if c.Worker != w.pid() {
		return false, s.world.tell(verdict{})
	}
	for _, e := range w.kill() {
		if err := s.note(e); err != nil {
			return false, err
		}
	}
	if err := s.world.tell(verdict{Killed: true}); err != nil {
		return false, err
	}
	done, err := s.files.finished(ctx, c.Order)
	if err != nil {
		return false, err
	}
	k := Kill{Call: c, Finished: done}
	s.evidence.Kills = append(s.evidence.Kills, k)
	s.report.killed(k)
	return true, nil
}

// note takes in what a worker tells.
func (s *supervisor) note(e workerEvent) error {
	if e.Accepted {
		s.evidence.Accepted[e.Order] = true
	}
	if !e.Ended || s.ended[e.Order] {
		return nil
	}
	s.ended[e.Order] = true
	calls, err := ReadLedger(s.files.ledger)
	if err != nil {
		return err
	}
	s.report.orderEnded(e.Order, calls)
	return nil
}
