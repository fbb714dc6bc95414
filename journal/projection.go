package journal

import "time"

// A Summary is what a projection keeps of a run.
type Summary struct {
	Run        RunID
	WorkflowID string
	Workflow   string
	Pattern    Pattern
	Status     Status
	Steps      map[string]StepStatus // by path
	First      time.Time             // of the first entry
	Last       time.Time             // of the last one
	Failure    string                // its message; empty without
	Events     int
}

// A Projection is a view over many runs: a fold of their entries into
// summaries, by ID, by status and by pattern. It is used by one goroutine at a
// time.
type Projection struct {
	runs  map[RunID]*Aggregate
	order []RunID
}

// NewProjection gives a projection of no runs.
func NewProjection() *Projection { return &Projection{runs: map[RunID]*Aggregate{}} }

// Apply takes in the next entry of a run. The head tells names and pattern,
// which entries do not repeat.
func (p *Projection) Apply(h Head, e Entry) error {
	a := p.runs[h.ID]
	if a == nil {
		a = NewAggregate(h.ID, h.WorkflowID, h.Workflow, h.Pattern)
		p.runs[h.ID] = a
		p.order = append(p.order, h.ID)
	}
	return a.Apply(e)
}

// Run gives the summary of one run, and false where the projection has none.
func (p *Projection) Run(id RunID) (Summary, bool) {
	a := p.runs[id]
	if a == nil {
		return Summary{}, false
	}
	return a.summary(), true
}

// ByStatus gives the summaries of the runs in a status, in the order in which
// the runs were first seen.
func (p *Projection) ByStatus(s Status) []Summary {
	return p.list(func(a *Aggregate) bool { return a.state.Status == s })
}

// ByPattern gives the summaries of the runs of a pattern, in the order in
// which the runs were first seen.
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
