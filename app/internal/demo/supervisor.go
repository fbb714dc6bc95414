package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// A supervisor starts the world and one worker after the other, and kills the
// workers where the plan says so.
type supervisor struct {
	options  Options
	plan     Plan
	jobs     map[string]Job // those of the plan, by ID
	files    files
	runs     *runs
	report   *report
	world    *child[worldEvent]
	address  string // of the world
	evidence Evidence
	settled  map[string]State // of runs that have ended, or wait as planned
}

func newSupervisor(ctx context.Context, o Options, p Plan, f files, r *report) (*supervisor, error) {
	s := &supervisor{
		options: o, plan: p, jobs: map[string]Job{}, files: f, report: r,
		evidence: Evidence{Plan: p, Accepted: map[string]bool{}}, settled: map[string]State{},
	}
	for _, j := range p.Jobs {
		s.jobs[j.ID] = j
	}
	var err error
	s.runs, err = openRuns(ctx, f.store)
	return s, err
}

// close ends the world and leaves the file alone.
func (s *supervisor) close() error {
	if s.world != nil {
		s.world.kill()
	}
	return s.runs.close()
}

// run has the workers settle every run, judges that, and lets the last worker go
// on where that is asked for.
func (s *supervisor) run(ctx context.Context, in io.Reader, out io.Writer) error {
	s.report.begin()
	if err := s.startWorld(); err != nil {
		return err
	}
	w, err := s.settle(ctx)
	if err != nil {
		return err
	}
	defer w.kill()
	if s.options.Once {
		if err := w.leave(); err != nil {
			return err
		}
	}
	if err := s.judge(ctx); err != nil || s.options.Once {
		return err
	}
	err = s.serve(ctx, w, in, out)
	if err == nil || errors.Is(err, ErrInterrupted) {
		err = cmp.Or(w.leave(), err)
	}
	return err
}

func (s *supervisor) startWorld() error {
	w, err := start[worldEvent](s.options.Executable, WorldCommand, worldSetup{
		Ledger: s.files.ledger, Stock: s.plan.Stock, Refused: s.plan.Refused, Accounts: s.plan.Accounts, Holds: s.plan.Kills,
	})
	if err != nil {
		return fmt.Errorf("start the outside world: %w", err)
	}
	e, ok := <-w.events
	if !ok {
		return unasked("the outside world", w)
	}
	s.world, s.address = w, e.Address
	return s.files.sign(mark{Plan: s.plan, World: e.Address})
}

// settle has one worker after the other until every run has ended, or waits as
// planned, and gives the last one.
func (s *supervisor) settle(ctx context.Context) (*child[workerEvent], error) {
	for died := (time.Time{}); ; died = time.Now() {
		w, err := start[workerEvent](s.options.Executable, WorkerCommand, workerSetup{
			Store: s.files.store, World: s.address, Jobs: s.plan.Jobs,
		})
		if err != nil {
			return nil, fmt.Errorf("start a worker: %w", err)
		}
		killed, err := s.attend(ctx, w, died)
		switch {
		case err != nil:
			w.kill()
			return nil, err
		case !killed:
			return w, nil
		}
	}
}

// glance is how often the file is asked about runs that wait.
const glance = 50 * time.Millisecond

// attend looks after a worker until every run is settled or the worker was killed
// as planned. The one before it, if any, died at a time.
func (s *supervisor) attend(ctx context.Context, w *child[workerEvent], died time.Time) (killed bool, err error) {
	alive := sync.OnceFunc(func() {
		if !died.IsZero() {
			s.report.restarted(w.pid(), time.Since(died))
		}
	})
	clock := time.NewTicker(glance)
	defer clock.Stop()
	for len(s.settled) < len(s.jobs) || len(s.evidence.Kills) < len(s.plan.Kills) {
		select {
		case e, more := <-w.events:
			if !more {
				return false, unasked("the worker", w)
			}
			alive()
			if err := s.note(ctx, e); err != nil {
				return false, err
			}
		case e, more := <-s.world.events:
			if !more {
				return false, unasked("the outside world", s.world)
			}
			alive()
			if killed, err := s.strike(ctx, w, *e.Held); killed || err != nil {
				return killed, err
			}
		case <-clock.C:
			if _, err := s.look(ctx); err != nil {
				return false, err
			}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

// strike kills the worker that waits for the answer to a call, lets the call go,
// and notes what the file says at that moment. A call of a worker that is dead
// already stays planned.
func (s *supervisor) strike(ctx context.Context, w *child[workerEvent], c Call) (bool, error) {
	if c.Worker != w.pid() {
		return false, s.world.tell(verdict{})
	}
	for _, e := range w.kill() {
		if err := s.note(ctx, e); err != nil {
			return false, err
		}
	}
	if err := s.world.tell(verdict{Killed: true}); err != nil {
		return false, err
	}
	state, err := s.runs.state(ctx, c.Run)
	if err != nil {
		return false, err
	}
	k := Kill{Call: c, Status: state.Status, Finished: state.Done}
	s.evidence.Kills = append(s.evidence.Kills, k)
	s.report.killed(k)
	return true, nil
}

// note takes in what a worker tells.
func (s *supervisor) note(ctx context.Context, e workerEvent) error {
	if e.Accepted {
		s.evidence.Accepted[e.Run] = true
	}
	if _, known := s.settled[e.Run]; known || !e.Ended {
		return nil
	}
	state, err := s.runs.state(ctx, e.Run)
	if err != nil {
		return err
	}
	s.settled[e.Run] = state
	if !s.report.details {
		return nil
	}
	return s.tell(e.Run)
}

// tell tells of a run as the file and the ledger have it.
func (s *supervisor) tell(run string) error {
	calls, err := ReadLedger(s.files.ledger)
	if err == nil {
		s.report.run(s.jobs[run], s.settled[run], calls)
	}
	return err
}

// look asks the file about the runs that wait, and gives those that it says
// something new of.
func (s *supervisor) look(ctx context.Context) (news []string, err error) {
	for _, id := range waiting {
		if !s.evidence.Accepted[id] {
			continue
		}
		state, err := s.runs.state(ctx, id)
		if err != nil {
			return nil, err
		}
		known := s.settled[id]
		if state.rests() && (state.Status != known.Status || !state.Due.Equal(known.Due)) {
			s.settled[id] = state
			news = append(news, id)
		}
	}
	return news, nil
}

// judge tells of the runs that wait, and the checks.
func (s *supervisor) judge(ctx context.Context) error {
	var err error
	if s.evidence.Calls, err = ReadLedger(s.files.ledger); err != nil {
		return err
	}
	if s.evidence.Runs, err = s.runs.all(ctx); err != nil {
		return err
	}
	s.evidence.Judged = time.Now()
	for _, id := range waiting {
		s.report.run(s.jobs[id], s.evidence.Runs[id], s.evidence.Calls)
	}
	return s.report.end(Judge(s.evidence))
}
