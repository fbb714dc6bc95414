package journal

import "time"

// A Summary is the state of one run in a projection.
type Summary struct {
	Run        RunID
	WorkflowID string
	Workflow   string
	Pattern    Pattern
	Status     Status
	Steps      map[string]StepStatus // by path
	First      time.Time             // the time of the first entry
	Last       time.Time             // the time of the last entry
	Failure    string                // the message of the failure; may be empty
	Events     int
}

// A Projection is a view of many runs: their entries, folded into summaries by ID, by status and by
// pattern. A Projection is for one goroutine at a time.
type Projection struct {
	runs  map[RunID]*Aggregate
	order []RunID
}

// NewProjection returns a projection without runs.
func NewProjection() *Projection { return &Projection{runs: map[RunID]*Aggregate{}} }

// Apply applies the next entry of a run. Names and pattern, which entries do not repeat, are taken
// from the head.
func (p *Projection) Apply(h Head, e Entry) error {
	a := p.runs[h.ID]
	if a == nil {
		a = NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
		p.runs[h.ID] = a
		p.order = append(p.order, h.ID)
	}
	return a.Apply(e)
}

// Run returns the summary of one run, and false if the projection does not have the run.
func (p *Projection) Run(id RunID) (Summary, bool) {
	a := p.runs[id]
	if a == nil {
		return Summary{}, false
	}
	return a.summary(), true
}

// ByStatus returns the summaries of the runs with a status, in the order in which the runs were
// first seen.
func (p *Projection) ByStatus(s Status) []Summary {
	return p.list(func(a *Aggregate) bool { return a.state.Status == s })
}

// ByPattern returns the summaries of the runs of a pattern, in the order in which the runs were
// first seen.
func (p *Projection) ByPattern(pt Pattern) []Summary {
	return p.list(func(a *Aggregate) bool { return a.state.Pattern == pt })
}

func (p *Projection) list(ok func(*Aggregate) bool) []Summary {
	var out []Summary
	for _, id := range p.order {
		if a := p.runs[id]; ok(a) {
			out = append(out, a.summary())
		}
	}
	return out
}

func (a *Aggregate) summary() Summary {
	s := &a.state
	out := Summary{
		Run: s.Run, WorkflowID: s.WorkflowID, Workflow: s.Workflow, Pattern: s.Pattern,
		Status: s.Status, Steps: map[string]StepStatus{}, First: s.Started, Last: s.Last,
		Events: s.Events,
	}
	if s.Failure != nil {
		out.Failure = s.Failure.Message
	}
	for i := range s.Steps {
		out.Steps[s.Steps[i].Path] = s.Steps[i].Status
	}
	return out
}
