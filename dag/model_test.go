package dag_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/journal"
)

// The model of a graph computes the result that a shape must have, whatever happens meanwhile. It
// knows no time and no engine, and was written from the rows of the specification alone.

// A spec is one step of a shape.
type spec struct {
	id       string
	after    []string
	order    int
	fails    int    // the number of attempts that fail
	attempts int    // the attempts that its policy allows
	when     string // "", "no", "broken", "panics"
	gate     string // "", "signal", "timer", "all", "any", "never"
	child    string // "", "good", "bad", "any", "detached"
	async    bool
	undo     string // "", "good", "bad"
}

// A shape is a graph, and what it is run with.
type shape struct {
	specs      []spec
	limit      int
	suppresses bool
}

// An expectation is the result that a shape must have.
type expectation struct {
	status journal.Status
	layers []map[string]bool // the steps that may begin
	// the steps that the graph waits for and that have begun or are skipped
	steps  map[string]journal.StepStatus
	beside map[string]journal.StepStatus // async steps, if they come to their ends
	failed map[string]bool
}

// level returns the layer of each step: the layer after the last of its dependencies.
func (s shape) level() map[string]int {
	byID := map[string]spec{}
	for _, p := range s.specs {
		byID[p.id] = p
	}
	known := map[string]int{}
	var of func(string) int
	of = func(id string) int {
		if n, is := known[id]; is {
			return n
		}
		n := 0
		for _, before := range byID[id].after {
			n = max(n, of(before)+1)
		}
		known[id] = n
		return n
	}
	for id := range byID {
		of(id)
	}
	return known
}

// comesTo returns the status with which a step ends if it is taken up.
func (p spec) comesTo() journal.StepStatus {
	switch {
	case p.when == "no":
		return journal.StepIsSkipped
	case p.when == "broken" || p.when == "panics" || p.gate == "never" || p.child == "bad":
		return journal.StepIsFailed
	case p.child == "" && p.fails >= p.attempts:
		return journal.StepIsFailed
	}
	return journal.StepIsDone
}

// tries returns the number of attempts of the step.
func (p spec) tries() int {
	switch {
	case p.when == "no":
		return 0
	case p.when != "" || p.gate == "never" || p.child != "":
		return 1
	}
	return min(p.fails+1, p.attempts)
}

// expect returns the result that a shape must have.
func (s shape) expect() expectation {
	e := expectation{
		status: journal.Completed, steps: map[string]journal.StepStatus{},
		beside: map[string]journal.StepStatus{}, failed: map[string]bool{},
	}
	levels := s.level()
	for at := range slices.Max(slices.Collect(maps.Values(levels))) + 1 {
		layer := map[string]bool{}
		for _, p := range s.specs {
			if levels[p.id] != at {
				continue
			}
			layer[p.id] = true
			switch came := p.comesTo(); {
			case p.async && came != journal.StepIsSkipped:
				e.beside[p.id] = came
			default:
				e.steps[p.id] = came
				e.failed[p.id] = came == journal.StepIsFailed
			}
		}
		e.layers = append(e.layers, layer)
		maps.DeleteFunc(e.failed, func(_ string, failed bool) bool { return !failed })
		if len(e.failed) > 0 {
			e.status = journal.Failed
			break
		}
	}
	if e.status == journal.Failed && s.suppresses {
		e.status = journal.Completed
	}
	return e
}

// An observation is the observed result of a shape.
type observation struct {
	status      journal.Status
	suppressed  bool
	compensates bool
	steps       map[string]journal.StepStatus // as in the report
	attempts    map[string]int
	ended       []string // steps that are done, in the order of their records
	undone      []string // steps whose compensation has ended, in the order of their ends
	letters     []string
	why         string // the step that the error of the run names
	calls       map[string]int
	diary       []string // "begin id", "end id"
	// the idempotency keys that a step, or its compensation, was executed with
	keys map[string]map[string]bool
}

// judge returns the differences between an observation and the model.
func (s shape) judge(o observation) (bad []string) {
	e := s.expect()
	wrong := func(format string, args ...any) { bad = append(bad, fmt.Sprintf(format, args...)) }
	if o.status != e.status {
		wrong("the run is %v, not %v", o.status, e.status)
	}
	if o.suppressed != (len(e.failed) > 0 && s.suppresses) {
		wrong("an error was suppressed: %v", o.suppressed)
	}
	done := map[string]bool{}
	for _, id := range o.ended {
		done[id] = true
	}
	var undos []string
	for _, p := range s.specs {
		bad = append(bad, s.judgeStep(p, e, o, done)...)
		if p.undo != "" && done[p.id] && len(e.failed) > 0 {
			undos = append(undos, p.id)
		}
	}
	slices.SortFunc(undos, func(a, b string) int {
		return slices.Index(o.ended, b) - slices.Index(o.ended, a)
	})
	if !slices.Equal(undos, o.undone) {
		wrong("%q are undone, not %q", o.undone, undos)
	}
	want := slices.Sorted(maps.Keys(e.failed))
	if s.suppresses { // a success has no dead letters
		want = nil
	}
	if !slices.Equal(slices.Sorted(slices.Values(o.letters)), want) {
		wrong("there are dead letters of %q, not of %q", o.letters, want)
	}
	if len(e.failed) > 0 && !e.failed[o.why] {
		wrong("the run blames step %q", o.why)
	}
	if (o.calls["failure"] > 0) != (len(e.failed) > 0) {
		wrong("the error callback is called %d times", o.calls["failure"])
	}
	return slices.Concat(bad, s.judgeOrder(o), s.judgeLimit(o))
}

func (s shape) judgeStep(p spec, e expectation, o observation,
	done map[string]bool) (bad []string) {
	wrong := func(format string, args ...any) {
		bad = append(bad, p.id+" "+fmt.Sprintf(format, args...))
	}
	got, is := o.steps[p.id]
	want, waited := e.steps[p.id]
	beside, aside := e.beside[p.id]
	if done[p.id] && len(e.failed) > 0 && p.undo != "" { // its status is that of the compensation
		undone := map[string]journal.StepStatus{
			"good": journal.StepIsCompensated,
			"bad":  journal.StepIsCompensationFailed,
		}[p.undo]
		if got != undone {
			wrong("is %v, not %v", got, undone)
		}
		want, beside = got, got
	}
	switch {
	case waited && got != want:
		wrong("is %v, not %v", got, want)
	case aside && is && got != beside && got != journal.StepIsCancelled:
		wrong("is %v, and may be %v or cancelled", got, beside)
	case !waited && !aside && is:
		wrong("is %v, and should not have begun", got)
	case waited && o.attempts[p.id] != p.tries():
		wrong("had %d attempts, not %d", o.attempts[p.id], p.tries())
	}
	if waited && (o.calls["step "+p.id] > 0) != done[p.id] {
		wrong("is done: %v, and its callback is called %d times", done[p.id], o.calls["step "+p.id])
	}
	if len(o.keys[p.id]) > 1 || len(o.keys["undo "+p.id]) > 1 {
		wrong("was executed with the keys %v and %v", o.keys[p.id], o.keys["undo "+p.id])
	}
	for key := range o.keys[p.id] {
		if o.keys["undo "+p.id][key] {
			wrong("and its compensation have one key: %s", key)
		}
	}
	return bad
}

// judgeOrder returns the steps that began before the layer before them had ended.
func (s shape) judgeOrder(o observation) (bad []string) {
	levels := s.level()
	for _, p := range s.specs {
		begins := slices.Index(o.diary, "begin "+p.id)
		if begins < 0 {
			continue
		}
		for _, q := range s.specs {
			if levels[q.id] >= levels[p.id] || q.async {
				continue
			}
			if late := slices.Contains(o.diary[begins:], "end "+q.id); late && !crashed(o.diary) {
				bad = append(bad, fmt.Sprintf("%s has begun before %s had ended", p.id, q.id))
			}
		}
	}
	return bad
}

// judgeLimit returns the places where more steps went on at once than the limit allows.
func (s shape) judgeLimit(o observation) (bad []string) {
	going := 0
	for _, line := range o.diary {
		verb, id, _ := strings.Cut(line, " ")
		if i := slices.IndexFunc(s.specs, func(p spec) bool { return p.id == id }); i < 0 ||
			s.specs[i].async {
			continue
		}
		switch verb {
		case "begin":
			going++
		case "end":
			going--
		}
		if s.limit > 0 && going > s.limit && !crashed(o.diary) {
			bad = append(bad, fmt.Sprintf("%d steps go on at once, and %d may", going, s.limit))
		}
	}
	return bad
}

func crashed(diary []string) bool { return slices.Contains(diary, "crash") }
