package journal

import (
	"bytes"
	"strconv"
	"time"
)

// An Op identifies a durable operation: replay finds the operation by it. The identity is scope,
// name and key. Without a key it is scope, name and occurrence. It is never the position. The same
// name and key again in one scope is the next occurrence.
type Op struct {
	Scope int64  // the sequence of the entry that opened the scope; 0 means the run's own scope
	Name  string // the name that the author chose
	Key   string // distinguishes the operations of a loop; may be empty
	Occ   int    // 1 for the first of this scope, name and key
}

// String returns the operation without its scope, such as charge, ship[4711] or charge#2.
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

// IsZero reports whether o names no operation.
func (o Op) IsZero() bool { return o == Op{} }

// An Entry is one fact in a run's journal. (Run, Seq) is unique. Entries never change. They become
// durable in the order of Seq, and nothing outside the run may depend on an entry before it is
// durable.
type Entry struct {
	Run    Number
	Seq    int64 // 1 for the first
	Kind   Kind
	Status Status // the status of the run from here on; zero if it stays as it was
	Op     Op     // zero if the entry is about the run itself
	At     time.Time
	Took   time.Duration // the duration of the attempt that this entry is the result of
	Data   []byte        // the payload, exactly as encoded; nil if it is spilled
	// the number of the payload if it is stored in rows of its own; zero if it is in Data
	Spill  Number
	Detail *Detail // fields that few entries need; may be nil
}

// EncodedPrefix begins a payload that a codec has encoded. No JSON begins with it.
const EncodedPrefix = "\x00pd"

// IsEncoded reports whether a codec has encoded a part of the entry. Who reads the entry through a
// store with that codec sees none that is.
func (e *Entry) IsEncoded() bool {
	return bytes.HasPrefix(e.Data, []byte(EncodedPrefix)) ||
		e.Detail != nil && e.Detail.Sealed != nil
}

// Attempt returns the attempt that the entry belongs to, counted from 1.
func (e *Entry) Attempt() int {
	if e.Detail == nil || e.Detail.Attempt == 0 {
		return 1
	}
	return e.Detail.Attempt
}

// Failure returns the failure that the entry records; nil if there is none.
func (e *Entry) Failure() *Failure {
	if e.Detail == nil {
		return nil
	}
	return e.Detail.Failure
}

// Began returns the time when the attempt began whose result this entry is.
func (e *Entry) Began() time.Time { return e.At.Add(-e.Took) }

// OutputSize returns the size in bytes of what the body of a step has put out with this entry.
func (e *Entry) OutputSize() int {
	if e.Spill != 0 && e.Detail != nil {
		return e.Detail.Size
	}
	return len(e.Data)
}

// Size returns the approximate size of the entry in memory and on disk, in bytes.
func (e *Entry) Size() int {
	n := 64 + len(e.Op.Name) + len(e.Op.Key) + len(e.Data)
	if e.Detail != nil {
		n += 128 + e.Detail.size()
	}
	return n
}
