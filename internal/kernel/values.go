package kernel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/journal"
)

// A values has the values that a run began with, and those that its code and the bodies of its
// steps have set since.
//
// Invariants: the values are a fold of the entries that workflow code knows of, live as on replay:
// the values of a body are added when its result is delivered. A payload that is in rows of its own
// is fetched by the first request for it; the sequence beside it is then 0. The phase is the status
// that code has set. While code is replayed and has not come to the last phase that is recorded,
// the recorded phase counts for the run, and not for its code.
//
// The mu of the run guards it.
type values struct {
	input []byte
	// the entry that has the input, if it is still in the store; else 0
	inputSeq int64
	payload  []byte // the input, or the payload that replaced it
	// the entry that has the payload, if it is still in the store; else 0
	payloadSeq int64
	attributes map[string]string // search attributes
	headers    map[string]string // headers
	changed    bool              // code has set the payload, search attributes or headers
	variables  map[string]*journal.Entry
	keys       map[string]bool     // idempotency keys that the run has used
	claims     map[string]*attempt // the attempts that have added such a key
	versions   map[string]int      // the decided versions of changes

	phase   journal.Status // the status that code has set, by the entry phaseAt; else 0
	phaseAt int64
	// the last status that the journal has as set by code, by the entry recordedAt
	recorded   journal.Status
	recordedAt int64

	tccs int // TCCs within the run that carry out a decision

	steps []string        // the names of steps that code has run, in order
	known map[string]bool // the same names, if there are more than fewNames
}

// newValues returns the values of a run that begins in a phase, or has a memo of its journal.
func newValues(first journal.Status, m *memo) values {
	v := values{phase: first}
	if m != nil {
		v.recorded, v.recordedAt, v.tccs = m.phase, m.phaseAt, m.tccs
	}
	return v
}

// begin sets the values that the run was started with. inputSeq is 1 if the input is still in the
// store, else 0.
func (v *values) begin(input []byte, inputSeq int64, start *journal.StartDetail) {
	v.input, v.inputSeq = input, inputSeq
	v.payload, v.payloadSeq = input, inputSeq
	v.attributes, v.headers = start.Attributes, start.Headers
}

// give replaces the input by that of several starts.
func (v *values) give(input []byte) {
	v.input, v.inputSeq = input, 0
	v.payload, v.payloadSeq = input, 0
}

// startInput returns the input of the run, and the entry to fetch it by; 0 if the input is in
// memory.
func (v *values) startInput() ([]byte, int64) { return v.input, v.inputSeq }

// fetchedInput sets the input, which was in the store.
func (v *values) fetchedInput(data []byte) { v.input, v.inputSeq = data, 0 }

// lastPayload returns the payload, and the entry to fetch it by; 0 if the payload is in memory.
func (v *values) lastPayload() ([]byte, int64) { return v.payload, v.payloadSeq }

// fetchedPayload sets the payload, which was in the store, unless it was replaced meanwhile.
func (v *values) fetchedPayload(data []byte, seq int64) {
	if v.payloadSeq == seq {
		v.payload, v.payloadSeq = data, 0
	}
}

// searchAttributes returns the search attributes. The caller does not change them.
func (v *values) searchAttributes() map[string]string { return v.attributes }

// allHeaders returns the headers. The caller does not change them.
func (v *values) allHeaders() map[string]string { return v.headers }

// inherited returns the headers of a child: its own headers, and the headers of the run except the
// engine's.
func (v *values) inherited(own map[string]string) map[string]string {
	headers := maps.Clone(v.headers)
	maps.DeleteFunc(headers, func(name, _ string) bool { return strings.HasPrefix(name, ownNames) })
	if headers == nil {
		return own
	}
	maps.Copy(headers, own)
	return headers
}

// isChanged reports whether code has set the payload, search attributes or headers.
func (v *values) isChanged() bool { return v.changed }

// note adds the value of an entry, if the entry sets one.
func (v *values) note(e *journal.Entry) {
	switch e.Kind {
	case journal.VariableSet:
		setVariable(&v.variables, e)
	case journal.KeyAdded:
		if v.keys == nil {
			v.keys = map[string]bool{}
		}
		v.keys[string(e.Data)] = true
	case journal.PayloadSet:
		v.changed = true
		v.payload, v.payloadSeq = e.Data, storedAt(e)
	case journal.AttributeSet:
		v.changed = true
		v.attributes = with(v.attributes, e.Op.Name, e.Data)
	case journal.HeaderSet:
		v.changed = true
		v.headers = with(v.headers, e.Detail.Variable, e.Data)
	}
}

// with returns a copy of m in which a name has a value, or none if data is nil.
func with(m map[string]string, name string, data []byte) map[string]string {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]string{}
	}
	if m[name] = string(data); data == nil {
		delete(m, name)
	}
	return m
}

// variable returns the entry that has set a variable, or nil.
func (v *values) variable(name string) *journal.Entry { return v.variables[name] }

// variablesOf returns the entries of variables with those names, or all if there are no names.
func (v *values) variablesOf(names []string) map[string]*journal.Entry {
	if len(names) == 0 {
		return maps.Clone(v.variables)
	}
	out := make(map[string]*journal.Entry, len(names))
	for _, name := range names {
		if e := v.variables[name]; e != nil {
			out[name] = e
		}
	}
	return out
}

// setVariable sets or removes the variable that an entry is about.
func setVariable(all *map[string]*journal.Entry, e *journal.Entry) {
	if *all == nil {
		*all = map[string]*journal.Entry{}
	}
	(*all)[e.Detail.Variable] = e
	if e.Data == nil && e.Spill == 0 {
		delete(*all, e.Detail.Variable)
	}
}

// hasKey reports whether an idempotency key is used. For workflow code a recorded key counts; for
// the body of a step also a key that another body is about to record.
func (v *values) hasKey(key string, inBody bool) bool {
	return v.keys[key] || inBody && v.claims[key].holds()
}

// claimKey reserves a key for an attempt that is about to record it.
func (v *values) claimKey(key string, a *attempt) {
	if v.claims == nil {
		v.claims = map[string]*attempt{}
	}
	v.claims[key] = a
}

// version returns the version of a change, and reports whether it is known.
func (v *values) version(change string) (int, bool) {
	n, ok := v.versions[change]
	return n, ok
}

// know sets the version of a change.
func (v *values) know(change string, version int) {
	if v.versions == nil {
		v.versions = map[string]int{}
	}
	v.versions[change] = version
}

// enter sets the phase by an entry.
func (v *values) enter(e *journal.Entry) { v.phase, v.phaseAt = e.Status, e.Seq }

// knownStatus returns the status as workflow code knows it.
func (v *values) knownStatus() journal.Status { return cmp.Or(v.phase, journal.Running) }

// ownPhase returns the phase that is another status than RUNNING, or 0.
func (v *values) ownPhase() journal.Status {
	if v.phase == journal.Running {
		return 0
	}
	return v.phase
}

// active returns the status that the run's code has set last, also if the code is replayed and has
// not come to it yet.
func (v *values) active() journal.Status {
	if v.recordedAt > v.phaseAt {
		return v.recorded
	}
	return v.knownStatus()
}

// decided returns the status of a run that carries out its decision, also if it waits for an
// operator meanwhile; else 0.
func (v *values) decided() journal.Status {
	if s := v.active(); s.IsDecided() {
		return s
	}
	return 0
}

// decides counts the TCCs within the run by an entry of workflow code.
func (v *values) decides(e *journal.Entry) { v.tccs += decides(e) }

// isTCCDecided reports whether the run, or a TCC within it, carries out the decision to confirm or
// to cancel.
func (v *values) isTCCDecided() bool {
	s := v.decided()
	return s == journal.Confirming || s == journal.Canceling || v.tccs > 0
}

// isPhaseIn reports whether an entry up to last has set the phase.
func (v *values) isPhaseIn(last int64) bool { return v.phaseAt <= last }

// called adds the name of a step that code has run.
func (v *values) called(name string) {
	if len(v.steps) < fewNames && slices.Contains(v.steps, name) || v.known[name] {
		return
	}
	v.steps = append(v.steps, name)
	if len(v.steps) < fewNames {
		return
	}
	if v.known == nil {
		v.known = map[string]bool{}
		for _, n := range v.steps {
			v.known[n] = true
		}
	}
	v.known[name] = true
}

// stepNames returns the names of the steps that code has run, in order.
func (v *values) stepNames() []string { return slices.Clone(v.steps) }

// fewNames is the length up to which a list is searched faster than a map.
const fewNames = 16

// tooLarge returns the failure for a payload over the limit; nil for a smaller one.
func tooLarge(what string, data []byte, limit int) *journal.Failure {
	if len(data) <= limit {
		return nil
	}
	return &journal.Failure{
		Code: journal.CodeTooLarge,
		Message: fmt.Sprintf(
			"%s has %d bytes, the limit of one payload is %d", what, len(data), limit,
		),
	}
}

// spillOver spills a payload of workflow code, which has the turn. The code may wait for a lock
// that a transaction of the run has, and the transaction for the turn: see propose.
func (s *scope) spillOver(what string, data *[]byte) (journal.Number, *journal.Failure) {
	r := s.run
	if len(*data) <= r.k.cfg.SpillOver {
		return r.k.persistPayload(what, data)
	}
	r.mu.Lock()
	r.spills(1)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.spills(-1)
		r.mu.Unlock()
	}()
	return r.k.persistPayload(what, data)
}

// spillOver spills a payload of a body, whose entries go with its result. In a transaction the
// payload goes with them too, because a payload made durable beside it may wait for the lock of the
// transaction.
func (a *attempt) spillOver(what string, data []byte) (journal.Number, *journal.Failure) {
	if k := a.op.run.k; a.op.work.Tx {
		return k.bring(what, data, k.number)
	}
	return a.op.run.k.persistPayload(what, &data)
}

// brings reports whether an entry of the body that names a spilled payload also contains it.
func (a *attempt) brings(spill journal.Number) bool { return spill == 0 || a.op.work.Tx }

// storedAt returns the sequence of an entry whose payload is in rows of its own; 0 if it is not.
func storedAt(e *journal.Entry) int64 {
	if e.Spill == 0 || e.Data != nil {
		return 0
	}
	return e.Seq
}
