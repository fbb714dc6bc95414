package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/internal/place"
)

// lease is the lease of a worker on PostgreSQL. It is short, because every kill waits for
// its end.
const lease = 2 * time.Second

// takeover limits how long the other workers may take to take over a worker.
const takeover = time.Minute

// A node is a place for a worker. When its worker is killed, the next one takes the place.
type node struct {
	place  int
	worker *child[workerEvent]
	died   time.Time // of the last worker; zero after the next one was reported
	left   bool      // the worker was asked to end
	held   *Kill     // while the worker is paused
}

// news is an event of a worker, or the end of its events.
type news struct {
	node   *node
	worker *child[workerEvent]
	event  workerEvent
	over   bool
}

// begin starts the worker of a node. Each node begins with other runs.
func (s *supervisor) begin(ctx context.Context, n *node) error {
	first := n.place * len(s.plan.Jobs) / s.options.nodes()
	w, err := start[workerEvent](s.options.Executable, WorkerCommand, workerSetup{
		Store: s.files.store.Secret(), Lease: lease, World: s.address,
		Jobs: slices.Concat(s.plan.Jobs[first:], s.plan.Jobs[:first]),
	})
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	n.worker = w
	go func() {
		for e := range w.events {
			select {
			case s.news <- news{node: n, worker: w, event: e}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case s.news <- news{node: n, worker: w, over: true}:
		case <-ctx.Done():
		}
	}()
	return nil
}

// hear handles the news of a worker.
func (s *supervisor) hear(ctx context.Context, n news) error {
	if n.over {
		if n.worker == n.node.worker && !n.node.left {
			return unasked("the worker", n.worker)
		}
		return nil
	}
	if n.worker == n.node.worker {
		s.lives(n.node)
	}
	return s.note(ctx, n.event)
}

// lives reports that a worker has taken the place of a killed one. It reports it once.
func (s *supervisor) lives(n *node) {
	if !n.died.IsZero() {
		s.report.restarted(n.worker.pid(), time.Since(n.died))
		n.died = time.Time{}
	}
}

// strike kills or pauses the worker that waits for the answer to a call, releases the call,
// and records the state of the run in the store at that moment. If the worker is already
// dead or paused, the call stays planned.
func (s *supervisor) strike(ctx context.Context, c Call) error {
	i := slices.IndexFunc(s.nodes, func(n *node) bool {
		return n.worker.pid() == c.Worker && n.held == nil
	})
	if i < 0 {
		return s.world.tell(verdict{})
	}
	n := s.nodes[i]
	s.lives(n)
	engine, err := s.runs.engine(ctx, c.Worker)
	if err != nil {
		return err
	}
	k := Kill{Call: c, Paused: s.pauses[c.Target], At: time.Now(), Engine: engine}
	if k.Paused {
		err = hold(n.worker.cmd.Process)
	} else {
		err = s.kill(ctx, n)
	}
	if err != nil {
		return err
	}
	if err := s.world.tell(verdict{Killed: true}); err != nil {
		return err
	}
	state, err := s.runs.state(ctx, c.Run)
	if err != nil {
		return err
	}
	k.Status, k.Finished = state.Status, state.Done
	s.evidence.Kills = append(s.evidence.Kills, k)
	if k.Paused {
		n.held = &k
		s.report.paused(k)
		return nil
	}
	s.report.killed(k)
	return s.begin(ctx, n)
}

// kill kills a worker and handles the events that it had sent.
func (s *supervisor) kill(ctx context.Context, n *node) error {
	for _, e := range n.worker.kill() {
		if err := s.note(ctx, e); err != nil {
			return err
		}
	}
	n.died = time.Now()
	return nil
}

// attend checks, on a server, whether the dead engines were taken over. It lets a paused
// worker go on when another worker has repeated its call.
func (s *supervisor) attend(ctx context.Context) error {
	if s.files.store.Kind != place.Postgres {
		return nil
	}
	for i := range s.evidence.Kills {
		k := &s.evidence.Kills[i]
		if k.Taken {
			continue
		}
		listed, err := s.runs.listed(ctx, k.Engine)
		if err != nil {
			return err
		}
		if k.Taken = !listed; listed && time.Since(k.At) > takeover {
			return fmt.Errorf("nobody has taken over engine %d of worker %d for %v", k.Engine,
				k.Call.Worker, takeover)
		}
	}
	return s.letGo()
}

// letGo lets each paused worker go on whose call another worker has repeated.
func (s *supervisor) letGo() error {
	for _, n := range s.nodes {
		if n.held == nil {
			continue
		}
		calls, err := ReadLedger(s.files.ledger)
		if err != nil {
			return err
		}
		if _, repeated := n.held.repeated(calls); !repeated {
			if time.Since(n.held.At) > takeover {
				return fmt.Errorf("nobody has done again what worker %d had begun for %v: %s",
					n.held.Call.Worker, takeover, n.held.Call.Target)
			}
			continue
		}
		if err := goOn(n.worker.cmd.Process); err != nil {
			return err
		}
		s.report.resumed(*n.held)
		n.held = nil
	}
	return nil
}
