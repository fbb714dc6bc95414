package journal

import (
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
