package schedule

import (
	"context"
	"encoding/json"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/internal/kernel"
	"github.com/perdure/perdure/internal/sealed"
	"github.com/perdure/perdure/journal"
)

const (
	workflowName = kernel.OwnPrefix + "schedule"
	// attribute is the search attribute of the runs that a schedule has started, and of its own.
	attribute = kernel.OwnPrefix + "schedule"
	changes   = kernel.OwnPrefix + "schedule"
	dueTimer  = "due"
	// keptChain is how long a run of a schedule is kept after it has continued as another one.
	keptChain = time.Minute
	// turnsOfRun is the number of decisions after which the run of a schedule continues as another
	// one, so that its journal stays short.
	turnsOfRun = 12
)

// Workflow returns the workflow of schedules. An engine that it is registered with executes the
// schedules of its store.
func Workflow() perdure.Definition { return workflow }

var workflow = perdure.Define(workflowName, follow, own{}, perdure.Retention{
	ByStatus: map[perdure.RunStatus]time.Duration{journal.ContinuedAsNew: keptChain},
}, perdure.About{
	Description: "Starts runs at the times of a schedule",
})

// own is the option of a workflow of this module.
type own struct{}

func (own) ApplyToWorkflow(w *sealed.Workflow) error {
	w.Own, ownWorkflow = true, w
	return nil
}

// ownWorkflow is the workflow of schedules without its types.
var ownWorkflow *sealed.Workflow

// A change is a message to a schedule. One of its fields is set.
type change struct {
	At       time.Time `json:"at"`
	Set      *Spec     `json:"set,omitempty"`
	Declare  *Spec     `json:"declare,omitempty"`
	Pause    bool      `json:"pause,omitempty"`
	Resume   bool      `json:"resume,omitempty"`
	Run      bool      `json:"run,omitempty"`
	Backfill *Filling  `json:"backfill,omitempty"`
	Delete   bool      `json:"delete,omitempty"`
	Note
}

// changeOf returns the change that a message asks for. It returns false for a message that asks for
// none that is valid: anybody may send a signal.
func changeOf(data []byte) (c change, is bool) {
	if json.Unmarshal(data, &c) != nil {
		return c, false
	}
	for _, s := range []*Spec{c.Set, c.Declare} {
		if s == nil {
			continue
		}
		var err error
		if *s, err = s.fill("change"); err != nil {
			return c, false
		}
	}
	return c, true
}

// A follower is the run of a schedule.
type follower struct {
	*state
	inbox *kernel.Operation // the wait for the next change
	timer *kernel.Operation // nil if there is none
	due   time.Time         // of the timer
	child *kernel.Operation // the run that is waited for; nil if there is none
	// what was published last
	defined, come []byte
}

// follow is the code of a schedule. It returns the state at its end.
func follow(ctx context.Context, s *state) (*state, error) {
	if s == nil {
		s = &state{}
	}
	f := &follower{state: s}
	f.defined, f.come = f.encoded()
	for turn := 0; ; turn++ {
		if turn >= turnsOfRun && f.child == nil {
			if more, err := f.close(ctx); err != nil {
				return nil, err
			} else if !more {
				return nil, perdure.ContinueAsNew(ctx, s)
			}
		}
		if err := f.turn(ctx); err != nil {
			return nil, err
		}
		if f.isOver() {
			more, err := f.close(ctx)
			if err != nil || !more || f.isOver() {
				return s, err
			}
			continue
		}
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// turn decides and starts runs.
func (f *follower) turn(ctx context.Context) error {
	if f.Spec.Workflow == "" { // the first change has not come yet
		return f.listen(ctx)
	}
	if err := f.lookUp(ctx); err != nil {
		return err
	}
	d, err := perdure.SideEffect(ctx, "turn", func() (decision, error) {
		return f.decide(kernel.Now(ctx)), nil
	})
	if err != nil {
		return err
	}
	f.apply(d)
	if d.Cancel {
		if err := f.child.CancelChild(ctx, "the next time of schedule "+f.Name+
			" has come"); err != nil {
			return err
		}
	}
	for _, one := range d.Starts {
		if err := f.start(ctx, one, d.Now); err != nil {
			return err
		}
	}
	if err := f.arm(ctx, d.Wake); err != nil {
		return err
	}
	if err := f.publish(ctx); err != nil {
		return err
	}
	return f.listen(ctx)
}

// listen begins to wait for the next change, unless it does already.
func (f *follower) listen(ctx context.Context) (err error) {
	if f.inbox == nil {
		f.inbox, err = kernel.WaitFor(ctx, kernel.Wait{Name: changes})
	}
	return err
}

// arm sets the timer.
func (f *follower) arm(ctx context.Context, due time.Time) (err error) {
	if f.timer != nil && f.due.Equal(due) {
		return nil
	}
	if f.timer != nil {
		if _, err := f.timer.Cancel(ctx, "the schedule has changed"); err != nil {
			return err
		}
		f.timer = nil
	}
	if f.due = due; !due.IsZero() {
		f.timer, _, err = kernel.StartTimer(ctx, kernel.Timer{Name: dueTimer, At: due})
	}
	return err
}

// wait waits for what happens next, and takes it in.
func (f *follower) wait(ctx context.Context) error {
	ops := []*kernel.Operation{f.inbox}
	for _, op := range []*kernel.Operation{f.timer, f.child} {
		if op != nil {
			ops = append(ops, op)
		}
	}
	set, err := kernel.Watch(ctx, ops)
	if err != nil {
		return err
	}
	op, out, err := set.Next()
	set.Close()
	switch {
	case err != nil:
		return err
	case op == f.timer && op != nil:
		f.timer, f.due = nil, time.Time{}
		return nil
	case op == f.child && op != nil:
		return f.childEnded(ctx, out)
	case op == f.inbox:
		return f.changed(ctx, out)
	}
	return failure.Err(out.Failure)
}

// changed takes in a change.
func (f *follower) changed(ctx context.Context, out kernel.Outcome) error {
	f.inbox = nil
	if out.Failure != nil {
		return failure.Err(out.Failure)
	}
	c, is := changeOf(out.Data)
	if !is {
		return nil
	}
	h, err := perdure.SideEffect(ctx, "change", func() (heard, error) {
		now := kernel.Now(ctx).Round(0).UTC()
		return heard{now, f.unstarted(c, now)}, nil
	})
	if err != nil {
		return err
	}
	f.miss(h.Misses)
	f.receive(c, h.Now)
	return nil
}

// A heard is the moment at which a change is taken in.
type heard struct {
	Now    time.Time `json:"now"`
	Misses []Miss    `json:"misses,omitempty"` // times that wait for a start, which the change ends
}

// unstarted returns the times that have come and wait for a start, if the change ends their
// waiting.
func (s *state) unstarted(c change, now time.Time) []Miss {
	isEnding := c.Set != nil || c.Declare != nil && !s.Own || c.Pause
	t, err := s.timetable()
	if !isEnding || err != nil || s.Paused != nil || s.Deleted || s.isFinished() {
		return nil
	}
	came := t.between(s.Floor, c.when(now))
	if came.n == 0 {
		return nil
	}
	return []Miss{{came.first.UTC(), came.last.UTC(), came.n, came.more, changedTime}}
}

// when returns the time from which the change counts. The clocks of machines differ.
func (c change) when(now time.Time) time.Time {
	if c.At.After(now) || c.At.IsZero() {
		return now.Round(0).UTC()
	}
	return c.At
}

// receive takes in a change of a schedule that may not be set yet.
func (s *state) receive(c change, now time.Time) {
	spec := c.Set
	if spec == nil {
		spec = c.Declare
	}
	c.At = c.when(now)
	isNew := s.Spec.Workflow == "" || s.isFinished()
	switch {
	case s.Deleted:
	case isNew && spec != nil:
		old := *s
		*s = *newState(s.Name, *spec, c.Note, c.At)
		s.Covered, s.Revision = old.Covered, old.Revision+1
		s.run, s.isOpen = old.run, old.isOpen
		s.raise(old.Floor)
		s.declare(c, old.Declared)
	case !isNew:
		s.hear(c)
	}
}

// declare records whose the spec is, after a change of it.
func (s *state) declare(c change, known *Spec) {
	if c.Declare != nil {
		known = c.Declare
	}
	s.Declared, s.Own = known, c.Set != nil && (known == nil || !known.equal(*c.Set))
}

// childEnded takes in the end of the run that is waited for.
func (f *follower) childEnded(ctx context.Context, out kernel.Outcome) error {
	f.child = nil
	end, err := f.endOf(ctx, f.Open.ID)
	if err != nil {
		return err
	}
	status, problem := journal.Failed, ""
	if out.Detail != nil && out.Detail.Outcome != 0 {
		status = out.Detail.Outcome
	}
	if out.Failure != nil {
		problem = failure.Clip(out.Failure.Text())
	}
	f.ended(f.Open.ID, status, problem, end)
	return nil
}

// An end is the moment at which the end of a run is taken in.
type end struct {
	Now  time.Time `json:"now"`
	Late bool      `json:"late,omitempty"` // times of the schedule have come before
}

// endOf returns when the run ended of which the schedule has just heard. If times have come in the
// meantime, it asks the store: the run may have ended long ago, while no engine had the schedule.
// Times after its end are not those of an open run.
func (f *follower) endOf(ctx context.Context, id string) (time.Time, error) {
	heard, err := perdure.SideEffect(ctx, "end", func() (end, error) {
		now := kernel.Now(ctx).Round(0).UTC()
		t, err := f.timetable()
		return end{now, err == nil && t.between(f.Floor, now).n > 0}, nil
	})
	if err != nil || !heard.Late {
		return heard.Now, err
	}
	all, err := perdure.Step(ctx, "look-up", func(ctx context.Context) ([]found, error) {
		return find(ctx, []string{id})
	})
	if err != nil {
		return heard.Now, err
	}
	for _, r := range all {
		status, is := journal.ParseStatus(r.Status)
		if is && status.IsTerminal() && r.Ended.Before(heard.Now) {
			return r.Ended, nil
		}
	}
	return heard.Now, nil
}

// close ends the waits, so that the run can continue as another one. It returns true if a change
// has come, which was taken in.
func (f *follower) close(ctx context.Context) (more bool, err error) {
	if err := f.arm(ctx, time.Time{}); err != nil || f.inbox == nil {
		return false, err
	}
	open, err := f.inbox.Cancel(ctx, "the schedule continues as another run")
	if err != nil || open {
		return false, err
	}
	out, err := f.inbox.Await(ctx)
	if err != nil {
		return false, err
	}
	return true, f.changed(ctx, out)
}

// publish shows outside what has changed of the state.
func (f *follower) publish(ctx context.Context) error {
	defined, come := f.encoded()
	if string(defined) != string(f.defined) {
		f.defined = defined
		if err := perdure.Publish(ctx, publishedDefinition, json.RawMessage(defined)); err != nil {
			return err
		}
	}
	if string(come) != string(f.come) {
		f.come = come
		return perdure.Publish(ctx, publishedProgress, json.RawMessage(come))
	}
	return nil
}

// The names under which a schedule shows its state.
const (
	publishedDefinition = "definition"
	publishedProgress   = "progress"
)

// encoded returns both parts of the state.
func (s *state) encoded() (defined, come []byte) {
	defined, _ = json.Marshal(s.definition) // they have no type that does not encode
	come, _ = json.Marshal(s.progress)
	return defined, come
}
