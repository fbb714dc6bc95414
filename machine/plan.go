package machine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/definition"
	"github.com/perdure/perdure/internal/failure"
	"github.com/perdure/perdure/pattern"
)

// The codes of issues of a machine, in [definition.Issue].
const (
	IssueNoSteps   = "no-steps"       // it has no step
	IssueFirst     = "unknown-first"  // there is no step of the name of the first one
	IssueDuplicate = "duplicate-step" // two steps have one ID
	IssueName      = "invalid-name"   // an ID is not valid
	IssueTarget    = "unknown-target" // a route leads to a step that there is not
	IssueFunction  = "no-function"    // a function is nil, or there are two
	IssueAmbiguous = "no-route"       // it has targets that nothing can choose
	IssueLimit     = "invalid-limit"  // a policy, a timeout or a number is not valid
	IssueError     = "unknown-error"  // an error route names a class that is not registered
	IssueVersion   = "version"        // versions do not fit together
	IssueUnreached = "unreached-step" // a warning: no route leads to it
)

// A plan is a complete definition: a copy that never changes.
type plan struct {
	*declaration
	byID     map[string]*step
	diagram  definition.Diagram
	issues   []definition.Issue
	versions map[int]*plan // with itself; nil in the plan of an older version
}

// plan completes the definition.
func (d *declaration) plan() *plan {
	p := d.alone()
	p.versions = map[int]*plan{d.version: p}
	for _, o := range d.older {
		where := fmt.Sprintf("version.%d", o.version)
		switch {
		case o.name != d.name:
			p.complain(IssueVersion, where, "an older version has another name: %s", o.name)
		case o.version >= d.version:
			p.complain(IssueVersion, where, "it is not older than version %d", d.version)
		case p.versions[o.version] != nil:
			p.complain(IssueVersion, where, "two machines have this version")
		}
		old := o.alone()
		p.versions[o.version] = old
		for _, i := range old.issues {
			i.Where = at(where, i.Where)
			p.issues = append(p.issues, i)
		}
	}
	return p
}

// alone completes the definition without its older versions.
func (d *declaration) alone() *plan {
	own := *d
	own.steps = nil
	p := &plan{
		declaration: &own, byID: map[string]*step{}, issues: slices.Clone(d.issues),
	}
	for _, s := range d.steps {
		copied := *s
		own.steps = append(own.steps, &copied)
		if p.byID[s.id] != nil {
			p.complain(IssueDuplicate, s.id, "two steps have this ID")
			continue
		}
		p.byID[s.id] = &copied
	}
	p.check()
	p.draw()
	return p
}

func (p *plan) complain(code, where, format string, args ...any) {
	p.issues = append(p.issues, issue(code, where, fmt.Sprintf(format, args...)))
}

// check adds an issue for everything that is wrong.
func (p *plan) check() {
	if len(p.steps) == 0 {
		p.complain(IssueNoSteps, "", "there are no steps")
		return
	}
	if p.byID[p.first] == nil {
		p.complain(IssueFirst, "first", "there is no step %s", failure.Quoted(p.first))
	}
	p.checkRoutes("", p.routes)
	for _, s := range p.steps {
		p.issues = append(p.issues, s.issues...)
		p.checkStep(s)
	}
	reached := p.reached()
	for _, s := range p.steps {
		if !reached[s.id] {
			p.issues = append(p.issues, definition.Issue{
				Severity: definition.SeverityWarning, Code: IssueUnreached, Where: s.id,
				Message: "no route leads to it",
			})
		}
	}
}

// ownWords begin the names of operations of machines.
var ownWords = []string{"undo:", "perdure:", "wait.", "sleep.", "split."}

func (p *plan) checkStep(s *step) {
	if err := pattern.CheckName("ID", s.id, "split."); err != nil {
		p.complain(IssueName, s.id, "%v", err)
	}
	for _, word := range ownWords {
		if strings.HasPrefix(s.id, word) {
			p.complain(IssueName, s.id, "an ID cannot begin with %q", word)
		}
	}
	for _, to := range s.targets {
		if to != End && p.byID[to] == nil {
			p.complain(IssueTarget, at(s.id, "to"), "there is no step %s", failure.Quoted(to))
		}
	}
	for _, to := range s.splits {
		if p.byID[to] == nil {
			p.complain(IssueTarget, at(s.id, "split"), "there is no step %s", failure.Quoted(to))
		}
	}
	if s.route != nil && len(s.targets) == 0 {
		p.complain(IssueAmbiguous, at(s.id, "route"), "it has a route, and no targets: name them "+
			"in To")
	}
	if s.undo == nil && (s.undoRetry != nil || s.undoTimeout > 0) {
		p.issues = append(p.issues, definition.Issue{
			Severity: definition.SeverityWarning, Code: IssueLimit, Where: at(s.id, "undo"),
			Message: "it says how to compensate, and has no compensation",
		})
	}
	p.checkRoutes(s.id, s.routes)
}

func (p *plan) checkRoutes(step string, routes []errorRoute) {
	for _, r := range routes {
		if p.byID[r.to] == nil {
			p.complain(IssueTarget, at(step, "on-error"), "there is no step %s",
				failure.Quoted(r.to))
		}
		for _, on := range r.on {
			if on == nil || !failure.IsClass(on) {
				p.complain(IssueError, at(step, "on-error"), "%v is not registered: RegisterError "+
					"gives it a name, so that it is found in recorded errors", on)
			}
		}
	}
}

// reached returns the steps that routes lead to.
func (p *plan) reached() map[string]bool {
	reached := map[string]bool{}
	var visit func(id string)
	visit = func(id string) {
		s := p.byID[id]
		if s == nil || reached[id] {
			return
		}
		reached[id] = true
		for _, to := range slices.Concat(s.targets, s.splits) {
			visit(to)
		}
		for _, r := range s.routes {
			visit(r.to)
		}
	}
	visit(p.first)
	for _, r := range p.routes {
		visit(r.to)
	}
	return reached
}

// draw makes the diagram. Its states are in the order in which routes come to them, since the order
// in which Go initializes variables is not that of their declarations.
func (p *plan) draw() {
	p.diagram.First = p.first
	for _, s := range p.inOrder() {
		state := definition.State{Name: s.id, Undo: s.undo != nil}
		edge := func(to, label string) {
			state.To = append(state.To, definition.Edge{To: to, Label: label})
		}
		for _, to := range s.splits {
			edge(to, "split")
		}
		for _, to := range s.targets {
			if to == End {
				to = ""
			}
			edge(to, "")
		}
		if len(s.targets) == 0 {
			edge("", "")
		}
		for _, r := range s.routes {
			edge(r.to, "error")
		}
		p.diagram.States = append(p.diagram.States, state)
	}
	for _, r := range p.routes {
		p.diagram.OnError = append(p.diagram.OnError, r.to)
	}
}

// inOrder returns the steps that routes lead to, level by level, and then the others by their IDs.
func (p *plan) inOrder() []*step {
	var all []*step
	known := map[string]bool{}
	add := func(id string) {
		if s := p.byID[id]; s != nil && !known[id] {
			known[id] = true
			all = append(all, s)
		}
	}
	add(p.first)
	for i := 0; i < len(all); i++ {
		for _, to := range slices.Concat(all[i].splits, all[i].targets) {
			add(to)
		}
		for _, r := range all[i].routes {
			add(r.to)
		}
		if i == len(all)-1 {
			for _, r := range p.routes {
				add(r.to)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.byID)) {
		add(id)
	}
	return all
}

// next returns the step that follows, by what the action names: empty for none.
func (s *step) next(named string, output []byte) (string, error) {
	if s.route != nil {
		chosen, err := made(func() string {
			return s.route(Result{Step: s.id, Next: named, Output: output})
		})
		switch {
		case err != nil:
			return "", fmt.Errorf("the route of step %s: %w", s.id, err)
		case chosen == "" && slices.Contains(s.targets, End):
			return "", nil
		case !slices.Contains(s.targets, chosen):
			return "", fmt.Errorf("the route of step %s leads to step %q, which is not one of "+
				"its targets %q: name it in To", s.id, chosen, s.targets)
		}
		named = chosen
	}
	switch {
	case named == "" && len(s.targets) > 1:
		return "", fmt.Errorf("step %s does not say which of its targets %q is next: name one "+
			"with Action.To, or set a Route", s.id, s.targets)
	case named == "" && len(s.targets) == 1:
		named = s.targets[0]
	}
	if named == End {
		named = ""
	}
	return named, nil
}

// afterSkip returns the target that a step names which an operator has skipped: the first one.
func (s *step) afterSkip() string {
	if len(s.targets) == 0 {
		return ""
	}
	return s.targets[0]
}
