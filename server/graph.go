package server

import (
	"context"

	"github.com/perdure/perdure/api"
	"github.com/perdure/perdure/internal/present"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/machine"
)

// A RunGraph is the topology of a run's workflow, with what the run has done.
type RunGraph struct {
	Topology
	Steps   []api.Step `json:"steps"`
	Visited []string   `json:"visited,omitempty"` // the states of a step machine, in order
	// Exchanges are the newest ones, the oldest first; Earlier is how many came before.
	Exchanges []api.Exchange `json:"exchanges,omitempty" doc:"what the run has received and sent, the newest only, in order"`
	Earlier   int            `json:"earlier,omitempty" doc:"how many exchanges came before these"`
	RootCause []api.Failing  `json:"root_cause,omitempty" doc:"from this run down to the one in which its failure began"`
}

const (
	maxExchanges   = 500
	maxGenerations = 20 // of runs that a root cause is looked for in
)

func (s runRoutes) graph(ctx context.Context, in *RunIn) (RunGraph, error) {
	d, err := s.describe(ctx, in)
	if err != nil {
		return RunGraph{}, err
	}
	t, err := s.topology(ctx, &WorkflowIn{d.Workflow})
	if journal.CodeOf(err) == journal.CodeNotFound {
		t, err = Topology{Workflow: d.Workflow}, nil
	}
	out := RunGraph{Topology: t, Steps: d.Steps}
	if out.Steps == nil {
		out.Steps = []api.Step{}
	}
	if err != nil {
		return out, err
	}
	failures, err := s.trace(ctx, d.RunID, &out)
	if err != nil {
		return out, err
	}
	if out.RootCause, err = s.rootCause(ctx, d, failures); err != nil || t.Diagram == nil {
		return out, err
	}
	r, err := s.client.Report(ctx, d.RunID)
	if err == nil {
		out.Visited = machine.Visited(r)
		out.Mermaid = t.Diagram.Mermaid(out.Visited...)
	}
	return out, err
}

// trace adds the exchanges of a run to its graph, and returns its failures. A journal that is
// damaged is read up to the damage.
func (s runRoutes) trace(ctx context.Context, run string, to *RunGraph) ([]present.Failure, error) {
	var failures []present.Failure
	err := s.walk(ctx, run, 1, pageOfEvents, func(e api.Entry) bool {
		if f, is := present.FailureOf(e); is {
			failures = append(failures, f)
		}
		if x, is := present.Exchange(e); is && to != nil {
			if to.Exchanges = append(to.Exchanges, x); len(to.Exchanges) > maxExchanges {
				to.Exchanges, to.Earlier = to.Exchanges[1:], to.Earlier+1
			}
		}
		return true
	})
	if journal.CodeOf(err) == journal.CodeCorrupt {
		err = nil
	}
	return failures, err
}

// rootCause returns the runs from a run down to the one in which its failure began: a run that
// failed because of a child is followed by that child.
func (s runRoutes) rootCause(ctx context.Context, d api.Description,
	failures []present.Failure) ([]api.Failing, error) {
	var all []api.Failing
	for {
		f, child := present.Failing(d, failures)
		if f == nil {
			return all, nil
		}
		if all = append(all, *f); child == "" || len(all) == maxGenerations {
			return all, nil
		}
		below, err := s.describe(ctx, &RunIn{child})
		if err == nil {
			failures, err = s.trace(ctx, child, nil)
		}
		if journal.CodeOf(err) == journal.CodeNotFound { // retention has removed it
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		d = below
	}
}
