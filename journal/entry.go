package journal

import (
	"cmp"
	"strconv"
	"time"
)

// An Op is the identity of a durable operation: what it is found by when a
// journal is replayed. It is known by scope, name and key, else by scope, name
// and occurrence, never by position. The same name and key again in one scope
// is its next occurrence.
type Op struct {
	Scope int64  // sequence of the entry that opened the scope; 0 is the run's own
	Name  string // what the author calls it
	Key   string // tells apart what a loop does; empty without
	Occ   int    // 1 for the first of this scope, name and key
}

// String shows the operation without its scope: charge, ship[4711], charge#2.
func (o Op) String() string {
	s := o.Name
	if o.Key != "" {
		s += "[" + o.Key + "]"
	}
	if o.Occ > 1 {
		s += "#" + strconv.Itoa(o.Occ)
	}
	return s
}

// IsZero says whether o names no operation.
func (o Op) IsZero() bool { return o == Op{} }

// An Entry is one fact in a run's journal. (Run, Seq) is unique. Entries are
// never changed. They become durable in the order of Seq, and nothing outside
// the run may depend on an entry before it is durable.
type Entry struct {
	Run    Number
	Seq    int64 // 1 for the first
	Kind   Kind
	Status Status // of the run from here on; zero where it stays as it was
	Op     Op     // zero where the run itself is meant
	At     time.Time
	Took   time.Duration // how long the attempt took that this entry is the result of
	Data   []byte        // the payload, exactly as encoded; nil where it is spilled
	Spill  Number        // names the payload in rows of its own; zero where it is in Data
	Detail *Detail       // what is rarely there; nil without
}

// A Detail has the parts of an entry that few entries have.
type Detail struct {
	Attempt  int       `json:"attempt,omitempty"`  // of a step, counted from 1; 0 where it was the first and only
	Due      time.Time `json:"due,omitzero"`       // when a retry or timer is due
	Failure  *Failure  `json:"failure,omitempty"`  // how it failed
	Reason   string    `json:"reason,omitempty"`   // why it was cancelled or suspended
	Build    string    `json:"build,omitempty"`    // of the program that wrote what follows
	Engine   EngineID  `json:"engine,omitempty"`   // that took the run up
	Once     string    `json:"once,omitempty"`     // names the checkpoint within its step
	Async    bool      `json:"async,omitempty"`    // the step runs beside its workflow
	Declared bool      `json:"declared,omitempty"` // the step is one of a declaration: it begins however those beside it end
	Tx       bool      `json:"tx,omitempty"`       // the result was recorded in a transaction of the application's
	ByWait   bool      `json:"by_wait,omitempty"`  // a cancellation that the end of a context caused
	Failures int       `json:"failures,omitempty"` // panics of the run's code in a row
	Version  int       `json:"version,omitempty"`  // what a change marker decided
	Phase    string    `json:"phase,omitempty"`    // of a TCC
	Variable string    `json:"variable,omitempty"` // the name of one
	ByStep   bool      `json:"by_step,omitempty"`  // the body of the step set the variable, or added the key; it counts from the result on
	Other    RunID     `json:"other,omitempty"`    // the child, parent, predecessor or successor

	Branch    bool   `json:"branch,omitempty"`     // of a scope: it has a goroutine of its own
	Heard     bool   `json:"heard,omitempty"`      // it began after its branch had learned of something that began outside the branch
	StandsFor int64  `json:"stands_for,omitempty"` // of a scope: what is done in it is done for this one
	Does      string `json:"does,omitempty"`       // of a scope: the step beside it, of its key, that its branch does

	// Of messages, and of the entries that take them.
	Mail    int64    `json:"mail,omitempty"`    // number of the message that this entry takes from the inbox
	Taken   int64    `json:"taken,omitempty"`   // number of the message that it took in the run that this one retries
	Message string   `json:"message,omitempty"` // the sender's ID of the message: the same ID counts once for a chain of runs
	To      string   `json:"to,omitempty"`      // the workflow ID of a message that found no run
	Outcome Status   `json:"outcome,omitempty"` // how a child ended; of RunClosing how the run will
	Choices []string `json:"choices,omitempty"` // what an operator may decide
	Event   string   `json:"event,omitempty"`   // the type of an emitted event
	Tells   string   `json:"tells,omitempty"`   // what a pattern's event tells: that a step completed, say
	Topic   string   `json:"topic,omitempty"`   // that the event is published under
	Routing string   `json:"routing,omitempty"` // its key there
	Policy  string   `json:"policy,omitempty"`  // of a child: what becomes of it when its parent ends
	Tell    bool     `json:"tell,omitempty"`    // somebody is to be told of this entry at least once

	// Of a start.
	Headers     map[string]string `json:"headers,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"` // search attributes that it begins with
	Began       time.Time         `json:"began,omitzero"`       // when the predecessor was started
	Ended       time.Time         `json:"ended,omitzero"`       // when the predecessor ended
	CleansUp    bool              `json:"cleans_up,omitempty"`  // its code plans a clean-up before anything else, which has no record; also of a claim
	Retried     RunID             `json:"retried,omitempty"`    // the run that failed and that this one retries: its journal begins with what is still valid of that one's
	Keys        RunID             `json:"keys,omitempty"`       // the run whose idempotency keys its steps have; empty for its own
	Renewed     map[string]RunID  `json:"renewed,omitempty"`    // by the path of a step, or of what it is a phase of, whose keys it has instead: it was undone since
	DeadLetters []string          `json:"letters,omitempty"`    // workflow IDs of the dead letters that it is to settle
	Layers      [][]string        `json:"layers,omitempty"`     // the steps of its declaration, layer by layer, as it began; also of its first claim
}

// ByMessage says whether a message was taken by the entry, be it in the run that its
// own run retries.
func (d *Detail) ByMessage() bool { return d.Mail != 0 || d.Taken != 0 }

// KeysOf gives, of the start of a run, the run whose idempotency keys a step has, by its
// path or that of what it is a phase of; empty for the run itself.
func (d *Detail) KeysOf(path string) RunID {
	if d == nil {
		return ""
	}
	return cmp.Or(d.Renewed[path], d.Keys)
}

// Attempt is the attempt that the entry belongs to, counted from 1.
func (e *Entry) Attempt() int {
	if e.Detail == nil || e.Detail.Attempt == 0 {
		return 1
	}
	return e.Detail.Attempt
}

// Failure says how what the entry records failed; nil where it did not.
func (e *Entry) Failure() *Failure {
	if e.Detail == nil {
		return nil
	}
	return e.Detail.Failure
}

// Began is when the attempt began that this entry is the result of.
func (e *Entry) Began() time.Time { return e.At.Add(-e.Took) }

// Size is about what the entry takes in memory and on disk, in bytes.
func (e *Entry) Size() int {
	n := 64 + len(e.Op.Name) + len(e.Op.Key) + len(e.Data)
	if e.Detail != nil {
		n += 128 + e.Detail.size()
	}
	return n
}

// size is the part of a detail's size that has no bound.
func (d *Detail) size() int {
	n := d.Failure.size() + len(d.Reason)
	for _, texts := range append([][]string{d.Choices, d.DeadLetters}, d.Layers...) {
		for _, t := range texts {
			n += len(t)
		}
	}
	for path, run := range d.Renewed {
		n += len(path) + len(run)
	}
	for _, m := range []map[string]string{d.Headers, d.Attributes} {
		for k, v := range m {
			n += len(k) + len(v)
		}
	}
	return n
}
