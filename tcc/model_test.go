package tcc_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A plot is a TCC and its faults.
type plot struct {
	parts []part
	// decisions of an operator, in order; the last is repeated. If empty, no operator decides
	decisions []string
	ends      string // "cancel" or "timeout": how the run is told to end
	when      string // the body that runs at that time, as phase:participant
	suppress  bool   // a callback suppresses the failure
}

// A part is a participant. In each phase a number of first attempts fail.
type part struct {
	id       string
	order    int
	optional bool
	fails    map[string]int // by phase; forever means all
}

const (
	forever  = 1000
	attempts = 2 // of the policy
)

// An outcome is the expected outcome of a plot, with any crashes.
type outcome struct {
	Status string
	Failed string
	Err    string
	Steps  []string // participants that have begun: status and attempts in the last phase
	// bodies with their attempts: tries in order, confirms by name, cancels in order
	Calls       []string
	DeadLetters []string
	Callbacks   []string
	Suppressed  string
}

// A model is an outcome in progress. It is written from the documented promises, and shares no code
// with the package.
type model struct {
	plot
	outcome
	status   map[string]string
	attempts map[string]int
	asked    map[string]int // number of decisions
}

// expect returns the expected outcome of a plot.
func (p plot) expect() outcome {
	m := &model{
		plot:     p,
		status:   map[string]string{},
		attempts: map[string]int{},
		asked:    map[string]int{},
	}
	sorted := slices.Clone(p.parts)
	slices.SortStableFunc(sorted, func(a, b part) int { return cmp.Compare(a.order, b.order) })
	m.all(sorted)
	for _, one := range sorted {
		if m.status[one.id] != "" {
			m.Steps = append(m.Steps, fmt.Sprintf("%s %s %d", one.id, m.status[one.id],
				m.attempts[one.id]))
		}
	}
	return m.outcome
}

func (m *model) all(sorted []part) {
	var tried []part
	for _, one := range sorted {
		if m.ends != "" && m.when == "try:"+one.id { // it is under way
			m.note("try", one.id, 1)
			m.Err = map[string]string{
				"cancel":  "workflow cancelled: enough",
				"timeout": "workflow timed out",
			}[m.ends]
			m.cancel(append(tried, one), "")
			return
		}
		switch {
		case m.does("try", "TRIED", "TRY_FAILED", one, false):
			tried = append(tried, one)
		case !one.optional:
			m.Err = message("try", one)
			m.cancel(tried, "TRY "+one.id)
			return
		}
	}
	failed, from := "", len(m.Calls)
	for _, one := range tried {
		switch ok := m.does("confirm", "CONFIRMED", "CONFIRM_FAILED", one, true); {
		case ok:
			m.Callbacks = append(m.Callbacks, "step "+one.id)
		case failed == "":
			failed, m.Err = "CONFIRM "+one.id, message("confirm", one)
		}
	}
	slices.Sort(m.Calls[from:])
	if failed != "" {
		m.cancel(tried, failed)
		return
	}
	m.Status = "CONFIRMED"
}

func (m *model) cancel(tried []part, failed string) {
	m.Status, m.Failed = "CANCELED", failed
	for _, one := range slices.Backward(tried) {
		if !m.does("cancel", "CANCELED", "CANCEL_FAILED", one, true) && m.Status == "CANCELED" {
			m.Status, m.Failed, m.Err = "FAILED", "CANCEL "+one.id, message("cancel", one)
		}
	}
	if m.Status != "FAILED" {
		return
	}
	m.Callbacks = append(m.Callbacks, "failure "+m.Err)
	if m.suppress {
		m.Suppressed, m.Status, m.Failed, m.Err = m.Err, "CONFIRMED", "", ""
		return
	}
	m.DeadLetters = []string{strings.TrimPrefix(m.Failed, "CANCEL ")}
}

// does notes the attempts of a phase, and reports whether the participant succeeds in the end.
func (m *model) does(phase, good, bad string, one part, parks bool) bool {
	left := one.fails[phase]
	m.attempts[one.id] = 0
	for {
		n := min(left+1, attempts)
		m.note(phase, one.id, n)
		ok := left < attempts
		if left -= n; ok {
			m.status[one.id] = good
			return true
		}
		m.status[one.id] = bad
		if !parks || len(m.decisions) == 0 {
			return false
		}
		at := m.asked[phase+one.id]
		m.asked[phase+one.id]++
		switch m.decisions[min(at, len(m.decisions)-1)] {
		case "skip":
			return false
		case "handled":
			m.attempts[one.id]++
			m.status[one.id] = good
			return true
		}
	}
}

// note adds n attempts of a phase.
func (m *model) note(phase, id string, n int) {
	for range n {
		m.attempts[id]++
		m.Calls = append(m.Calls, fmt.Sprintf("%s:%s %d", phase, id, m.attempts[id]))
	}
}

func message(phase string, one part) string {
	return fmt.Sprintf("%s of %s failed: odd %s:%s", phase, one.id, phase, one.id)
}
