package demo

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/place"
	"github.com/perdure/perdure/journal"
	"github.com/perdure/perdure/store"
)

// A State is the state of a run in the store.
type State struct {
	Status journal.Status
	Owned  bool      // an engine has it loaded, or had when it died
	Due    time.Time // time at which a waiting run goes on by itself
	Done   []Target  // steps that have a result
}

// rests reports whether the run has ended, or waits unloaded for a time in the future.
func (s State) rests() bool {
	return s.Status.IsTerminal() || s.Status == journal.Waiting && !s.Owned &&
		s.Due.After(time.Now())
}

// A runs reads runs from the database and sends them signals, as the command line does. It
// has no engine, and no engine need run.
type runs struct {
	store store.Store
	*perdure.Client
}

func openRuns(ctx context.Context, at place.Place) (*runs, error) {
	s, err := at.Open(ctx, place.Engine)
	if err != nil {
		return nil, err
	}
	c, err := perdure.NewClient(ctx, s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &runs{s, c}, nil
}

func (r *runs) close() error { return r.store.Close() }

// state returns the state of one run.
func (r *runs) state(ctx context.Context, id string) (State, error) {
	d, err := r.Describe(ctx, id)
	if err != nil {
		return State{}, err
	}
	s := State{Status: d.Head.Status, Owned: d.Head.Owner != 0}
	for _, step := range d.State.Steps {
		if !step.Ended.IsZero() {
			s.Done = append(s.Done, Target{id, step.Op.String()})
		}
	}
	for _, w := range d.State.Waits {
		s.Due = w.Due
	}
	return s, nil
}

// all returns the newest run of each workflow ID: its status, and the full state if it
// waits.
func (r *runs) all(ctx context.Context) (map[string]State, error) {
	states := map[string]State{}
	for q := (perdure.Query{Limit: 1000}); ; {
		heads, next, err := r.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			if _, newer := states[h.WorkflowID]; newer {
				continue
			}
			s := State{Status: h.Status}
			if s.Status == journal.Waiting {
				if s, err = r.state(ctx, h.WorkflowID); err != nil {
					return nil, err
				}
			}
			states[h.WorkflowID] = s
		}
		if next.IsZero() {
			return states, nil
		}
		q.After = next
	}
}

// engine returns the newest engine of a process, or 0 if there is none.
func (r *runs) engine(ctx context.Context, pid int) (journal.EngineID, error) {
	info, err := r.store.Info(ctx)
	if err != nil {
		return 0, err
	}
	for _, e := range slices.Backward(info.Engines) {
		if e.PID == pid {
			return e.ID, nil
		}
	}
	return 0, nil
}

// listed reports whether the store still lists an engine: it was not taken over, and it has
// not left.
func (r *runs) listed(ctx context.Context, id journal.EngineID) (bool, error) {
	info, err := r.store.Info(ctx)
	return slices.ContainsFunc(info.Engines, func(e store.Engine) bool { return e.ID == id }), err
}
