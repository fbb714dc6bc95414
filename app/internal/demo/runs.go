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

// A State is what the store says of a run.
type State struct {
	Status journal.Status
	Owned  bool      // an engine has it in memory, or had when it died
	Due    time.Time // when it goes on by itself, where it waits for something
	Done   []Target  // its steps that have a result
}

// rests says whether nothing more comes of the run by itself: it has ended, or
// waits and is nowhere but in the store.
func (s State) rests() bool {
	return s.Status.IsTerminal() || s.Status == journal.Waiting && !s.Owned &&
		s.Due.After(time.Now())
}

// runs reads runs from the file, and sends them what people send them, as the
// command line does: it has no engine, and none need run.
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

// state tells of one run.
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

// all tells of every run, by workflow ID: its status, and of those that wait what
// for.
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
		if next == 0 {
			return states, nil
		}
		q.After = next
	}
}

// engine gives the engine of a process; 0 where there is none.
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

// listed says whether an engine has a row still: nobody has taken it over, and it has
// not left.
func (r *runs) listed(ctx context.Context, id journal.EngineID) (bool, error) {
	info, err := r.store.Info(ctx)
	return slices.ContainsFunc(info.Engines, func(e store.Engine) bool { return e.ID == id }), err
}
