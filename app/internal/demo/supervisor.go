package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// A supervisor starts the world and the workers. It kills or pauses workers at the planned
// calls, and replaces the killed ones.
type supervisor struct {
	options  Options
	plan     Plan
	jobs     map[string]Job // jobs of the plan, by ID
	pauses   map[Target]bool
	files    files
	runs     *runs
	report   *report
	world    *child[worldEvent]
	address  string // of the world
	nodes    []*node
	news     chan news
	evidence Evidence
	settled  map[string]State // of runs that have ended or wait as planned
}

func newSupervisor(ctx context.Context, o Options, p Plan, f files, r *report) (*supervisor,
	error) {
	s := &supervisor{
		options: o, plan: p, jobs: map[string]Job{}, pauses: map[Target]bool{}, files: f, report: r,
		news:     make(chan news),
		evidence: Evidence{Plan: p, Cluster: o.nodes() > 1, Accepted: map[string]bool{}},
		settled:  map[string]State{},
	}
	for _, j := range p.Jobs {
		s.jobs[j.ID] = j
	}
	for _, t := range p.Pauses {
		s.pauses[t] = true
	}
	var err error
	s.runs, err = openRuns(ctx, f.store)
	return s, err
}

// close kills the workers and the world. It does not drop the database.
func (s *supervisor) close() error {
	for _, n := range s.nodes {
		n.worker.kill()
	}
	if s.world != nil {
		s.world.kill()
	}
	return s.runs.close()
}

// run runs the workers until every run is settled, and judges the result. Without Once it
// then lets the last workers go on.
func (s *supervisor) run(ctx context.Context, in io.Reader, out io.Writer) error {
	s.report.begin(s.options.nodes())
	if err := s.startWorld(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the goroutines that pass on events of workers
	if err := s.settle(ctx); err != nil {
		return err
	}
	if s.options.Once {
		if err := s.leave(); err != nil {
			return err
		}
	}
	if err := s.judge(ctx); err != nil || s.options.Once {
		return err
	}
	err := s.serve(ctx, in, out)
	if err == nil || errors.Is(err, ErrInterrupted) {
		err = cmp.Or(s.leave(), err)
	}
	return err
}

// leave asks every worker to end in order, and waits for them.
func (s *supervisor) leave() error {
	var err error
	for _, n := range s.nodes {
		n.left = true
		err = errors.Join(err, n.worker.leave())
	}
	return err
}

func (s *supervisor) startWorld() error {
	w, err := start[worldEvent](s.options.Executable, WorldCommand, worldSetup{
		Ledger: s.files.ledger, Stock: s.plan.Stock, Accounts: s.plan.Accounts,
		Holds: slices.Concat(s.plan.Kills, s.plan.Pauses),
	})
	if err != nil {
		return fmt.Errorf("start the outside world: %w", err)
	}
	e, ok := <-w.events
	if !ok {
		return unasked("the outside world", w)
	}
	s.world, s.address = w, e.Address
	return s.files.listens(e.Address)
}

// glance is the interval at which the store is asked about runs that wait.
const glance = 50 * time.Millisecond

// settle runs the workers until every run has ended, or waits as planned, and every kill
// and pause is over.
func (s *supervisor) settle(ctx context.Context) error {
	for place := range s.options.nodes() {
		n := &node{place: place}
		s.nodes = append(s.nodes, n)
		if err := s.begin(ctx, n); err != nil {
			s.nodes = s.nodes[:place]
			return err
		}
	}
	clock := time.NewTicker(glance)
	defer clock.Stop()
	for !s.isSettled() {
		var err error
		select {
		case n := <-s.news:
			err = s.hear(ctx, n)
		case e, more := <-s.world.events:
			if !more {
				return unasked("the outside world", s.world)
			}
			err = s.strike(ctx, *e.Held)
		case <-clock.C:
			if _, err = s.look(ctx); err == nil {
				err = s.attend(ctx)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *supervisor) isSettled() bool {
	if len(s.settled) < len(s.jobs) || len(s.evidence.Kills) < len(s.plan.Kills)+
		len(s.plan.Pauses) {
		return false
	}
	for _, k := range s.evidence.Kills {
		if s.evidence.Cluster && !k.Taken {
			return false
		}
	}
	return !slices.ContainsFunc(s.nodes, func(n *node) bool { return n.held != nil })
}

// note handles an event of a worker.
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

// tell reports a run as the store and the ledger have it.
func (s *supervisor) tell(run string) error {
	calls, err := ReadLedger(s.files.ledger)
	if err == nil {
		s.report.run(s.jobs[run], s.settled[run], calls)
	}
	return err
}

// look reads the state of the runs that wait, and returns the IDs of those whose state
// changed.
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

// judge reports the runs that wait, and the checks.
func (s *supervisor) judge(ctx context.Context) error {
	var err error
	if s.evidence.Calls, err = ReadLedger(s.files.ledger); err != nil {
		return err
	}
	if s.evidence.Runs, err = s.runs.all(ctx); err != nil {
		return err
	}
	s.evidence.Judged = time.Now()
	if s.evidence.Cluster {
		s.report.moved(takeovers(s.evidence))
	}
	for _, id := range waiting {
		s.report.run(s.jobs[id], s.evidence.Runs[id], s.evidence.Calls)
	}
	return s.report.end(Judge(s.evidence))
}
